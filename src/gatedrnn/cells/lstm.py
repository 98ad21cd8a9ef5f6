"""Long short-term memory (Hochreiter & Schmidhuber 1997)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, LoopEquations, NumpyStep, NumpyWeights, Recurrent, TorchKernel
from gatedrnn.shapes import State, Step


class LSTMEquations(LoopEquations):
    """LSTM with input, forget and output gate; the forget gate *keeps*.

    i = sigmoid(W_i x + U_i h),  f = sigmoid(W_f x + U_f h),  o = sigmoid(W_o x + U_o h)
    g = tanh(W_g x + U_g h),     c = f * c + i * g,           h = o * tanh(c)

    State (h, c), output h; two biases a gate, as `torch.nn.LSTM`. With proj_size, h = W_hr (o * tanh(c)), and that is
    what the gates read (LSTMP). Hochreiter & Schmidhuber 1997; forget gate after Gers et al. 2000; projection after
    Sak et al. 2014 (arXiv:1402.1128).
    """

    name = "lstm"
    bias_init = "torch"
    torch_kernel = TorchKernel("LSTM", padding_gates={"input": -1.0, "forget": 1.0}, projects=True)  # c = 1 * c + 0 * g
    projections = ("input", "forget", "candidate", "output")
    decay_gates = {"forget": 1}
    states = ("h", "c")
    projects_state = True
    recurrent_bias = True

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        h, c = state
        i, f, g, o = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = recurrent.project(torch.sigmoid(o) * torch.tanh(c))
        return h, c

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (h, c), products = state, state[0] @ weights["weight_hh"].T + weights.get("bias_hh", 0)
        i, f, g, o = (x + u for x, u in zip(gates, np.split(products, 4, axis=1), strict=True))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        h = h @ weights["weight_hr"].T if "weight_hr" in weights else h
        return h, (h, c)


class LSTM(Layer[tuple[Tensor, Tensor]]):
    """`torch.nn.LSTM` with masks, resets, regularisers and streaming: same parameters, state dict, values and kernels.

    The forget gate *keeps*. With `proj_size`, which must be below hidden_size, the projected output is also what the
    gates read (LSTMP, Sak et al. 2014, arXiv:1402.1128).

    Example:
        >>> layer = LSTM(3, 8, batch_first=True)
        >>> output, (h_n, c_n) = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = LSTMEquations


class LSTMCell(Cell[tuple[Tensor, Tensor]]):
    """`torch.nn.LSTMCell`: the same parameters, state dict and values."""

    layer_class = LSTM


register(LSTM, single_step=LSTMCell)
