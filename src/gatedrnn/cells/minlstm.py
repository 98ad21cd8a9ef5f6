"""Minimal LSTM."""

from torch.nn.functional import logsigmoid

from gatedrnn.cells.activations import CANDIDATE_ACTIVATIONS, candidate_activation, log_g
from gatedrnn.cells.lstm_ladder import normalized_log_ratio, normalized_share
from gatedrnn.equations import PositiveScanEquations
from gatedrnn.shapes import Series


class MinLSTMEquations(PositiveScanEquations):
    """Minimal LSTM: gates see the input only and sum to one; the forget gate *keeps*.

    f = sigmoid(W_f x),  i = sigmoid(W_i x),  f' = f / (f + i),  i' = i / (f + i)
    h = f' * h + i' * g(W_v x)

    State h, which is the output; one bias a gate. Feng et al. 2024, arXiv:2410.01201: g of appendix B.3 (a positive
    state), or identity (appendix A).
    """

    name = "minlstm"
    projections = ("candidate", "forget", "input")
    decay_gates = {"forget": 1, "input": -1}

    def __init__(self, activation: str = "g") -> None:
        self.activation = candidate_activation(activation)
        self.kernel = "minlstm" if activation == "g" else "minlstm-identity"

    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        v, f, i = projected
        keep = normalized_share(f, i)
        return keep, (1 - keep) * CANDIDATE_ACTIVATIONS[self.activation](v)

    def log_coefficients(self, *projected: Series) -> tuple[Series, Series]:
        v, f, i = projected
        log_ratio = normalized_log_ratio(f, i)
        return logsigmoid(log_ratio), logsigmoid(-log_ratio) + log_g(v)
