"""Gated recurrent unit."""

import torch

from gatedrnn.cells.base import LoopCell, Recurrent
from gatedrnn.shapes import State, Step


class GRUEquations(LoopCell):
    """GRU with the reset gate applied after the recurrent product; here z *keeps*.

    r = sigmoid(W_r x + U_r h + b),  z = sigmoid(W_z x + U_z h + b)
    n = tanh(W_n x + b_in + r * (U_n h + b_hn)),  h = (1 - z) * n + z * h

    The form of `torch.nn.GRU` and cuDNN, two biases a gate. Cho et al. 2014 (arXiv:1406.1078) apply r before the
    product, on h itself.
    """

    name = "gru"
    projections = ("reset", "update", "candidate")

    def step(
        self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent
    ) -> tuple[Step, tuple[State, ...]]:
        (h,) = state
        (x_r, x_z, x_n), (h_r, h_z, h_n) = projected, recurrent(h)
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + r * h_n)
        h = (1 - z) * n + z * h
        return h, (h,)
