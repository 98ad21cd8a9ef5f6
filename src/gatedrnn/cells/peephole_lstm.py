"""LSTM with peepholes (Gers et al. 2002)."""

from typing import Never

import torch
from torch import Tensor

from gatedrnn.equations import Diagonal, LoopEquations, Recurrent
from gatedrnn.layers import RecurrentLayer, SingleStep, documented
from gatedrnn.registry import register
from gatedrnn.shapes import State, Step


class PeepholeLSTMEquations(LoopEquations):
    """LSTM whose gates see the cell state through diagonal weights; the forget gate *keeps*.

    i = sigmoid(W_i x + U_i h + w_ci * c),  f = sigmoid(W_f x + U_f h + w_cf * c),  g = tanh(W_g x + U_g h)
    c' = f * c + i * g,  o = sigmoid(W_o x + U_o h + w_co * c'),  h' = o * tanh(c')

    i and f see the state before the step, o sees the state after it. State (h, c), output h, one bias a gate. With
    proj_size, h' = W_hr (o * tanh(c')): the LSTMP of Sak et al. 2014 (arXiv:1402.1128). Gers et al. 2002.
    """

    name = "lstm-peephole"
    bias_init = "forget-one"
    projections = ("input", "forget", "candidate", "output")
    decay_gates = {"forget": 1}
    states = ("h", "c")
    diagonals = {"ci": Diagonal("input", 1), "cf": Diagonal("forget", 1), "co": Diagonal("output", 1, after=True)}
    projects_state = True

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        h, c = state
        i, f, g, o = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        w_ci, w_cf, w_co = (recurrent.diagonal(name) for name in self.diagonals)
        c = torch.sigmoid(f + w_cf * c) * c + torch.sigmoid(i + w_ci * c) * torch.tanh(g)
        h = recurrent.project(torch.sigmoid(o + w_co * c) * torch.tanh(c))
        return h, c


@documented
class PeepholeLSTM(RecurrentLayer[tuple[Tensor, Tensor]]):
    """LSTM whose gates read the cell state through diagonal weights (Gers et al. 2002); the forget gate *keeps*.

    With `proj_size` the projected output is also what the gates read: the LSTMP of Sak et al. 2014 (arXiv:1402.1128).

    Example:
        >>> layer = PeepholeLSTM(3, 8, batch_first=True)
        >>> output, (h_n, c_n) = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = PeepholeLSTMEquations

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
class PeepholeLSTMCell(SingleStep[tuple[Tensor, Tensor]]):
    """One step of `PeepholeLSTM`."""

    layer_class = PeepholeLSTM

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


register(PeepholeLSTM, single_step=PeepholeLSTMCell)
