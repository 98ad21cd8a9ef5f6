"""Hierarchically gated recurrent network (Qin et al. 2023, arXiv:2311.04823)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, silu

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, GappedScanEquations, NumpyStep, NumpyWeights
from gatedrnn.shapes import Series

LEAST_BOUND, LARGEST_BOUND = 0.001, 0.95
"""The range of the bounds at initialisation."""


class HGRNEquations(GappedScanEquations):
    """Hierarchically gated recurrent network: a decay that never falls below a bound of its channel; f *keeps*.

    f = l + (1 - l) * sigmoid(W_f x),  h = f * h + (1 - f) * silu(W_v x),  l = sigmoid(bound)

    State h, which is the output; one bias a gate. Real, as in its authors' later code; the paper's first form turns a
    complex state. There the bounds of all layers come from one softmax, summed up over the layers, and begin at l / L
    in layer l of L; here each layer has its own, which begin between 0 and 0.95. The output gate is a block's matter.
    Qin et al. 2023, arXiv:2311.04823.
    The biases' "time-scales" are those of sigmoid(W_f x): a bound of l makes them 1 / (1 - l) times as long.
    """

    name = "hgrn"
    projections = ("candidate", "forget")
    decay_gates = {"forget": 1}
    diagonals = {"bound": None}

    def fill_diagonals(self, weights: Mapping[str, Tensor]) -> None:
        """Draw bounds uniform from 0 to 0.95."""
        nn.init.uniform_(weights["bound"], LEAST_BOUND, LARGEST_BOUND).logit_()

    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        candidate, forget, bound = projected
        decay = torch.sigmoid(bound) + torch.sigmoid(-bound) * torch.sigmoid(forget)
        return decay, torch.sigmoid(-bound) * torch.sigmoid(-forget) * silu(candidate)

    def coefficients_over(self, gaps: Series, *projected: Series) -> tuple[Series, Series]:
        candidate, forget, bound = projected
        log_decay = gaps * torch.logaddexp(logsigmoid(bound), logsigmoid(-bound) + logsigmoid(forget))
        return torch.exp(log_decay), -torch.expm1(log_decay) * silu(candidate)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (v, f), (h,), bound = gates, state, sigmoid(weights["weight_bound"])
        f = bound + (1 - bound) * sigmoid(f)
        h = f * h + (1 - f) * v * sigmoid(v)
        return h, (h,)


class HGRN(Layer[Tensor]):
    """HGRN (Qin et al. 2023, arXiv:2311.04823), run by a scan: a decay above a learned bound; f *keeps*.

    The bound of each channel is the sigmoid of `weight_bound_l0`, which begins spread from 0 to 0.95.

    Example:
        >>> layer = HGRN(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_bound_l0.shape)
        ((2, 5, 8), (8,))
    """

    cell_class = HGRNEquations


class HGRNCell(Cell[Tensor]):
    """One step of `HGRN`."""

    layer_class = HGRN


register(HGRN, single_step=HGRNCell)
