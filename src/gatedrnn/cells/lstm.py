"""Long short-term memory (Hochreiter & Schmidhuber 1997)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, LoopEquations, NumpyStep, NumpyWeights, Recurrent, TorchKernel
from gatedrnn.shapes import State, Step


class LSTMEquations(LoopEquations):
    """LSTM with input, forget and output gate; the forget gate *keeps*."""

    name = "lstm"
    bias_init = "torch"
    # Over padding c = 1 * c + 0 * g: the forget gate is opened and the input gate closed.
    torch_kernel = TorchKernel("LSTM", padding_gates={"input": -1.0, "forget": 1.0}, projects=True)
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

    Equations:
        i = sigmoid(W_i x + U_i h),  f = sigmoid(W_f x + U_f h),  o = sigmoid(W_o x + U_o h)
        g = tanh(W_g x + U_g h),     c = f * c + i * g,           h = o * tanh(c)

    The forget gate *keeps*. With `proj_size`, h = W_hr (o * tanh(c)), and that is what the gates read (LSTMP).

    Args:
        input_size: features of the input, 1 or more.
        hidden_size: channels of the state, 1 or more.
        num_layers: stacked layers, 1 or more.
        bias: False for no biases.
        batch_first: True for (batch, time, features) in and out, False for (time, batch, features).
        dropout: rate at which outputs between layers are zeroed in training, 0 to 1.
        bidirectional: True adds a second direction, from the last step to the first.
        proj_size: features that h, which gates read, is projected to, below hidden_size; 0 for none.
        device, dtype: those of the parameters; a floating-point dtype.
        zoneout: rate at which a step leaves a channel of the state as it was, 0 to below 1.
        input_dropout: rate at which a feature of a layer's input is zeroed for a whole sequence, 0 to below 1.
        state_dropout: rate at which a channel of h, as gates read it, is zeroed for a whole sequence, 0 to below 1.
        weight_dropout: rate at which an element of `weight_hh_l0` is zeroed for a whole batch, 0 to below 1.
        layer_norm: True normalises the projection of the input, gate by gate.
        weight_init, bias_init: initialisation by name; "torch" and "torch" if None.
        longest_time_scale: for bias_init "time-scales" alone: the longest one, 2 steps or more; 64 steps if None.

    Weights:
        weight_ih_l0: (4 · hidden_size, input_size), rows of input, forget, candidate, output.
        weight_hh_l0: (4 · hidden_size, proj_size or hidden_size).
        bias_ih_l0: (4 · hidden_size,), unless `bias` is False.
        bias_hh_l0: (4 · hidden_size,), unless `bias` is False.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (4 · hidden_size,), with `layer_norm`.

    Initialisation:
        All are uniform within 1/sqrt(hidden_size), as in torch ("torch").

    Inputs: input, hx
        input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size), or a
            `PackedSequence`.
        hx: the state before the first step; None for zeros.
        mask, resets, dropout_masks, wide_state: keyword arguments, see `RecurrentLayer.forward`.

    Outputs: output, h_n
        output: like input, with directions · (proj_size or hidden_size) features.
        h_n: the state after the last step, in the form of hx.

    State:
        h: (L, batch, proj_size or hidden_size), the output. L = num_layers · directions.
        c: (L, batch, hidden_size).

    Example:
        >>> layer = LSTM(3, 8, batch_first=True)
        >>> output, (h_n, c_n) = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)

    Source:
        Hochreiter & Schmidhuber 1997; forget gate after Gers et al. 2000; projection after Sak et al. 2014
        (arXiv:1402.1128).
    """

    cell_class = LSTMEquations


class LSTMCell(Cell[tuple[Tensor, Tensor]]):
    """One step of `LSTM`, as `torch.nn.LSTMCell`: the same parameters, state dict and values.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `LSTM`.

    Weights:
        weight_ih: (4 · hidden_size, input_size), rows of input, forget, candidate, output.
        weight_hh: (4 · hidden_size, hidden_size).
        bias_ih: (4 · hidden_size,), unless `bias` is False.
        bias_hh: (4 · hidden_size,), unless `bias` is False.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, a tuple (h, c), each (batch, proj_size or hidden_size), without batch for one input; None
            for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = LSTMCell(3, 8)
        >>> (h, c) = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = LSTM


register(LSTM, single_step=LSTMCell)
