"""Step 1 from GRU to minGRU: no reset gate."""

from typing import Never

import torch
from torch import Tensor

from gatedrnn.equations import LoopEquations, Recurrent
from gatedrnn.layers import RecurrentLayer, SingleStep, documented
from gatedrnn.registry import register
from gatedrnn.shapes import State, Step


class NoResetGateGRUEquations(LoopEquations):
    """Step 1 of the ladder: a GRU without its reset gate; z *keeps*.

    z = sigmoid(W_z x + U_z h),  n = tanh(W_n x + U_n h),  h = (1 - z) * n + z * h

    State h, which is the output; one bias a gate.
    """

    name = "gru-no-reset-gate"
    projections = ("update", "candidate")
    decay_gates = {"update": 1}

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (h,) = state
        z, n = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        z = torch.sigmoid(z)
        return ((1 - z) * torch.tanh(n) + z * h,)


@documented
class NoResetGateGRU(RecurrentLayer[Tensor]):
    """GRU without its reset gate, step 1 from GRU to minGRU; z *keeps*.

    Example:
        >>> layer = NoResetGateGRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = NoResetGateGRUEquations

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
class NoResetGateGRUCell(SingleStep[Tensor]):
    """One step of `NoResetGateGRU`."""

    layer_class = NoResetGateGRU

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


register(NoResetGateGRU, single_step=NoResetGateGRUCell)
