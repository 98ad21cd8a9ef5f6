"""Step 2 from GRU to minGRU: gates read the input alone."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, ConvexScanEquations, NumpyStep, NumpyWeights
from gatedrnn.shapes import Series


class InputGatedGRUEquations(ConvexScanEquations):
    """Step 2 of the ladder: nothing reads h any more, so all steps run at once; z *keeps*.

    z = sigmoid(W_z x),  n = tanh(W_n x),  h = (1 - z) * n + z * h

    State h, which is the output; one bias a gate. With z the other way round and g in tanh's place this is minGRU.
    """

    name = "gru-input-gated"
    projections = ("update", "candidate")
    decay_gates = {"update": 1}

    def logit(self, *projected: Series) -> Series:
        update, _ = projected
        return update

    def value(self, *projected: Series) -> Series:
        _, n = projected
        return torch.tanh(n)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (z, n), (h,) = gates, state
        h = (1 - sigmoid(z)) * np.tanh(n) + sigmoid(z) * h
        return h, (h,)


class InputGatedGRU(Layer[Tensor]):
    """GRU whose gates read the input alone, step 2 from GRU to minGRU, run by a scan; z *keeps*.

    Example:
        >>> layer = InputGatedGRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = InputGatedGRUEquations


class InputGatedGRUCell(Cell[Tensor]):
    """One step of `InputGatedGRU`."""

    layer_class = InputGatedGRU


register(InputGatedGRU, single_step=InputGatedGRUCell)
