"""Step 1 from LSTM to minLSTM: no output gate."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, LoopEquations, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import Series, State, Step


class NoOutputGateLSTMEquations(LoopEquations):
    """Step 1 of the ladder: an LSTM without its output gate; the forget gate *keeps*.

    i = sigmoid(W_i x + U_i h),  f = sigmoid(W_f x + U_f h),  g = tanh(W_g x + U_g h)
    c = f * c + i * g,           h = tanh(c)

    State c alone, output h, one bias a gate.
    """

    name = "lstm-no-output-gate"
    bias_init = "forget-one"
    projections = ("input", "forget", "candidate")
    decay_gates = {"forget": 1}

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (c,) = state
        h = torch.tanh(c)
        i, f, g = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        return (torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g),)

    def output(self, state: tuple[Series, ...], projected: tuple[Series, ...]) -> Series:
        return torch.tanh(state[0])

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (c,), products = state, np.split(np.tanh(state[0]) @ weights["weight_hh"].T, 3, axis=1)
        i, f, g = (x + u for x, u in zip(gates, products, strict=True))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return np.tanh(c), (c,)


class NoOutputGateLSTM(Layer[Tensor]):
    """LSTM without its output gate, step 1 from LSTM to minLSTM; the forget gate *keeps*, and the state is c.

    Example:
        >>> layer = NoOutputGateLSTM(3, 8, batch_first=True)
        >>> output, c_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = NoOutputGateLSTMEquations


class NoOutputGateLSTMCell(Cell[Tensor]):
    """One step of `NoOutputGateLSTM`; the state is c."""

    layer_class = NoOutputGateLSTM


register(NoOutputGateLSTM, single_step=NoOutputGateLSTMCell)
