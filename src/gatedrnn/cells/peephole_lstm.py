"""LSTM with peepholes (Gers et al. 2002)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, Diagonal, LoopEquations, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step


class PeepholeLSTMEquations(LoopEquations):
    """LSTM whose gates see the cell state through diagonal weights; the forget gate *keeps*."""

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
        # The output gate sees the new cell state, the other two that of the step before (Gers et al. 2002).
        h = recurrent.project(torch.sigmoid(o + w_co * c) * torch.tanh(c))
        return h, c

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (h, c), products = state, np.split(state[0] @ weights["weight_hh"].T, 4, axis=1)
        i, f, g, o = (x + u for x, u in zip(gates, products, strict=True))
        i, f = sigmoid(i + weights["weight_ci"] * c), sigmoid(f + weights["weight_cf"] * c)
        c = f * c + i * np.tanh(g)
        h = sigmoid(o + weights["weight_co"] * c) * np.tanh(c)
        h = h @ weights["weight_hr"].T if "weight_hr" in weights else h
        return h, (h, c)


class PeepholeLSTM(Layer[tuple[Tensor, Tensor]]):
    """LSTM whose gates read the cell state through diagonal weights (Gers et al. 2002); the forget gate *keeps*.

    Equations:
        i = sigmoid(W_i x + U_i h + w_ci * c),  f = sigmoid(W_f x + U_f h + w_cf * c),  g = tanh(W_g x + U_g h)
        c' = f * c + i * g,  o = sigmoid(W_o x + U_o h + w_co * c'),  h' = o * tanh(c')

    i and f see the cell state before the step, o sees the one after it. With `proj_size`, h' = W_hr (o * tanh(c')), and
    that is what the gates read (LSTMP).

    Args:
        input_size: features of the input, 1 or more.
        hidden_size: channels of the state, 1 or more.
        num_layers: stacked layers, 1 or more.
        bias: False for no biases.
        batch_first: True for (batch, time, features) in and out, False for (time, batch, features).
        dropout: rate at which outputs between layers are zeroed in training, 0 to 1.
        bidirectional: True adds a second direction, from the last step to the first.
        proj_size: features that h, which gates read, is projected to; 0 for no projection.
        device, dtype: those of the parameters; a floating-point dtype.
        zoneout: rate at which a step leaves a channel of the state as it was, 0 to below 1.
        input_dropout: rate at which a feature of a layer's input is zeroed for a whole sequence, 0 to below 1.
        state_dropout: rate at which a channel of h, as gates read it, is zeroed for a whole sequence, 0 to below 1.
        weight_dropout: rate at which an element of `weight_hh_l0` is zeroed for a whole batch, 0 to below 1.
        layer_norm: True normalises the projection of the input, gate by gate.
        weight_init, bias_init: initialisation by name; "fan-in" and "forget-one" if None.
        longest_time_scale: for bias_init "time-scales" alone: the longest one, 2 steps or more; 64 steps if None.

    Weights:
        weight_ih_l0: (4 · hidden_size, input_size), rows of input, forget, candidate, output.
        weight_hh_l0: (4 · hidden_size, proj_size or hidden_size).
        bias_ih_l0: (4 · hidden_size,), unless `bias` is False.
        weight_ci_l0: (hidden_size,), w_ci of the input gate.
        weight_cf_l0: (hidden_size,), w_cf of the forget gate.
        weight_co_l0: (hidden_size,), w_co of the output gate.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (4 · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"), w uniform within 0.1; biases are 1 for the forget gate, 0
        for others ("forget-one").

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
        >>> layer = PeepholeLSTM(3, 8, batch_first=True)
        >>> output, (h_n, c_n) = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)

    Source:
        Gers et al. 2002; projection after Sak et al. 2014 (arXiv:1402.1128).
    """

    cell_class = PeepholeLSTMEquations


class PeepholeLSTMCell(Cell[tuple[Tensor, Tensor]]):
    """One step of `PeepholeLSTM`, with the same equations and weights.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `PeepholeLSTM`.

    Weights:
        weight_ih: (4 · hidden_size, input_size), rows of input, forget, candidate, output.
        weight_hh: (4 · hidden_size, hidden_size).
        bias_ih: (4 · hidden_size,), unless `bias` is False.
        weight_ci: (hidden_size,), w_ci of the input gate.
        weight_cf: (hidden_size,), w_cf of the forget gate.
        weight_co: (hidden_size,), w_co of the output gate.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, a tuple (h, c), each (batch, proj_size or hidden_size), without batch for one input; None
            for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = PeepholeLSTMCell(3, 8)
        >>> (h, c) = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = PeepholeLSTM


register(PeepholeLSTM, single_step=PeepholeLSTMCell)
