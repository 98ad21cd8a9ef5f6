"""JANET: an LSTM with its forget gate alone (van der Westhuizen & Lasenby 2018, arXiv:1804.04849)."""

from typing import Never

import torch
from torch import Tensor

from gatedrnn.equations import LoopEquations, Recurrent
from gatedrnn.layers import RecurrentLayer, SingleStep, documented
from gatedrnn.registry import register
from gatedrnn.shapes import State, Step


class JANETEquations(LoopEquations):
    """JANET, an LSTM with its forget gate alone; the forget gate *keeps*.

    s_t = W_f x + U_f h,  n = tanh(W_n x + U_n h),  h = sigmoid(s_t) * h + (1 - sigmoid(s_t - beta)) * n

    With beta above 0 a step lets in more than it forgets. State h, which is the output; one bias a gate.
    van der Westhuizen & Lasenby 2018, arXiv:1804.04849, where beta is 1.
    """

    name = "janet"
    projections = ("forget", "candidate")
    decay_gates = {"forget": 1}
    bias_init = "time-scales"

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (h,) = state
        s_t, n = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        return (torch.sigmoid(s_t) * h + torch.sigmoid(self.beta - s_t) * torch.tanh(n),)


@documented
class JANET(RecurrentLayer[Tensor]):
    """An LSTM with its forget gate alone, JANET (van der Westhuizen & Lasenby 2018, arXiv:1804.04849).

    The gate *keeps*. Its bias begins spread over time scales, the chrono initialisation of the paper.

    Keyword Args:
        beta: how far the gate that lets in is ahead of the gate that forgets; any number, 1 as in the paper.

    Example:
        >>> layer = JANET(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_hh_l0.shape)
        ((2, 5, 8), (16, 8))
    """

    cell_class = JANETEquations

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: torch.device | str | None = None, dtype: torch.dtype | None = None, *,
        beta: float = 1.0,
        zoneout: float = 0.0, input_dropout: float = 0.0, state_dropout: float = 0.0, weight_dropout: float = 0.0,
        layer_norm: bool = False, weight_init: str | None = None, bias_init: str | None = None,
        longest_time_scale: float | None = None, **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype,
            zoneout=zoneout, input_dropout=input_dropout, state_dropout=state_dropout, weight_dropout=weight_dropout,
            layer_norm=layer_norm, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, beta=beta, **unknown,
        )  # fmt: skip


@documented
class JANETCell(SingleStep[Tensor]):
    """One step of `JANET`; `beta` as there."""

    layer_class = JANET

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: torch.device | str | None = None,
        dtype: torch.dtype | None = None, *, beta: float = 1.0,
        weight_init: str | None = None, bias_init: str | None = None, longest_time_scale: float | None = None,
        **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, bias, device, dtype, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, beta=beta, **unknown,
        )  # fmt: skip


register(JANET, single_step=JANETCell, variants=({"beta": 0.0},))
