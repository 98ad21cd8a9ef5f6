"""ParaLSTM: an LSTM that reads its state through diagonal weights (Danieli et al. 2025, arXiv:2510.21450)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.cells.para import ParaEquations
from gatedrnn.equations import Arrays, Diagonal, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step


class ParaLSTMEquations(ParaEquations):
    """ParaLSTM: coupled gates that read their own channel of the states alone; f *keeps*.

    f = sigmoid(W_f x + a_f * h + c_f * c),  g = tanh(W_g x + a_g * h),  c' = f * c + (1 - f) * g
    o = sigmoid(W_o x + a_o * h + c_o * c'),  h' = o * tanh(c')

    f sees the cell state before the step, o the one after it. a_f, a_g, a_o, c_f and c_o are a weight a channel each.
    State (h, c), output h, one bias a gate. W is a full matrix here. Danieli et al. 2025, arXiv:2510.21450.
    """

    name = "para-lstm"
    projections = ("forget", "candidate", "output")
    decay_gates = {"forget": 1}
    states = ("h", "c")
    diagonals = {
        "af": Diagonal("forget"), "ag": Diagonal("candidate"), "ao": Diagonal("output"),
        "cf": Diagonal("forget", 1), "co": Diagonal("output", 1),
    }  # fmt: skip

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (x_f, x_g, x_o), (h, c) = projected, state
        a_f, a_g, a_o, c_f, c_o = (recurrent.diagonal(name) for name in self.diagonals)
        read = recurrent.drop(h)
        f = torch.sigmoid(x_f + a_f * read + c_f * c)
        c = f * c + (1 - f) * torch.tanh(x_g + a_g * read)
        return torch.sigmoid(x_o + a_o * read + c_o * c) * torch.tanh(c), c

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (f, g, o), (h, c) = gates, state
        f = sigmoid(f + weights["weight_af"] * h + weights["weight_cf"] * c)
        c = f * c + (1 - f) * np.tanh(g + weights["weight_ag"] * h)
        h = sigmoid(o + weights["weight_ao"] * h + weights["weight_co"] * c) * np.tanh(c)
        return h, (h, c)


class ParaLSTM(Layer[tuple[Tensor, Tensor]]):
    """An LSTM whose coupled gates read the states through diagonal weights, ParaLSTM (Danieli et al. 2025).

    f *keeps*, 1 - f lets in (arXiv:2510.21450). The diagonal weights `weight_af_l0`, `weight_ag_l0` and `weight_ao_l0`
    of h, `weight_cf_l0` and `weight_co_l0` of c begin normal with variance 4 / (5 hidden_size).

    Example:
        >>> layer = ParaLSTM(3, 8, batch_first=True)
        >>> output, (h_n, c_n) = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_af_l0.shape)
        ((2, 5, 8), (8,))
    """

    cell_class = ParaLSTMEquations


class ParaLSTMCell(Cell[tuple[Tensor, Tensor]]):
    """One step of `ParaLSTM`."""

    layer_class = ParaLSTM


register(ParaLSTM, single_step=ParaLSTMCell)
