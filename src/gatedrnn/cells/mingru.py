"""Minimal GRU (Feng et al. 2024, arXiv:2410.01201)."""

from typing import Never

import torch
from torch import Tensor

from gatedrnn.cells.activations import ACTIVATIONS, Activation, check_activation, log_g
from gatedrnn.equations import PositiveScanEquations
from gatedrnn.layers import RecurrentLayer, SingleStep, documented
from gatedrnn.registry import register
from gatedrnn.shapes import Series


class MinGRUEquations(PositiveScanEquations):
    """Minimal GRU: one gate, which sees the input only; z *replaces* (in `gru` it keeps).

    z = sigmoid(W_z x),  h = (1 - z) * h + z * g(W_v x)

    State h, which is the output; one bias a gate. Feng et al. 2024, arXiv:2410.01201: g of appendix B.3 (a positive
    state), or identity (appendix A).
    """

    name = "mingru"
    projections = ("candidate", "update")
    decay_gates = {"update": -1}

    def __init__(self, activation: Activation = "g", log_space: bool = False) -> None:
        check_activation(activation, log_space)
        self.activation, self.log_space = activation, log_space

    def logit(self, *projected: Series) -> Series:
        _, update = projected
        return -update

    def value(self, *projected: Series) -> Series:
        v, _ = projected
        return ACTIVATIONS[self.activation](v)

    def log_value(self, *projected: Series) -> Series:
        v, _ = projected
        return log_g(v)


@documented
class MinGRU(RecurrentLayer[Tensor]):
    """minGRU (Feng et al. 2024, arXiv:2410.01201), run by a scan; z *replaces* (in `GRU` it keeps).

    Keyword Args:
        activation: of the candidate: "g" (appendix B.3 of the paper, a positive state) or "identity" (appendix A).
        log_space: run whole sequences by the paper's scan over logarithms, for fidelity: slower, and its error grows
            with the length; needs the activation g; no resets, no gaps, no zoneout, no state_dropout.

    Example:
        >>> layer = MinGRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(h_n.shape)
        ((2, 5, 8), (1, 2, 8))
    """

    cell_class = MinGRUEquations

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: torch.device | str | None = None, dtype: torch.dtype | None = None, *,
        activation: Activation = "g", log_space: bool = False,
        zoneout: float = 0.0, input_dropout: float = 0.0, state_dropout: float = 0.0, weight_dropout: float = 0.0,
        layer_norm: bool = False, weight_init: str | None = None, bias_init: str | None = None,
        longest_time_scale: float | None = None, **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype,
            zoneout=zoneout, input_dropout=input_dropout, state_dropout=state_dropout, weight_dropout=weight_dropout,
            layer_norm=layer_norm, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, activation=activation, log_space=log_space, **unknown,
        )  # fmt: skip


@documented
class MinGRUCell(SingleStep[Tensor]):
    """One step of `MinGRU`; `activation` as there."""

    layer_class = MinGRU

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: torch.device | str | None = None,
        dtype: torch.dtype | None = None, *, activation: Activation = "g",
        weight_init: str | None = None, bias_init: str | None = None, longest_time_scale: float | None = None,
        **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, bias, device, dtype, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, activation=activation, **unknown,
        )  # fmt: skip


register(MinGRU, single_step=MinGRUCell, variants=({"activation": "identity"},))
