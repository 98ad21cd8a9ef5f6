"""ParaGRU: a GRU that reads its state through diagonal weights (Danieli et al. 2025, arXiv:2510.21450)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.cells.para import ParaEquations
from gatedrnn.equations import Arrays, Diagonal, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step


class ParaGRUEquations(ParaEquations):
    """ParaGRU: a GRU whose gates read their own channel of the state alone; z *replaces* (in `gru` it keeps)."""

    name = "para-gru"
    projections = ("update", "reset", "candidate")
    decay_gates = {"update": -1}
    diagonals = {"az": Diagonal("update"), "ar": Diagonal("reset"), "an": Diagonal("candidate")}

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (x_z, x_r, x_n), (h,) = projected, state
        a_z, a_r, a_n = (recurrent.diagonal(name) for name in self.diagonals)
        read = recurrent.drop(h)
        z, r = torch.sigmoid(x_z + a_z * read), torch.sigmoid(x_r + a_r * read)
        n = torch.tanh(x_n + a_n * (r * read))
        return ((1 - z) * h + z * n,)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (z, r, n), (h,) = gates, state
        z, r = sigmoid(z + weights["weight_az"] * h), sigmoid(r + weights["weight_ar"] * h)
        h = h - z * h + z * np.tanh(n + weights["weight_an"] * r * h)
        return h, (h,)


class ParaGRU(Layer[Tensor]):
    """A GRU whose gates read the state through diagonal weights, ParaGRU (Danieli et al. 2025, arXiv:2510.21450).

    Equations:
        z = sigmoid(W_z x + a_z * h),  r = sigmoid(W_r x + a_r * h)
        n = tanh(W_n x + a_n * (r * h)),  h = (1 - z) * h + z * n

    z *replaces* (in `GRU` it keeps). W is a full matrix here.

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
        weight_ih_l0: (3 · hidden_size, input_size), rows of update, reset, candidate.
        bias_ih_l0: (3 · hidden_size,), unless `bias` is False.
        weight_az_l0: (hidden_size,), a_z.
        weight_ar_l0: (hidden_size,), a_r.
        weight_an_l0: (hidden_size,), a_n.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (3 · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"), a normal with variance 4 / (5 hidden_size); the biases of
        the update gate spread its decay over 2 to 64 steps, others are 0 ("time-scales").
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

    Example:
        >>> layer = ParaGRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_az_l0.shape)
        ((2, 5, 8), (8,))

    Source:
        Danieli et al. 2025, arXiv:2510.21450.
    """

    cell_class = ParaGRUEquations


class ParaGRUCell(Cell[Tensor]):
    """One step of `ParaGRU`, with the same equations and weights.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `ParaGRU`.

    Weights:
        weight_ih: (3 · hidden_size, input_size), rows of update, reset, candidate.
        bias_ih: (3 · hidden_size,), unless `bias` is False.
        weight_az: (hidden_size,), a_z.
        weight_ar: (hidden_size,), a_r.
        weight_an: (hidden_size,), a_n.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, h (batch, hidden_size), without batch for one input; None for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = ParaGRUCell(3, 8)
        >>> h = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = ParaGRU


register(ParaGRU, single_step=ParaGRUCell)
