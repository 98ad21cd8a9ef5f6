"""Gated recurrent unit (Cho et al. 2014, arXiv:1406.1078)."""

from typing import Never

import torch
from torch import Tensor

from gatedrnn.equations import LoopEquations, Recurrent, TorchKernel
from gatedrnn.layers import RecurrentLayer, SingleStep, documented
from gatedrnn.registry import register
from gatedrnn.shapes import State, Step


class GRUEquations(LoopEquations):
    """GRU with reset and update gate; z *keeps*.

    r = sigmoid(W_r x + U_r h),  z = sigmoid(W_z x + U_z h),  h = (1 - z) * n + z * h
    n = tanh(W_n x + b_in + r * (U_n h + b_hn))    reset_after=True: torch.nn.GRU and cuDNN, two biases a gate
    n = tanh(W_n x + b_n + U_n (r * h))            reset_after=False: Cho et al. 2014 (arXiv:1406.1078), one bias a gate

    State h, which is the output.
    """

    name = "gru"
    projections = ("reset", "update", "candidate")
    decay_gates = {"update": 1}
    weight_init = bias_init = "torch"
    torch_kernel = TorchKernel("GRU", slower_than_native=True)

    def __init__(self, reset_after: bool = True) -> None:
        self.reset_after = self.recurrent_bias = reset_after

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (h,) = state
        x_r, x_z, x_n = projected
        if self.reset_after:
            h_r, h_z, h_n = recurrent(h)
            n = torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
        else:
            h_r, h_z = recurrent(h, "reset", "update")
            (h_n,) = recurrent(torch.sigmoid(x_r + h_r) * h, "candidate")
            n = torch.tanh(x_n + h_n)
        z = torch.sigmoid(x_z + h_z)
        return ((1 - z) * n + z * h,)


@documented
class GRU(RecurrentLayer[Tensor]):
    """`torch.nn.GRU` with masks, resets, regularisers and streaming: same parameters, state dict and values.

    z *keeps*. There is no `proj_size`, as in torch. On a CPU our kernel runs it, which is faster than torch's.

    Keyword Args:
        reset_after: False applies the reset gate before the product, n = tanh(W_n x + b_n + U_n (r * h)), with one bias
            a gate (Cho et al. 2014, arXiv:1406.1078); torch has no kernel for it.

    Example:
        >>> layer = GRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = GRUEquations

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: torch.device | str | None = None, dtype: torch.dtype | None = None, *,
        reset_after: bool = True,
        zoneout: float = 0.0, input_dropout: float = 0.0, state_dropout: float = 0.0, weight_dropout: float = 0.0,
        layer_norm: bool = False, weight_init: str | None = None, bias_init: str | None = None,
        longest_time_scale: float | None = None, **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype,
            zoneout=zoneout, input_dropout=input_dropout, state_dropout=state_dropout, weight_dropout=weight_dropout,
            layer_norm=layer_norm, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, reset_after=reset_after, **unknown,
        )  # fmt: skip


@documented
class GRUCell(SingleStep[Tensor]):
    """`torch.nn.GRUCell`: the same parameters, state dict and values; `reset_after` as in `GRU`."""

    layer_class = GRU

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: torch.device | str | None = None,
        dtype: torch.dtype | None = None, *, reset_after: bool = True,
        weight_init: str | None = None, bias_init: str | None = None, longest_time_scale: float | None = None,
        **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, bias, device, dtype, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, reset_after=reset_after, **unknown,
        )  # fmt: skip


register(GRU, single_step=GRUCell, variants=({"reset_after": False},))
