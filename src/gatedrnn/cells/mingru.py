"""Minimal GRU."""

import torch

from gatedrnn.cells.activations import CANDIDATE_ACTIVATIONS, candidate_activation
from gatedrnn.cells.base import ScanCell
from gatedrnn.shapes import Series


class MinGRUEquations(ScanCell):
    """Minimal GRU: one gate, which sees the input only; here z *replaces* (in `gru` it keeps).

    z = sigmoid(W_z x + b),  h = (1 - z) * h + z * g(W_v x + b)

    Feng et al. 2024, arXiv:2410.01201: g of appendix B.3 (a positive state), or identity (appendix A).
    """

    name = "mingru"
    projections = ("candidate", "update")
    decay_gates = {"update": -1}

    def __init__(self, activation: str = "g") -> None:
        self.activation = candidate_activation(activation)

    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        candidate, update = projected
        z = torch.sigmoid(update)
        return 1 - z, z * CANDIDATE_ACTIVATIONS[self.activation](candidate)
