"""LSTM with coupled input and forget gates (Greff et al. 2017, arXiv:1503.04069)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, LoopEquations, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step


class CIFGEquations(LoopEquations):
    """LSTM with coupled input and forget gates: what a gate forgets it writes; f *keeps*."""

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

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (h, c), products = state, np.split(state[0] @ weights["weight_hh"].T, 3, axis=1)
        f, g, o = (x + u for x, u in zip(gates, products, strict=True))
        c = sigmoid(f) * c + (1 - sigmoid(f)) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        h = h @ weights["weight_hr"].T if "weight_hr" in weights else h
        return h, (h, c)


class CIFG(Layer[tuple[Tensor, Tensor]]):
    """LSTM with coupled input and forget gates (Greff et al. 2017, arXiv:1503.04069): i = 1 - f; f *keeps*.

    Equations:
        f = sigmoid(W_f x + U_f h),  g = tanh(W_g x + U_g h),  o = sigmoid(W_o x + U_o h)
        c' = f * c + (1 - f) * g,  h' = o * tanh(c')

    What f forgets, the step writes. With `proj_size`, h' = W_hr (o * tanh(c')), and that is what the gates read.

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
        weight_ih_l0: (3 · hidden_size, input_size), rows of forget, candidate, output.
        weight_hh_l0: (3 · hidden_size, proj_size or hidden_size).
        bias_ih_l0: (3 · hidden_size,), unless `bias` is False.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (3 · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"); biases are 1 for the forget gate, 0 for others
        ("forget-one").

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
        >>> layer = CIFG(3, 8, batch_first=True)
        >>> output, (h_n, c_n) = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_ih_l0.shape)
        ((2, 5, 8), (24, 3))

    Source:
        The variant CIFG of Greff et al. 2017 (arXiv:1503.04069), which has peepholes too; there are none here.
    """

    cell_class = CIFGEquations


class CIFGCell(Cell[tuple[Tensor, Tensor]]):
    """One step of `CIFG`, with the same equations and weights.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `CIFG`.

    Weights:
        weight_ih: (3 · hidden_size, input_size), rows of forget, candidate, output.
        weight_hh: (3 · hidden_size, hidden_size).
        bias_ih: (3 · hidden_size,), unless `bias` is False.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, a tuple (h, c), each (batch, proj_size or hidden_size), without batch for one input; None
            for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = CIFGCell(3, 8)
        >>> (h, c) = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = CIFG


register(CIFG, single_step=CIFGCell)
