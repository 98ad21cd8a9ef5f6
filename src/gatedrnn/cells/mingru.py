"""Minimal GRU."""

import torch
from torch.nn.functional import logsigmoid

from gatedrnn.cells.activations import CANDIDATE_ACTIVATIONS, candidate_activation, log_g
from gatedrnn.equations import PositiveScanEquations
from gatedrnn.shapes import Series


class MinGRUEquations(PositiveScanEquations):
    """Minimal GRU: one gate, which sees the input only; z *replaces* (in `gru` it keeps).

    z = sigmoid(W_z x),  h = (1 - z) * h + z * g(W_v x)

    State h, which is the output; one bias a gate. Feng et al. 2024, arXiv:2410.01201: g of appendix B.3 (a positive
    state), or identity (appendix A).
    """

    name = "mingru"
    projections = ("candidate", "update")
    decay_gates = {"update": -1}

    def __init__(self, activation: str = "g") -> None:
        self.activation = candidate_activation(activation)
        self.kernel = "mingru" if activation == "g" else "mingru-identity"

    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        v, update = projected
        z = torch.sigmoid(update)
        return 1 - z, z * CANDIDATE_ACTIVATIONS[self.activation](v)

    def log_coefficients(self, *projected: Series) -> tuple[Series, Series]:
        v, update = projected
        return logsigmoid(-update), logsigmoid(update) + log_g(v)
