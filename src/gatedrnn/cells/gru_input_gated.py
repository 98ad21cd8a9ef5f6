"""Step 2 from GRU to minGRU: gates read the input alone."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, ConvexScanEquations, NumpyStep, NumpyWeights
from gatedrnn.shapes import Series


class InputGatedGRUEquations(ConvexScanEquations):
    """Step 2 of the ladder: nothing reads h any more, so all steps run at once; z *keeps*."""

    name = "gru-input-gated"
    projections = ("update", "candidate")
    decay_gates = {"update": 1}

    def logit(self, *projected: Series) -> Series:
        update, _ = projected
        return update

    def value(self, *projected: Series) -> Series:
        _, n = projected
        return torch.tanh(n)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (z, n), (h,) = gates, state
        h = (1 - sigmoid(z)) * np.tanh(n) + sigmoid(z) * h
        return h, (h,)


class InputGatedGRU(Layer[Tensor]):
    """GRU whose gates read the input alone, step 2 from GRU to minGRU, run by a scan; z *keeps*.

    Equations:
        z = sigmoid(W_z x),  n = tanh(W_n x),  h = (1 - z) * n + z * h

    Nothing reads h any more, so all steps run at once. With z the other way round and g in tanh's place this is minGRU.
    A gap raises z to it.

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
        state_dropout: rate at which a channel of what a step adds is zeroed for a whole sequence, 0 to below 1.
        weight_dropout: 0, for there is no `weight_hh_l0`.
        layer_norm: True normalises the projection of the input, gate by gate.
        weight_init, bias_init: initialisation by name; "fan-in" and "time-scales" if None.
        longest_time_scale: the longest time scale of the biases, 2 steps or more; 64 steps if None.

    Weights:
        weight_ih_l0: (2 · hidden_size, input_size), rows of update, candidate.
        bias_ih_l0: (2 · hidden_size,), unless `bias` is False.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (2 · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"); the biases of the update gate spread its decay over 2 to
        64 steps, others are 0 ("time-scales").

    Inputs: input, hx
        input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size), or a
            `PackedSequence`.
        hx: the state before the first step; None for zeros.
        mask, resets, gaps, dropout_masks, wide_state: keyword arguments, see `RecurrentLayer.forward`.

    Outputs: output, h_n
        output: like input, with directions · (proj_size or hidden_size) features.
        h_n: the state after the last step, in the form of hx.

    State:
        h: (L, batch, hidden_size), the output. L = num_layers · directions.

    Example:
        >>> layer = InputGatedGRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)

    Source:
        A step between `GRU` and `MinGRU` (Feng et al. 2024, arXiv:2410.01201).
    """

    cell_class = InputGatedGRUEquations


class InputGatedGRUCell(Cell[Tensor]):
    """One step of `InputGatedGRU`, with the same equations and weights.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `InputGatedGRU`.

    Weights:
        weight_ih: (2 · hidden_size, input_size), rows of update, candidate.
        bias_ih: (2 · hidden_size,), unless `bias` is False.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, h (batch, hidden_size), without batch for one input; None for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = InputGatedGRUCell(3, 8)
        >>> h = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = InputGatedGRU


register(InputGatedGRU, single_step=InputGatedGRUCell)
