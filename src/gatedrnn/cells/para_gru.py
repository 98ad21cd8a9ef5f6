"""ParaGRU: a GRU that reads its state through diagonal weights (Danieli et al. 2025, arXiv:2510.21450)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.cells.para import ParaEquations
from gatedrnn.equations import Arrays, Diagonal, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step


class ParaGRUEquations(ParaEquations):
    """ParaGRU: a GRU whose gates read their own channel of the state alone; z *replaces* (in `gru` it keeps).

    z = sigmoid(W_z x + a_z * h),  r = sigmoid(W_r x + a_r * h)
    n = tanh(W_n x + a_n * (r * h)),  h = (1 - z) * h + z * n

    a_z, a_r and a_n are a weight a channel each. State h, which is the output; one bias a gate. W is a full matrix
    here. Danieli et al. 2025, arXiv:2510.21450.
    """

    name = "para-gru"
    projections = ("update", "reset", "candidate")
    decay_gates = {"update": -1}
    diagonals = {"az": Diagonal("update"), "ar": Diagonal("reset"), "an": Diagonal("candidate")}

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (x_z, x_r, x_n), (h,) = projected, state
        a_z, a_r, a_n = (recurrent.diagonal(name) for name in self.diagonals)
        read = recurrent.drop(h)
        z, r = torch.sigmoid(x_z + a_z * read), torch.sigmoid(x_r + a_r * read)
        n = torch.tanh(x_n + a_n * (r * read))
        return ((1 - z) * h + z * n,)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (z, r, n), (h,) = gates, state
        z, r = sigmoid(z + weights["weight_az"] * h), sigmoid(r + weights["weight_ar"] * h)
        h = h - z * h + z * np.tanh(n + weights["weight_an"] * r * h)
        return h, (h,)


class ParaGRU(Layer[Tensor]):
    """A GRU whose gates read the state through diagonal weights, ParaGRU (Danieli et al. 2025, arXiv:2510.21450).

    z *replaces* (in `GRU` it keeps). The diagonal weights `weight_az_l0`, `weight_ar_l0` and `weight_an_l0` begin
    normal with variance 4 / (5 hidden_size).

    Example:
        >>> layer = ParaGRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_az_l0.shape)
        ((2, 5, 8), (8,))
    """

    cell_class = ParaGRUEquations


class ParaGRUCell(Cell[Tensor]):
    """One step of `ParaGRU`."""

    layer_class = ParaGRU


register(ParaGRU, single_step=ParaGRUCell)
