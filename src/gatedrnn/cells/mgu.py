"""Minimal gated unit."""

import torch

from gatedrnn.equations import LoopEquations, Recurrent
from gatedrnn.shapes import State, Step


class MGUEquations(LoopEquations):
    """Minimal gated unit: one gate for update and reset; f *replaces* (with keep=True it keeps).

    f = sigmoid(W_f x + U_f h),  n = tanh(W_n x + U_n (f * h)),  h = (1 - f) * h + f * n

    State h, which is the output; one bias a gate. Zhou et al. 2016 (arXiv:1603.09420). `keep=True` is another cell,
    h = f * h + (1 - f) * n: as f gates the candidate too, no change of sign turns one into the other.
    """

    name = "mgu"
    projections = ("forget", "candidate")

    def __init__(self, keep: bool = False) -> None:
        self.keep = keep
        self.kernel = "mgu-keep" if keep else "mgu"
        self.decay_gates = {"forget": 1 if keep else -1}

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (h,) = state
        x_f, x_n = projected
        (h_f,) = recurrent(h, "forget")
        f = torch.sigmoid(x_f + h_f)
        (h_n,) = recurrent(f * h, "candidate")
        n = torch.tanh(x_n + h_n)
        return (f * h + (1 - f) * n,) if self.keep else ((1 - f) * h + f * n,)
