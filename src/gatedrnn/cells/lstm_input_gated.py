"""Step 2 from LSTM to minLSTM: gates read the input alone."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, GappedScanEquations, NumpyStep, NumpyWeights
from gatedrnn.shapes import Series


class InputGatedLSTMEquations(GappedScanEquations):
    """Step 2 of the ladder: nothing reads h any more, so all steps run at once; the forget gate *keeps*."""

    name = "lstm-input-gated"
    projections = ("input", "forget", "candidate")
    decay_gates = {"forget": 1}

    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        i, f, g = projected
        return torch.sigmoid(f), torch.sigmoid(i) * torch.tanh(g)

    def coefficients_over(self, gaps: Series, *projected: Series) -> tuple[Series, Series]:
        _, f, _ = projected
        # By the logarithm, as in ConvexScanEquations. The drive is that of one step: i is a gate of its own, not 1 - f.
        return torch.exp(gaps * logsigmoid(f)), self.coefficients(*projected)[1]

    def output(self, state: tuple[Series, ...], projected: tuple[Series, ...]) -> Series:
        return torch.tanh(state[0])

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (i, f, g), (c,) = gates, state
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return np.tanh(c), (c,)


class InputGatedLSTM(Layer[Tensor]):
    """LSTM whose gates read the input alone, step 2 from LSTM to minLSTM, run by a scan; the state is c.

    Equations:
        i = sigmoid(W_i x),  f = sigmoid(W_f x),  g = tanh(W_g x),  c = f * c + i * g,  h = tanh(c)

    The forget gate *keeps*. Nothing reads h any more, so all steps run at once. A gap raises f alone: what is written
    does not grow with it.

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
        weight_ih_l0: (3 · hidden_size, input_size), rows of input, forget, candidate.
        bias_ih_l0: (3 · hidden_size,), unless `bias` is False.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (3 · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"); the biases of the forget gate spread its decay over 2 to
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
        c: (L, batch, hidden_size); the output is tanh(c). L = num_layers · directions.

    Example:
        >>> layer = InputGatedLSTM(3, 8, batch_first=True)
        >>> output, c_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)

    Source:
        A step between `LSTM` and `MinLSTM` (Feng et al. 2024, arXiv:2410.01201).
    """

    cell_class = InputGatedLSTMEquations


class InputGatedLSTMCell(Cell[Tensor]):
    """One step of `InputGatedLSTM`, with the same equations and weights; `output(c)` is tanh(c).

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `InputGatedLSTM`.

    Weights:
        weight_ih: (3 · hidden_size, input_size), rows of input, forget, candidate.
        bias_ih: (3 · hidden_size,), unless `bias` is False.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, c (batch, hidden_size), without batch for one input; None for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = InputGatedLSTMCell(3, 8)
        >>> c = cell(torch.randn(2, 3))
        >>> tuple(c.shape)
        (2, 8)
    """

    layer_class = InputGatedLSTM


register(InputGatedLSTM, single_step=InputGatedLSTMCell)
