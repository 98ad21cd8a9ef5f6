"""JANET: an LSTM with its forget gate alone (van der Westhuizen & Lasenby 2018, arXiv:1804.04849)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, LoopEquations, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step


class JANETEquations(LoopEquations):
    """JANET, an LSTM with its forget gate alone; the forget gate *keeps*.

    s_t = W_f x + U_f h,  n = tanh(W_n x + U_n h),  h = sigmoid(s_t) * h + (1 - sigmoid(s_t - beta)) * n

    With beta above 0 a step lets in more than it forgets. State h, which is the output; one bias a gate.
    van der Westhuizen & Lasenby 2018, arXiv:1804.04849, where beta is 1.
    """

    name = "janet"
    projections = ("forget", "candidate")
    decay_gates = {"forget": 1}
    bias_init = "time-scales"

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (h,) = state
        s_t, n = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        return (torch.sigmoid(s_t) * h + torch.sigmoid(self.beta - s_t) * torch.tanh(n),)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (h,), products = state, np.split(state[0] @ weights["weight_hh"].T, 2, axis=1)
        s, n = (x + u for x, u in zip(gates, products, strict=True))
        h = sigmoid(s) * h + (1 - sigmoid(s - self.beta)) * np.tanh(n)
        return h, (h,)


class JANET(Layer[Tensor]):
    """An LSTM with its forget gate alone, JANET (van der Westhuizen & Lasenby 2018, arXiv:1804.04849).

    The gate *keeps*. Its bias begins spread over time scales, the chrono initialisation of the paper.

    Keyword Args:
        beta: how far the gate that lets in is ahead of the gate that forgets; any number, 1 as in the paper.

    Example:
        >>> layer = JANET(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_hh_l0.shape)
        ((2, 5, 8), (16, 8))
    """

    cell_class = JANETEquations


class JANETCell(Cell[Tensor]):
    """One step of `JANET`; `beta` as there."""

    layer_class = JANET


register(JANET, single_step=JANETCell, variants=({"beta": 0.0},))
