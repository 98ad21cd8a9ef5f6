"""Gated recurrent unit whose state decays with time (Che et al. 2018, arXiv:1606.01865)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, GappedLoopEquations, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step


class GRUDEquations(GappedLoopEquations):
    """GRU whose state decays towards zero over the time since something was seen; z *replaces*."""

    name = "gru-d"
    projections = ("reset", "update", "candidate")
    decay_gates = {"update": -1}

    def __init__(self, gap_features: int = 1) -> None:
        if gap_features < 1:
            raise ValueError(f"gap_features must be at least 1, got {gap_features}")
        self.gap_features = gap_features

    def step_over(
        self, gaps: Step, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent
    ) -> tuple[State, ...]:
        x_r, x_z, x_n = projected
        # relu keeps the rate at 0 or more: a decay above 1 would let the state grow with the gap.
        h = torch.exp(-torch.relu(recurrent.over(gaps))) * state[0]
        h_r, h_z = recurrent(h, "reset", "update")
        (h_n,) = recurrent(torch.sigmoid(x_r + h_r) * h, "candidate")
        z = torch.sigmoid(x_z + h_z)
        return ((1 - z) * h + z * torch.tanh(x_n + h_n),)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (x_r, x_z, x_n), (h,) = gates, state
        U_r, U_z, U_n = np.split(weights["weight_hh"], 3)
        delta = weights.get("gaps", np.ones((len(h), self.gap_features)))
        h = h * np.exp(-np.maximum(0, delta @ weights["weight_gap"].T + weights.get("bias_gap", 0)))
        z = sigmoid(x_z + h @ U_z.T)
        h = (1 - z) * h + z * np.tanh(x_n + (sigmoid(x_r + h @ U_r.T) * h) @ U_n.T)
        return h, (h,)


class GRUD(Layer[Tensor]):
    """GRU whose state decays over the time since each feature was last seen (Che et al. 2018, arXiv:1606.01865).

    Equations:
        gamma = exp(-max(0, W_gamma delta + b_gamma)),  h' = gamma * h
        r = sigmoid(W_r x + U_r h'),  z = sigmoid(W_z x + U_z h')
        n = tanh(W_n x + U_n (r * h')),  h = (1 - z) * h' + z * n

    z *replaces*. For series with missing values at uneven times, by `gaps`, which are delta: (batch, time), since the
    step before, as in other cells; or (batch, time, gap_features), since each feature was last seen, read as they are,
    in both directions twice as many. Without `gaps` each is 1.

    Che et al.'s input is the last observed value, decayed towards the mean, beside the mask of what was observed. Their
    delta is the gap since the step before, plus the delta of that step where the feature was not seen. A model with
    `gap_unit`, and an estimator with `times`, make both from series with NaN.

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

    Keyword Args:
        gap_features: times that the decay reads at each step, 1 or more.

    Weights:
        weight_ih_l0: (3 · hidden_size, input_size), rows of reset, update, candidate.
        weight_hh_l0: (3 · hidden_size, hidden_size).
        bias_ih_l0: (3 · hidden_size,), unless `bias` is False.
        weight_gap_l0: (hidden_size, gap_features), W_gamma.
        bias_gap_l0: (hidden_size,), b_gamma.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (3 · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"), W_gamma from 0 to 0.2 / gap_features; biases are 0
        ("zeros").

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
        >>> layer = GRUD(6, 8, gap_features=3, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 6), gaps=torch.rand(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)

    Source:
        Che et al. 2018, arXiv:1606.01865.
    """

    cell_class = GRUDEquations


class GRUDCell(Cell[Tensor]):
    """One step of `GRUD`, a gap of 1 after the one before; a stream with other gaps is `GRUD.step`.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `GRUD`.
        gap_features: as in `GRUD`.

    Weights:
        weight_ih: (3 · hidden_size, input_size), rows of reset, update, candidate.
        weight_hh: (3 · hidden_size, hidden_size).
        bias_ih: (3 · hidden_size,), unless `bias` is False.
        weight_gap: (hidden_size, gap_features), W_gamma.
        bias_gap: (hidden_size,), b_gamma.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, h (batch, hidden_size), without batch for one input; None for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = GRUDCell(3, 8)
        >>> h = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = GRUD


register(GRUD, single_step=GRUDCell)
