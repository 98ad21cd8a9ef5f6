"""Gated recurrent unit."""

import torch

from gatedrnn.equations import LoopEquations, Recurrent
from gatedrnn.shapes import State, Step


class GRUEquations(LoopEquations):
    """GRU with reset and update gate; z *keeps*.

    r = sigmoid(W_r x + U_r h),  z = sigmoid(W_z x + U_z h),  h = (1 - z) * n + z * h
    n = tanh(W_n x + b_in + r * (U_n h + b_hn))    reset_after=True: torch.nn.GRU and cuDNN, two biases a gate
    n = tanh(W_n x + b_n + U_n (r * h))            reset_after=False: Cho et al. 2014 (arXiv:1406.1078), one bias a gate

    State h, which is the output.
    """

    name = "gru"
    projections = ("reset", "update", "candidate")
    decay_gates = {"update": 1}

    def __init__(self, reset_after: bool = True) -> None:
        self.reset_after = self.recurrent_bias = reset_after
        self.kernel = "gru" if reset_after else "gru-reset-before"

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (h,) = state
        x_r, x_z, x_n = projected
        if self.reset_after:
            h_r, h_z, h_n = recurrent(h)
            n = torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
        else:
            h_r, h_z = recurrent(h, "reset", "update")
            (h_n,) = recurrent(torch.sigmoid(x_r + h_r) * h, "candidate")
            n = torch.tanh(x_n + h_n)
        z = torch.sigmoid(x_z + h_z)
        return ((1 - z) * n + z * h,)
