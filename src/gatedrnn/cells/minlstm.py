"""Minimal LSTM."""

import torch
from torch.nn.functional import softplus

from gatedrnn.cells.activations import CANDIDATE_ACTIVATIONS, candidate_activation
from gatedrnn.cells.base import ScanCell
from gatedrnn.shapes import Series


class MinLSTMEquations(ScanCell):
    """Minimal LSTM: gates see the input only and sum to one; here the forget gate *keeps*.

    f = sigmoid(W_f x + b),  i = sigmoid(W_i x + b),  f' = f / (f + i),  i' = i / (f + i)
    h = f' * h + i' * g(W_v x + b)

    Feng et al. 2024, arXiv:2410.01201: g of appendix B.3 (a positive state), or identity (appendix A).
    """

    name = "minlstm"
    projections = ("candidate", "forget", "input")
    decay_gates = {"forget": 1, "input": -1}

    def __init__(self, activation: str = "g") -> None:
        self.activation = candidate_activation(activation)

    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        candidate, forget, input_ = projected
        # f' = sigmoid(log f - log i): where both gates are shut this does not divide zero by zero.
        log_ratio = softplus(-input_) - softplus(-forget)
        keep = torch.sigmoid(log_ratio)
        return keep, (1 - keep) * CANDIDATE_ACTIVATIONS[self.activation](candidate)
