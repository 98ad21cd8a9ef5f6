"""LSTM with coupled input and forget gates (Greff et al. 2017, arXiv:1503.04069)."""

from typing import Never

import torch
from torch import Tensor

from gatedrnn.equations import LoopEquations, Recurrent
from gatedrnn.layers import RecurrentLayer, SingleStep, documented
from gatedrnn.registry import register
from gatedrnn.shapes import State, Step


class CIFGEquations(LoopEquations):
    """LSTM with coupled input and forget gates: what a gate forgets it writes; f *keeps*.

    f = sigmoid(W_f x + U_f h),  g = tanh(W_g x + U_g h),  o = sigmoid(W_o x + U_o h)
    c' = f * c + (1 - f) * g,  h' = o * tanh(c')

    State (h, c), output h, one bias a gate; proj_size as in `lstm`. The variant CIFG of Greff et al. 2017
    (arXiv:1503.04069), which has peepholes too; there are none here.
    """

    name = "cifg"
    bias_init = "forget-one"
    projections = ("forget", "candidate", "output")
    decay_gates = {"forget": 1}
    states = ("h", "c")
    projects_state = True

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        h, c = state
        f, g, o = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        f = torch.sigmoid(f)
        c = f * c + (1 - f) * torch.tanh(g)
        return recurrent.project(torch.sigmoid(o) * torch.tanh(c)), c


@documented
class CIFG(RecurrentLayer[tuple[Tensor, Tensor]]):
    """LSTM with coupled input and forget gates (Greff et al. 2017, arXiv:1503.04069): i = 1 - f; f *keeps*.

    Example:
        >>> layer = CIFG(3, 8, batch_first=True)
        >>> output, (h_n, c_n) = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_ih_l0.shape)
        ((2, 5, 8), (24, 3))
    """

    cell_class = CIFGEquations

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: torch.device | str | None = None, dtype: torch.dtype | None = None, *,
        zoneout: float = 0.0, input_dropout: float = 0.0, state_dropout: float = 0.0, weight_dropout: float = 0.0,
        layer_norm: bool = False, weight_init: str | None = None, bias_init: str | None = None,
        longest_time_scale: float | None = None, **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype,
            zoneout=zoneout, input_dropout=input_dropout, state_dropout=state_dropout, weight_dropout=weight_dropout,
            layer_norm=layer_norm, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, **unknown,
        )  # fmt: skip


@documented
class CIFGCell(SingleStep[tuple[Tensor, Tensor]]):
    """One step of `CIFG`."""

    layer_class = CIFG

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: torch.device | str | None = None,
        dtype: torch.dtype | None = None, *,
        weight_init: str | None = None, bias_init: str | None = None, longest_time_scale: float | None = None,
        **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, bias, device, dtype, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, **unknown,
        )  # fmt: skip


register(CIFG, single_step=CIFGCell)
