"""Minimal LSTM (Feng et al. 2024, arXiv:2410.01201)."""

import numpy as np
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import ACTIVATIONS, Activation, check_activation, log_g, numpy_g, sigmoid
from gatedrnn.cells.lstm_normalized import normalized_log_ratio
from gatedrnn.equations import Arrays, NumpyStep, NumpyWeights, PositiveScanEquations
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

    def __init__(self, activation: Activation = "g", log_space: bool = False) -> None:
        check_activation(activation, log_space)
        self.activation, self.log_space = activation, log_space

    def logit(self, *projected: Series) -> Series:
        _, f, i = projected
        return normalized_log_ratio(f, i)

    def value(self, *projected: Series) -> Series:
        v, _, _ = projected
        return ACTIVATIONS[self.activation](v)

    def log_value(self, *projected: Series) -> Series:
        v, _, _ = projected
        return log_g(v)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (v, f, i), (h,) = gates, state
        # f/(f+i) = sigmoid(log f - log i); the plain quotient is 0/0 where both gates are shut.
        log_ratio = np.logaddexp(0, -i) - np.logaddexp(0, -f)
        h = sigmoid(log_ratio) * h + sigmoid(-log_ratio) * (numpy_g(v) if self.activation == "g" else v)
        return h, (h,)


class MinLSTM(Layer[Tensor]):
    """minLSTM (Feng et al. 2024, arXiv:2410.01201), run by a scan; the forget gate *keeps*.

    Keyword Args:
        activation: of the candidate: "g" (appendix B.3 of the paper, a positive state) or "identity" (appendix A).
        log_space: run whole sequences by the paper's scan over logarithms, for fidelity: slower, and its error grows
            with the length; needs the activation g; no resets, no gaps, no zoneout, no state_dropout.

    Example:
        >>> layer = MinLSTM(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(h_n.shape)
        ((2, 5, 8), (1, 2, 8))
    """

    cell_class = MinLSTMEquations


class MinLSTMCell(Cell[Tensor]):
    """One step of `MinLSTM`; `activation` as there."""

    layer_class = MinLSTM


register(MinLSTM, single_step=MinLSTMCell, variants=({"activation": "identity"},))
