"""The steps between GRU and minGRU: each takes one thing away from the one before."""

import torch

from gatedrnn.equations import LoopEquations, Recurrent, ScanEquations
from gatedrnn.shapes import Series, State, Step


class NoResetGateGRUEquations(LoopEquations):
    """Step 1 of the ladder: a GRU without its reset gate; z *keeps*.

    z = sigmoid(W_z x + U_z h),  n = tanh(W_n x + U_n h),  h = (1 - z) * n + z * h

    State h, which is the output; one bias a gate.
    """

    name = kernel = "gru-no-reset-gate"
    projections = ("update", "candidate")
    decay_gates = {"update": 1}

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (h,) = state
        z, n = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        z = torch.sigmoid(z)
        return ((1 - z) * torch.tanh(n) + z * h,)


class InputGatedGRUEquations(ScanEquations):
    """Step 2 of the ladder: nothing reads h any more, so all steps run at once; z *keeps*.

    z = sigmoid(W_z x),  n = tanh(W_n x),  h = (1 - z) * n + z * h

    State h, which is the output; one bias a gate. With z the other way round and g in tanh's place this is minGRU.
    """

    name = kernel = "gru-input-gated"
    projections = ("update", "candidate")
    decay_gates = {"update": 1}

    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        update, n = projected
        z = torch.sigmoid(update)
        return z, (1 - z) * torch.tanh(n)
