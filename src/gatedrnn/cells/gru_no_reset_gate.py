"""Step 1 from GRU to minGRU: no reset gate."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, LoopEquations, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step


class NoResetGateGRUEquations(LoopEquations):
    """Step 1 of the ladder: a GRU without its reset gate; z *keeps*.

    z = sigmoid(W_z x + U_z h),  n = tanh(W_n x + U_n h),  h = (1 - z) * n + z * h

    State h, which is the output; one bias a gate.
    """

    name = "gru-no-reset-gate"
    projections = ("update", "candidate")
    decay_gates = {"update": 1}

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (h,) = state
        z, n = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        z = torch.sigmoid(z)
        return ((1 - z) * torch.tanh(n) + z * h,)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (h,), products = state, np.split(state[0] @ weights["weight_hh"].T, 2, axis=1)
        z, n = (x + u for x, u in zip(gates, products, strict=True))
        h = (1 - sigmoid(z)) * np.tanh(n) + sigmoid(z) * h
        return h, (h,)


class NoResetGateGRU(Layer[Tensor]):
    """GRU without its reset gate, step 1 from GRU to minGRU; z *keeps*.

    Example:
        >>> layer = NoResetGateGRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = NoResetGateGRUEquations


class NoResetGateGRUCell(Cell[Tensor]):
    """One step of `NoResetGateGRU`."""

    layer_class = NoResetGateGRU


register(NoResetGateGRU, single_step=NoResetGateGRUCell)
