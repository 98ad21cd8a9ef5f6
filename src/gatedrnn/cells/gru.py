"""Gated recurrent unit (Cho et al. 2014, arXiv:1406.1078)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, LoopEquations, NumpyStep, NumpyWeights, Recurrent, TorchKernel
from gatedrnn.shapes import State, Step


class GRUEquations(LoopEquations):
    """GRU with reset and update gate; z *keeps*."""

    name = "gru"
    projections = ("reset", "update", "candidate")
    decay_gates = {"update": 1}
    bias_init = "torch"
    torch_kernel = TorchKernel("GRU", slower_than_native=True)

    def __init__(self, reset_after: bool = True) -> None:
        # A second bias differs from the first only where the reset gate multiplies it, behind the product.
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

    Equations:
        r = sigmoid(W_r x + U_r h),  z = sigmoid(W_z x + U_z h),  h = (1 - z) * n + z * h
        n = tanh(W_n x + b_in + r * (U_n h + b_hn))    reset_after=True: torch.nn.GRU and cuDNN, two biases a gate
        n = tanh(W_n x + b_n + U_n (r * h))            reset_after=False: Cho et al. 2014, one bias a gate

    z *keeps*. On a CPU our kernel runs it, which is faster than torch's but over few steps, 8 or 16 without gradients;
    `runs_on(steps=...)` says which runs.

    Args:
        input_size: features of the input, 1 or more.
        hidden_size: channels of the state, 1 or more.
        num_layers: stacked layers, 1 or more.
        bias: False for no biases.
        batch_first: True for (batch, time, features) in and out, False for (time, batch, features).
        dropout: rate at which outputs between layers are zeroed in training, 0 to 1.
        bidirectional: True adds a second direction, from the last step to the first.
        proj_size: 0, for torch has no projection of a GRU either.
        device, dtype: those of the parameters; a floating-point dtype.
        zoneout: rate at which a step leaves a channel of the state as it was, 0 to below 1.
        input_dropout: rate at which a feature of a layer's input is zeroed for a whole sequence, 0 to below 1.
        state_dropout: rate at which a channel of h, as gates read it, is zeroed for a whole sequence, 0 to below 1.
        weight_dropout: rate at which an element of `weight_hh_l0` is zeroed for a whole batch, 0 to below 1.
        layer_norm: True normalises the projection of the input, gate by gate.
        weight_init, bias_init: initialisation by name; "torch" and "torch" if None.
        longest_time_scale: for bias_init "time-scales" alone: the longest one, 2 steps or more; 64 steps if None.

    Keyword Args:
        reset_after: False applies the reset gate before the product, with one bias a gate; torch has no kernel for it.

    Weights:
        weight_ih_l0: (3 · hidden_size, input_size), rows of reset, update, candidate.
        weight_hh_l0: (3 · hidden_size, hidden_size).
        bias_ih_l0: (3 · hidden_size,), unless `bias` is False.
        bias_hh_l0: (3 · hidden_size,), unless `bias` or `reset_after` is False.
        weight_norm_l0: (3 · hidden_size,), with `layer_norm`.

    Initialisation:
        All are uniform within 1/sqrt(hidden_size), as in torch ("torch").

    Inputs: input, hx
        input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size), or a
            `PackedSequence`.
        hx: the state before the first step; None for zeros.
        mask, resets, dropout_masks, wide_state: keyword arguments, see `RecurrentLayer.forward`.

    Outputs: output, h_n
        output: like input, with directions · hidden_size features.
        h_n: the state after the last step, in the form of hx.

    State:
        h: (L, batch, hidden_size), the output. L = num_layers · directions.

    Example:
        >>> layer = GRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)

    Source:
        Cho et al. 2014, arXiv:1406.1078.
    """

    cell_class = GRUEquations


class GRUCell(Cell[Tensor]):
    """One step of `GRU`, as `torch.nn.GRUCell`: the same parameters, state dict and values.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `GRU`.
        reset_after: as in `GRU`.

    Weights:
        weight_ih: (3 · hidden_size, input_size), rows of reset, update, candidate.
        weight_hh: (3 · hidden_size, hidden_size).
        bias_ih: (3 · hidden_size,), unless `bias` is False.
        bias_hh: (3 · hidden_size,), unless `bias` or `reset_after` is False.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, h (batch, hidden_size), without batch for one input; None for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = GRUCell(3, 8)
        >>> h = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = GRU


register(GRU, single_step=GRUCell, variants=({"reset_after": False},))
