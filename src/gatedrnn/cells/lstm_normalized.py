"""Step 3 from LSTM to minLSTM: input and forget gate sum to one."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, ConvexScanEquations, NumpyStep, NumpyWeights
from gatedrnn.shapes import Series


class NormalizedLSTMEquations(ConvexScanEquations):
    """Step 3 of the ladder: input and forget gate share one whole; the forget gate *keeps*.

    i = sigmoid(W_i x),  f = sigmoid(W_f x),  f' = f / (f + i),  i' = i / (f + i)
    g = tanh(W_g x),     c = f' * c + i' * g,  h = tanh(c)

    State c, output h, one bias a gate. Without the two tanh this is minLSTM.
    """

    name = "lstm-normalized"
    projections = ("input", "forget", "candidate")
    decay_gates = {"forget": 1, "input": -1}

    def logit(self, *projected: Series) -> Series:
        i, f, _ = projected
        return normalized_log_ratio(f, i)

    def value(self, *projected: Series) -> Series:
        _, _, g = projected
        return torch.tanh(g)

    def output(self, state: tuple[Series, ...], projected: tuple[Series, ...]) -> Series:
        return torch.tanh(state[0])

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (i, f, g), (c,) = gates, state
        # f/(f+i) = sigmoid(log f - log i); the plain quotient is 0/0 where both gates are shut.
        log_ratio = np.logaddexp(0, -i) - np.logaddexp(0, -f)
        c = sigmoid(log_ratio) * c + sigmoid(-log_ratio) * np.tanh(g)
        return np.tanh(c), (c,)


def normalized_log_ratio(forget: Series, input_: Series) -> Series:
    """log f - log i of the two gates from their pre-activations: sigmoid of it is f / (f + i), which where both gates
    are closed does not divide zero by zero."""
    return softplus(-input_) - softplus(-forget)


class NormalizedLSTM(Layer[Tensor]):
    """LSTM whose input and forget gate sum to one, step 3 from LSTM to minLSTM, run by a scan; the state is c.

    The forget gate *keeps*. Without the two tanh this is minLSTM.

    Example:
        >>> layer = NormalizedLSTM(3, 8, batch_first=True)
        >>> output, c_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = NormalizedLSTMEquations


class NormalizedLSTMCell(Cell[Tensor]):
    """One step of `NormalizedLSTM`; the state is c."""

    layer_class = NormalizedLSTM


register(NormalizedLSTM, single_step=NormalizedLSTMCell)
