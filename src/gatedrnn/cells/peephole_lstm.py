"""LSTM with peepholes (Gers et al. 2002)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, Diagonal, LoopEquations, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step


class PeepholeLSTMEquations(LoopEquations):
    """LSTM whose gates see the cell state through diagonal weights; the forget gate *keeps*.

    i = sigmoid(W_i x + U_i h + w_ci * c),  f = sigmoid(W_f x + U_f h + w_cf * c),  g = tanh(W_g x + U_g h)
    c' = f * c + i * g,  o = sigmoid(W_o x + U_o h + w_co * c'),  h' = o * tanh(c')

    i and f see the state before the step, o sees the state after it. State (h, c), output h, one bias a gate. With
    proj_size, h' = W_hr (o * tanh(c')): the LSTMP of Sak et al. 2014 (arXiv:1402.1128). Gers et al. 2002.
    """

    name = "lstm-peephole"
    bias_init = "forget-one"
    projections = ("input", "forget", "candidate", "output")
    decay_gates = {"forget": 1}
    states = ("h", "c")
    diagonals = {"ci": Diagonal("input", 1), "cf": Diagonal("forget", 1), "co": Diagonal("output", 1, after=True)}
    projects_state = True

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        h, c = state
        i, f, g, o = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        w_ci, w_cf, w_co = (recurrent.diagonal(name) for name in self.diagonals)
        c = torch.sigmoid(f + w_cf * c) * c + torch.sigmoid(i + w_ci * c) * torch.tanh(g)
        h = recurrent.project(torch.sigmoid(o + w_co * c) * torch.tanh(c))
        return h, c

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (h, c), products = state, np.split(state[0] @ weights["weight_hh"].T, 4, axis=1)
        i, f, g, o = (x + u for x, u in zip(gates, products, strict=True))
        i, f = sigmoid(i + weights["weight_ci"] * c), sigmoid(f + weights["weight_cf"] * c)
        c = f * c + i * np.tanh(g)
        h = sigmoid(o + weights["weight_co"] * c) * np.tanh(c)
        h = h @ weights["weight_hr"].T if "weight_hr" in weights else h
        return h, (h, c)


class PeepholeLSTM(Layer[tuple[Tensor, Tensor]]):
    """LSTM whose gates read the cell state through diagonal weights (Gers et al. 2002); the forget gate *keeps*.

    With `proj_size` the projected output is also what the gates read: the LSTMP of Sak et al. 2014 (arXiv:1402.1128).

    Example:
        >>> layer = PeepholeLSTM(3, 8, batch_first=True)
        >>> output, (h_n, c_n) = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = PeepholeLSTMEquations


class PeepholeLSTMCell(Cell[tuple[Tensor, Tensor]]):
    """One step of `PeepholeLSTM`."""

    layer_class = PeepholeLSTM


register(PeepholeLSTM, single_step=PeepholeLSTMCell)
