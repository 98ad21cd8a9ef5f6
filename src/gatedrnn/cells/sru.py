"""Simple recurrent unit (Lei et al. 2018, arXiv:1709.02755)."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, Diagonal, ElementwiseLoopEquations, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step


class SRUEquations(ElementwiseLoopEquations):
    """Simple recurrent unit: a cell state that its gates read by channel, under a highway; f *keeps*.

    f = sigmoid(W_f x + v_f * c),  r = sigmoid(W_r x + v_r * c),  c' = f * c + (1 - f) * W_c x
    h' = r * c' + (1 - r) * W_s x

    Both gates see the state before the step; v_f and v_r are a weight a channel. State (h, c) as in an LSTM, output h,
    which no gate reads; one bias a row. The skip W_s x is a projection of its own, as in the authors' code where input
    and state differ in size; where they do not, it has sqrt(1 + 2 exp(b_r)) x there, which W_s can be. With
    v_f = v_r = 0 it is a scan. Lei et al. 2018, arXiv:1709.02755.
    """

    name = "sru"
    projections = ("candidate", "forget", "highway", "skip")
    candidates = ("candidate", "skip")
    decay_gates = {"forget": 1}
    bias_init = "time-scales"
    states = ("h", "c")
    diagonals = {"vf": Diagonal("forget", 1), "vr": Diagonal("highway", 1)}

    def fill_as_authors(self, weights: Mapping[str, Tensor]) -> None:
        """Uniform: W of variance 1 / features, half of that for f and r, three times it for the skip; v of variance
        1/2. Biases are 0."""
        for name, weight in weights.items():
            if name == "weight_ih":
                bound = math.sqrt(3 / weight.shape[1])
                for block, share in zip(weight.chunk(4), (1, 1 / 2, 1 / 2, 3), strict=True):
                    nn.init.uniform_(block, -bound * math.sqrt(share), bound * math.sqrt(share))
            elif name in ("weight_vf", "weight_vr"):
                nn.init.uniform_(weight, -math.sqrt(3 / 2), math.sqrt(3 / 2))
            elif name == "bias_ih":
                nn.init.zeros_(weight)

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (candidate, x_f, x_r, skip), (_, c) = projected, state
        read = recurrent.drop(c)
        f = torch.sigmoid(x_f + recurrent.diagonal("vf") * read)
        r = torch.sigmoid(x_r + recurrent.diagonal("vr") * read)
        c = f * c + (1 - f) * candidate
        return r * c + (1 - r) * skip, c

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (u, f, r, skip), (_, c) = gates, state
        f, r = sigmoid(f + weights["weight_vf"] * c), sigmoid(r + weights["weight_vr"] * c)
        c = u + (c - u) * f
        h = skip + (c - skip) * r
        return h, (h, c)


class SRU(Layer[tuple[Tensor, Tensor]]):
    """Simple recurrent unit (Lei et al. 2018, arXiv:1709.02755): gates read the cell state by channel; f *keeps*.

    The state is (h, c) as in `LSTM`; nothing reads h. The diagonal weights `weight_vf_l0` and `weight_vr_l0` begin
    uniform within 0.1.

    Example:
        >>> layer = SRU(3, 8, batch_first=True)
        >>> output, (h_n, c_n) = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_vf_l0.shape)
        ((2, 5, 8), (8,))
    """

    cell_class = SRUEquations


class SRUCell(Cell[tuple[Tensor, Tensor]]):
    """One step of `SRU`."""

    layer_class = SRU


register(SRU, single_step=SRUCell)
