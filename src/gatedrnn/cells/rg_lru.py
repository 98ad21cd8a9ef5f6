"""Real-gated linear recurrent unit (De et al. 2024, arXiv:2402.19427)."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, GappedScanEquations, NumpyStep, NumpyWeights
from gatedrnn.shapes import Series

SHARPNESS = 8.0
"""c of the paper: the largest power to which the gate raises a channel's decay."""
MIN_RADIUS, MAX_RADIUS = 0.9, 0.999
"""The range of exp(-softplus(L)) at initialisation."""
_MIN_SQUARE = 2.5e-7
"""The value of 1 - a^2 below which its root is a line through 0: a root's slope is unbounded, and the authors' code
cuts it off at 1,000, its value there."""


class RGLRUEquations(GappedScanEquations):
    """Real-gated linear recurrent unit, of Griffin: a decay of each channel, raised to a gate; r *replaces*."""

    name = "rg-lru"
    projections = ("candidate", "recurrence", "input")
    decay_gates = {"recurrence": -1}
    diagonals = {"decay": None}
    bias_init = "zeros"

    def fill_diagonals(self, weights: Mapping[str, Tensor]) -> None:
        """Draw the square of exp(-softplus(L)) uniform from 0.9^2 to 0.999^2."""
        squares = nn.init.uniform_(weights["decay"], MIN_RADIUS**2, MAX_RADIUS**2)
        # The inverse of softplus: L = log(exp(y) - 1) for y = -log r, of which `squares` holds r^2.
        squares.log_().mul_(-0.5).expm1_().log_()

    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        candidate, recurrence, gate, decay = projected
        log_decay = -SHARPNESS * torch.sigmoid(recurrence) * softplus(decay)
        return _coefficients(log_decay, torch.sigmoid(gate) * candidate)

    def coefficients_over(self, gaps: Series, *projected: Series) -> tuple[Series, Series]:
        candidate, recurrence, gate, decay = projected
        log_decay = -SHARPNESS * gaps * torch.sigmoid(recurrence) * softplus(decay)
        return _coefficients(log_decay, torch.sigmoid(gate) * candidate)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (v, r, i), (h,) = gates, state
        # The numbers of the paper once more: a shared constant that is wrong would pass the comparison.
        a = np.exp(-8 * np.log1p(np.exp(weights["weight_decay"])) * sigmoid(r))
        h = a * h + np.sqrt(1 - a**2) * sigmoid(i) * v
        return h, (h,)


def _coefficients(log_decay: Series, value: Series) -> tuple[Series, Series]:
    # 1 - a^2 without cancellation: most decays begin between 0.9 and 0.999.
    square = -torch.expm1(2 * log_decay)
    root = torch.minimum(square.clamp(min=_MIN_SQUARE).sqrt(), square / _MIN_SQUARE**0.5)
    return torch.exp(log_decay), root * value


class RGLRU(Layer[Tensor]):
    """RG-LRU of Griffin (De et al. 2024, arXiv:2402.19427), run by a scan: a decay raised to a gate; r *replaces*.

    Equations:
        a = exp(-8 sigmoid(W_r x) * softplus(L)),  h = a * h + sqrt(1 - a^2) * sigmoid(W_i x) * W_v x

    The value W_v x is a projection of its own, as the linear layer before the unit is in the paper's block, and the
    gates read the whole input, where the paper's read it in blocks. The authors' code takes the root as 1 at a reset
    and at the first step; here it is what it is everywhere. A gap raises a to it.

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
        weight_init, bias_init: initialisation by name; "fan-in" and "zeros" if None.
        longest_time_scale: for bias_init "time-scales" alone: the longest one, 2 steps or more; 64 steps if None.

    Weights:
        weight_ih_l0: (3 · hidden_size, input_size), rows of candidate, recurrence, input.
        bias_ih_l0: (3 · hidden_size,), unless `bias` is False.
        weight_decay_l0: (hidden_size,), L.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (3 · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"), the square of exp(-softplus(L)) from 0.9^2 to 0.999^2;
        biases are 0 ("zeros"). So a channel's decay at a wide open gate begins between 0.9^8 and 0.999^8.

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
        >>> layer = RGLRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_decay_l0.shape)
        ((2, 5, 8), (8,))

    Source:
        De et al. 2024, arXiv:2402.19427.
    """

    cell_class = RGLRUEquations


class RGLRUCell(Cell[Tensor]):
    """One step of `RGLRU`, with the same equations and weights.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `RGLRU`.

    Weights:
        weight_ih: (3 · hidden_size, input_size), rows of candidate, recurrence, input.
        bias_ih: (3 · hidden_size,), unless `bias` is False.
        weight_decay: (hidden_size,), L.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, h (batch, hidden_size), without batch for one input; None for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = RGLRUCell(3, 8)
        >>> h = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = RGLRU


register(RGLRU, single_step=RGLRUCell)
