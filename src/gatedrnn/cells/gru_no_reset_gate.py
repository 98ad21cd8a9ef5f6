"""Step 1 from GRU to minGRU: no reset gate."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, LoopEquations, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step


class NoResetGateGRUEquations(LoopEquations):
    """Step 1 of the ladder: a GRU without its reset gate; z *keeps*."""

    name = "gru-no-reset-gate"
    projections = ("update", "candidate")
    decay_gates = {"update": 1}

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (h,) = state
        z, n = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        z = torch.sigmoid(z)
        return ((1 - z) * torch.tanh(n) + z * h,)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (h,), products = state, np.split(state[0] @ weights["weight_hh"].T, 2, axis=1)
        z, n = (x + u for x, u in zip(gates, products, strict=True))
        h = (1 - sigmoid(z)) * np.tanh(n) + sigmoid(z) * h
        return h, (h,)


class NoResetGateGRU(Layer[Tensor]):
    """GRU without its reset gate, step 1 from GRU to minGRU; z *keeps*.

    Equations:
        z = sigmoid(W_z x + U_z h),  n = tanh(W_n x + U_n h),  h = (1 - z) * n + z * h

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
        weight_dropout: rate at which an element of `weight_hh_l0` is zeroed for a whole batch, 0 to below 1.
        layer_norm: True normalises the projection of the input, gate by gate.
        weight_init, bias_init: initialisation by name; "fan-in" and "zeros" if None.
        longest_time_scale: for bias_init "time-scales" alone: the longest one, 2 steps or more; 64 steps if None.

    Weights:
        weight_ih_l0: (2 · hidden_size, input_size), rows of update, candidate.
        weight_hh_l0: (2 · hidden_size, hidden_size).
        bias_ih_l0: (2 · hidden_size,), unless `bias` is False.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (2 · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"); biases are 0 ("zeros").

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
        >>> layer = NoResetGateGRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)

    Source:
        A step between `GRU` and `MinGRU` (Feng et al. 2024, arXiv:2410.01201).
    """

    cell_class = NoResetGateGRUEquations


class NoResetGateGRUCell(Cell[Tensor]):
    """One step of `NoResetGateGRU`, with the same equations and weights.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `NoResetGateGRU`.

    Weights:
        weight_ih: (2 · hidden_size, input_size), rows of update, candidate.
        weight_hh: (2 · hidden_size, hidden_size).
        bias_ih: (2 · hidden_size,), unless `bias` is False.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, h (batch, hidden_size), without batch for one input; None for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = NoResetGateGRUCell(3, 8)
        >>> h = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = NoResetGateGRU


register(NoResetGateGRU, single_step=NoResetGateGRUCell)
