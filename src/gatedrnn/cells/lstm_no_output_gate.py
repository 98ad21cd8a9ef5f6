"""Step 1 from LSTM to minLSTM: no output gate."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, LoopEquations, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import Series, State, Step


class NoOutputGateLSTMEquations(LoopEquations):
    """Step 1 of the ladder: an LSTM without its output gate; the forget gate *keeps*."""

    name = "lstm-no-output-gate"
    bias_init = "forget-one"
    projections = ("input", "forget", "candidate")
    decay_gates = {"forget": 1}

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (c,) = state
        h = torch.tanh(c)
        i, f, g = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        return (torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g),)

    def output(self, state: tuple[Series, ...], projected: tuple[Series, ...]) -> Series:
        return torch.tanh(state[0])

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (c,), products = state, np.split(np.tanh(state[0]) @ weights["weight_hh"].T, 3, axis=1)
        i, f, g = (x + u for x, u in zip(gates, products, strict=True))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return np.tanh(c), (c,)


class NoOutputGateLSTM(Layer[Tensor]):
    """LSTM without its output gate, step 1 from LSTM to minLSTM; the forget gate *keeps*, and the state is c.

    Equations:
        i = sigmoid(W_i x + U_i h),  f = sigmoid(W_f x + U_f h),  g = tanh(W_g x + U_g h)
        c = f * c + i * g,           h = tanh(c)

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
        weight_init, bias_init: initialisation by name; "fan-in" and "forget-one" if None.
        longest_time_scale: for bias_init "time-scales" alone: the longest one, 2 steps or more; 64 steps if None.

    Weights:
        weight_ih_l0: (3 · hidden_size, input_size), rows of input, forget, candidate.
        weight_hh_l0: (3 · hidden_size, hidden_size).
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
        c: (L, batch, hidden_size); the output is tanh(c). L = num_layers · directions.

    Example:
        >>> layer = NoOutputGateLSTM(3, 8, batch_first=True)
        >>> output, c_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)

    Source:
        A step between `LSTM` and `MinLSTM` (Feng et al. 2024, arXiv:2410.01201).
    """

    cell_class = NoOutputGateLSTMEquations


class NoOutputGateLSTMCell(Cell[Tensor]):
    """One step of `NoOutputGateLSTM`, with the same equations and weights; `output(c)` is tanh(c).

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `NoOutputGateLSTM`.

    Weights:
        weight_ih: (3 · hidden_size, input_size), rows of input, forget, candidate.
        weight_hh: (3 · hidden_size, hidden_size).
        bias_ih: (3 · hidden_size,), unless `bias` is False.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, c (batch, hidden_size), without batch for one input; None for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = NoOutputGateLSTMCell(3, 8)
        >>> c = cell(torch.randn(2, 3))
        >>> tuple(c.shape)
        (2, 8)
    """

    layer_class = NoOutputGateLSTM


register(NoOutputGateLSTM, single_step=NoOutputGateLSTMCell)
