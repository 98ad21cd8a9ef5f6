"""LSTM with coupled input and forget gates (Greff et al. 2017, arXiv:1503.04069)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, LoopEquations, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step


class CIFGEquations(LoopEquations):
    """LSTM with coupled input and forget gates: what a gate forgets it writes; f *keeps*.

    f = sigmoid(W_f x + U_f h),  g = tanh(W_g x + U_g h),  o = sigmoid(W_o x + U_o h)
    c' = f * c + (1 - f) * g,  h' = o * tanh(c')

    State (h, c), output h, one bias a gate; proj_size as in `lstm`. The variant CIFG of Greff et al. 2017
    (arXiv:1503.04069), which has peepholes too; there are none here.
    """

    name = "cifg"
    bias_init = "forget-one"
    projections = ("forget", "candidate", "output")
    decay_gates = {"forget": 1}
    states = ("h", "c")
    projects_state = True

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        h, c = state
        f, g, o = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        f = torch.sigmoid(f)
        c = f * c + (1 - f) * torch.tanh(g)
        return recurrent.project(torch.sigmoid(o) * torch.tanh(c)), c

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (h, c), products = state, np.split(state[0] @ weights["weight_hh"].T, 3, axis=1)
        f, g, o = (x + u for x, u in zip(gates, products, strict=True))
        c = sigmoid(f) * c + (1 - sigmoid(f)) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        h = h @ weights["weight_hr"].T if "weight_hr" in weights else h
        return h, (h, c)


class CIFG(Layer[tuple[Tensor, Tensor]]):
    """LSTM with coupled input and forget gates (Greff et al. 2017, arXiv:1503.04069): i = 1 - f; f *keeps*.

    Example:
        >>> layer = CIFG(3, 8, batch_first=True)
        >>> output, (h_n, c_n) = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_ih_l0.shape)
        ((2, 5, 8), (24, 3))
    """

    cell_class = CIFGEquations


class CIFGCell(Cell[tuple[Tensor, Tensor]]):
    """One step of `CIFG`."""

    layer_class = CIFG


register(CIFG, single_step=CIFGCell)
