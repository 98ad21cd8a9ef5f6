"""JANET: an LSTM with its forget gate alone (van der Westhuizen & Lasenby 2018, arXiv:1804.04849)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, LoopEquations, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step


class JANETEquations(LoopEquations):
    """JANET, an LSTM with its forget gate alone; the forget gate *keeps*."""

    name = "janet"
    projections = ("forget", "candidate")
    decay_gates = {"forget": 1}
    bias_init = "time-scales"

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (h,) = state
        s_t, n = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        # sigmoid(beta - s) is 1 - sigmoid(s - beta) without cancellation.
        return (torch.sigmoid(s_t) * h + torch.sigmoid(self.beta - s_t) * torch.tanh(n),)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (h,), products = state, np.split(state[0] @ weights["weight_hh"].T, 2, axis=1)
        s, n = (x + u for x, u in zip(gates, products, strict=True))
        h = sigmoid(s) * h + (1 - sigmoid(s - self.beta)) * np.tanh(n)
        return h, (h,)


class JANET(Layer[Tensor]):
    """An LSTM with its forget gate alone, JANET (van der Westhuizen & Lasenby 2018, arXiv:1804.04849).

    Equations:
        s_t = W_f x + U_f h,  n = tanh(W_n x + U_n h),  h = sigmoid(s_t) * h + (1 - sigmoid(s_t - beta)) * n

    The forget gate *keeps*. With beta above 0 a step lets in more than it forgets.

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
        weight_init, bias_init: initialisation by name; "fan-in" and "time-scales" if None.
        longest_time_scale: the longest time scale of the biases, 2 steps or more; 64 steps if None.

    Keyword Args:
        beta: how far the gate that lets in is ahead of the gate that forgets; any number, 1 as in the paper.

    Weights:
        weight_ih_l0: (2 · hidden_size, input_size), rows of forget, candidate.
        weight_hh_l0: (2 · hidden_size, hidden_size).
        bias_ih_l0: (2 · hidden_size,), unless `bias` is False.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (2 · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"); the biases of the forget gate spread its decay over 2 to
        64 steps, others are 0 ("time-scales"): the idea of the chrono initialisation of the paper.

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
        >>> layer = JANET(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_hh_l0.shape)
        ((2, 5, 8), (16, 8))

    Source:
        van der Westhuizen & Lasenby 2018, arXiv:1804.04849, where beta is 1.
    """

    cell_class = JANETEquations


class JANETCell(Cell[Tensor]):
    """One step of `JANET`, with the same equations and weights.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `JANET`.
        beta: as in `JANET`.

    Weights:
        weight_ih: (2 · hidden_size, input_size), rows of forget, candidate.
        weight_hh: (2 · hidden_size, hidden_size).
        bias_ih: (2 · hidden_size,), unless `bias` is False.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, h (batch, hidden_size), without batch for one input; None for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = JANETCell(3, 8)
        >>> h = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = JANET


register(JANET, single_step=JANETCell, variants=({"beta": 0.0},))
