"""Gated recurrent unit (Cho et al. 2014, arXiv:1406.1078)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, LoopEquations, NumpyStep, NumpyWeights, Recurrent, TorchKernel
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
    bias_init = "torch"
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

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (x_r, x_z, x_n), (h,) = gates, state
        U_r, U_z, U_n = np.split(weights["weight_hh"], 3)
        b_hr, b_hz, b_hn = np.split(weights.get("bias_hh", np.zeros(3 * h.shape[1])), 3)
        r, z = sigmoid(x_r + h @ U_r.T + b_hr), sigmoid(x_z + h @ U_z.T + b_hz)
        n = np.tanh(x_n + (r * (h @ U_n.T + b_hn) if self.reset_after else (r * h) @ U_n.T + b_hn))
        h = (1 - z) * n + z * h
        return h, (h,)


class GRU(Layer[Tensor]):
    """`torch.nn.GRU` with masks, resets, regularisers and streaming: same parameters, state dict and values.

    z *keeps*. There is no `proj_size`, as in torch. On a CPU our kernel runs it, which is faster than torch's but
    over few steps, 8 or 16 without gradients; `runs_on(steps=...)` says which runs.

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


class GRUCell(Cell[Tensor]):
    """`torch.nn.GRUCell`: the same parameters, state dict and values; `reset_after` as in `GRU`."""

    layer_class = GRU


register(GRU, single_step=GRUCell, variants=({"reset_after": False},))
