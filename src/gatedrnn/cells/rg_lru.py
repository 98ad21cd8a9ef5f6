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
LEAST_RADIUS, LARGEST_RADIUS = 0.9, 0.999
"""The range of exp(-softplus(L)) at initialisation."""
LEAST_SQUARE = 2.5e-7
"""The value of 1 - a^2 below which its root is a line through 0: a root's slope is unbounded, and the authors' code
cuts it off at 1,000, its value there."""


class RGLRUEquations(GappedScanEquations):
    """Real-gated linear recurrent unit, of Griffin: a decay of each channel, raised to a gate; r *replaces*.

    a = exp(-8 sigmoid(W_r x) * softplus(L)),  h = a * h + sqrt(1 - a^2) * sigmoid(W_i x) * W_v x

    State h, which is the output; one bias a projection. L, `weight_decay`, is a weight a channel. The value W_v x is a
    projection of its own, as the linear layer before the unit is in the paper's block, and the gates read the whole
    input, where the paper's read it in blocks. The authors' code takes the root as 1 at a reset and at the first step;
    here it is what it is everywhere. De et al. 2024, arXiv:2402.19427.
    """

    name = "rg-lru"
    projections = ("candidate", "recurrence", "input")
    decay_gates = {"recurrence": -1}
    diagonals = {"decay": None}
    bias_init = "zeros"

    def fill_diagonals(self, weights: Mapping[str, Tensor]) -> None:
        """Draw the square of exp(-softplus(L)) uniform from 0.9^2 to 0.999^2."""
        squares = nn.init.uniform_(weights["decay"], LEAST_RADIUS**2, LARGEST_RADIUS**2)
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
        a = np.exp(-8 * np.log1p(np.exp(weights["weight_decay"])) * sigmoid(r))
        h = a * h + np.sqrt(1 - a**2) * sigmoid(i) * v
        return h, (h,)


def _coefficients(log_decay: Series, value: Series) -> tuple[Series, Series]:
    square = -torch.expm1(2 * log_decay)
    root = torch.minimum(square.clamp(min=LEAST_SQUARE).sqrt(), square / LEAST_SQUARE**0.5)
    return torch.exp(log_decay), root * value


class RGLRU(Layer[Tensor]):
    """RG-LRU of Griffin (De et al. 2024, arXiv:2402.19427), run by a scan: a decay raised to a gate; r *replaces*.

    The decay of each channel at a wide open gate is exp(-8 softplus(`weight_decay_l0`)); it begins between 0.9^8 and
    0.999^8.

    Example:
        >>> layer = RGLRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_decay_l0.shape)
        ((2, 5, 8), (8,))
    """

    cell_class = RGLRUEquations


class RGLRUCell(Cell[Tensor]):
    """One step of `RGLRU`."""

    layer_class = RGLRU


register(RGLRU, single_step=RGLRUCell)
