"""Step 2 from LSTM to minLSTM: gates read the input alone."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, GappedScanEquations, NumpyStep, NumpyWeights
from gatedrnn.shapes import Series


class InputGatedLSTMEquations(GappedScanEquations):
    """Step 2 of the ladder: nothing reads h any more, so all steps run at once; the forget gate *keeps*.

    i = sigmoid(W_i x),  f = sigmoid(W_f x),  g = tanh(W_g x),  c = f * c + i * g,  h = tanh(c)

    State c, output h, one bias a gate. A gap raises f alone: what is written does not grow with it.
    """

    name = "lstm-input-gated"
    projections = ("input", "forget", "candidate")
    decay_gates = {"forget": 1}

    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        i, f, g = projected
        return torch.sigmoid(f), torch.sigmoid(i) * torch.tanh(g)

    def coefficients_over(self, gaps: Series, *projected: Series) -> tuple[Series, Series]:
        _, f, _ = projected
        return torch.exp(gaps * logsigmoid(f)), self.coefficients(*projected)[1]

    def output(self, state: tuple[Series, ...], projected: tuple[Series, ...]) -> Series:
        return torch.tanh(state[0])

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (i, f, g), (c,) = gates, state
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return np.tanh(c), (c,)


class InputGatedLSTM(Layer[Tensor]):
    """LSTM whose gates read the input alone, step 2 from LSTM to minLSTM, run by a scan; the state is c.

    The forget gate *keeps*.

    Example:
        >>> layer = InputGatedLSTM(3, 8, batch_first=True)
        >>> output, c_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = InputGatedLSTMEquations


class InputGatedLSTMCell(Cell[Tensor]):
    """One step of `InputGatedLSTM`; the state is c."""

    layer_class = InputGatedLSTM


register(InputGatedLSTM, single_step=InputGatedLSTMCell)
