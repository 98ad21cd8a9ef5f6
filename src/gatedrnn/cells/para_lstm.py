"""ParaLSTM: an LSTM that reads its state through diagonal weights (Danieli et al. 2025, arXiv:2510.21450)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.cells.para import ParaEquations
from gatedrnn.equations import Arrays, Diagonal, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step


class ParaLSTMEquations(ParaEquations):
    """ParaLSTM: coupled gates that read their own channel of the states alone; f *keeps*."""

    name = "para-lstm"
    projections = ("forget", "candidate", "output")
    decay_gates = {"forget": 1}
    states = ("h", "c")
    diagonals = {
        "af": Diagonal("forget"), "ag": Diagonal("candidate"), "ao": Diagonal("output"),
        "cf": Diagonal("forget", 1), "co": Diagonal("output", 1),
    }  # fmt: skip

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (x_f, x_g, x_o), (h, c) = projected, state
        a_f, a_g, a_o, c_f, c_o = (recurrent.diagonal(name) for name in self.diagonals)
        read = recurrent.drop(h)
        f = torch.sigmoid(x_f + a_f * read + c_f * c)
        c = f * c + (1 - f) * torch.tanh(x_g + a_g * read)
        return torch.sigmoid(x_o + a_o * read + c_o * c) * torch.tanh(c), c

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (f, g, o), (h, c) = gates, state
        f = sigmoid(f + weights["weight_af"] * h + weights["weight_cf"] * c)
        c = f * c + (1 - f) * np.tanh(g + weights["weight_ag"] * h)
        h = sigmoid(o + weights["weight_ao"] * h + weights["weight_co"] * c) * np.tanh(c)
        return h, (h, c)


class ParaLSTM(Layer[tuple[Tensor, Tensor]]):
    """An LSTM whose coupled gates read the states through diagonal weights, ParaLSTM (Danieli et al. 2025).

    Equations:
        f = sigmoid(W_f x + a_f * h + c_f * c),  g = tanh(W_g x + a_g * h),  c' = f * c + (1 - f) * g
        o = sigmoid(W_o x + a_o * h + c_o * c'),  h' = o * tanh(c')

    f *keeps*, 1 - f lets in. f sees the cell state before the step, o the one after it. W is a full matrix here.

    Args:
        input_size: features of the input, 1 or more.
        hidden_size: channels of the state, 1 or more.
        num_layers: stacked layers, 1 or more.
        bias: False for no biases.
        batch_first: True for (batch, time, features) in and out, False for (time, batch, features).
        dropout: rate at which outputs between layers are zeroed in training, 0 to 1.
        bidirectional: True adds a second direction, from the last step to the first.
        proj_size: features that the output is projected to; 0 for no projection.
        device, dtype: those of the parameters; a floating-point dtype.
        zoneout: rate at which a step leaves a channel of the state as it was, 0 to below 1.
        input_dropout: rate at which a feature of a layer's input is zeroed for a whole sequence, 0 to below 1.
        state_dropout: rate at which a channel of h, as gates read it, is zeroed for a whole sequence, 0 to below 1.
        weight_dropout: 0, for there is no `weight_hh_l0`.
        layer_norm: True normalises the projection of the input, gate by gate.
        weight_init, bias_init: initialisation by name; "fan-in" and "time-scales" if None.
        longest_time_scale: the longest time scale of the biases, 2 steps or more; 64 steps if None.

    Weights:
        weight_ih_l0: (3 · hidden_size, input_size), rows of forget, candidate, output.
        bias_ih_l0: (3 · hidden_size,), unless `bias` is False.
        weight_af_l0: (hidden_size,), a_f.
        weight_ag_l0: (hidden_size,), a_g.
        weight_ao_l0: (hidden_size,), a_o.
        weight_cf_l0: (hidden_size,), c_f.
        weight_co_l0: (hidden_size,), c_o.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (3 · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"), a and c normal with variance 4 / (5 hidden_size); the
        biases of the forget gate spread its decay over 2 to 64 steps, others are 0 ("time-scales").
        "authors" is the scheme of the authors' code, which `gatedrnn describe` prints.

    Inputs: input, hx
        input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size), or a
            `PackedSequence`.
        hx: the state before the first step; None for zeros.
        mask, resets, dropout_masks, wide_state: keyword arguments, see `RecurrentLayer.forward`.

    Outputs: output, h_n
        output: like input, with directions · (proj_size or hidden_size) features.
        h_n: the state after the last step, in the form of hx.

    State:
        h: (L, batch, hidden_size), the output. L = num_layers · directions.
        c: (L, batch, hidden_size).

    Example:
        >>> layer = ParaLSTM(3, 8, batch_first=True)
        >>> output, (h_n, c_n) = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_af_l0.shape)
        ((2, 5, 8), (8,))

    Source:
        Danieli et al. 2025, arXiv:2510.21450.
    """

    cell_class = ParaLSTMEquations


class ParaLSTMCell(Cell[tuple[Tensor, Tensor]]):
    """One step of `ParaLSTM`, with the same equations and weights.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `ParaLSTM`.

    Weights:
        weight_ih: (3 · hidden_size, input_size), rows of forget, candidate, output.
        bias_ih: (3 · hidden_size,), unless `bias` is False.
        weight_af: (hidden_size,), a_f.
        weight_ag: (hidden_size,), a_g.
        weight_ao: (hidden_size,), a_o.
        weight_cf: (hidden_size,), c_f.
        weight_co: (hidden_size,), c_o.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, a tuple (h, c), each (batch, hidden_size), without batch for one input; None for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = ParaLSTMCell(3, 8)
        >>> (h, c) = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = ParaLSTM


register(ParaLSTM, single_step=ParaLSTMCell)
