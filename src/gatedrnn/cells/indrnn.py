"""Independently recurrent network (Li et al. 2018, arXiv:1803.04831)."""

from collections.abc import Mapping
from typing import Literal, Never

import torch
from torch import Tensor, nn

from gatedrnn.equations import Diagonal, ElementwiseLoopEquations, Recurrent
from gatedrnn.layers import RecurrentLayer, SingleStep, documented
from gatedrnn.registry import register
from gatedrnn.shapes import State, Step

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}


class IndRNNEquations(ElementwiseLoopEquations):
    """Independently recurrent network: no gate, and a state that each channel reads alone.

    h = relu(W x + u * h)

    u is a weight a channel. State h, which is the output, one bias. The activation may be tanh instead.
    Li et al. 2018, arXiv:1803.04831.
    """

    name = "indrnn"
    projections = ("candidate",)
    diagonals = {"u": Diagonal("candidate")}

    def __init__(self, activation: Literal["relu", "tanh"] = "relu") -> None:
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
        self.activation = activation

    def fill_diagonals(self, weights: Mapping[str, Tensor]) -> None:
        """Uniform from 0 to 1."""
        nn.init.uniform_(weights["u"])

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (candidate,), (h,) = projected, state
        u = recurrent.diagonal("u")
        return (ACTIVATIONS[self.activation](candidate + u * recurrent.drop(h)),)


@documented
class IndRNN(RecurrentLayer[Tensor]):
    """Independently recurrent network (Li et al. 2018, arXiv:1803.04831): each channel reads its own state alone.

    The weight of the state, `weight_u_l0` of shape (hidden_size,), begins uniform from 0 to 1.

    Keyword Args:
        activation: "relu" or "tanh".

    Example:
        >>> layer = IndRNN(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_u_l0.shape)
        ((2, 5, 8), (8,))
    """

    cell_class = IndRNNEquations

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: torch.device | str | None = None, dtype: torch.dtype | None = None, *,
        activation: Literal["relu", "tanh"] = "relu",
        zoneout: float = 0.0, input_dropout: float = 0.0, state_dropout: float = 0.0, weight_dropout: float = 0.0,
        layer_norm: bool = False, weight_init: str | None = None, bias_init: str | None = None,
        longest_time_scale: float | None = None, **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype,
            zoneout=zoneout, input_dropout=input_dropout, state_dropout=state_dropout, weight_dropout=weight_dropout,
            layer_norm=layer_norm, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, activation=activation, **unknown,
        )  # fmt: skip


@documented
class IndRNNCell(SingleStep[Tensor]):
    """One step of `IndRNN`; `activation` as there."""

    layer_class = IndRNN

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: torch.device | str | None = None,
        dtype: torch.dtype | None = None, *, activation: Literal["relu", "tanh"] = "relu",
        weight_init: str | None = None, bias_init: str | None = None, longest_time_scale: float | None = None,
        **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, bias, device, dtype, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, activation=activation, **unknown,
        )  # fmt: skip


register(IndRNN, single_step=IndRNNCell, variants=({"activation": "tanh"},))
