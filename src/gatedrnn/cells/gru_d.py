"""Gated recurrent unit whose state decays with time (Che et al. 2018, arXiv:1606.01865)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, GappedLoopEquations, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step


class GRUDEquations(GappedLoopEquations):
    """GRU whose state decays towards zero over the time since something was seen; z *replaces*.

    gamma = exp(-max(0, W_gamma delta + b_gamma)),  h' = gamma * h
    r = sigmoid(W_r x + U_r h'),  z = sigmoid(W_z x + U_z h')
    n = tanh(W_n x + U_n (r * h')),  h = (1 - z) * h' + z * n

    State h, which is the output; one bias a gate. Che et al. 2018 (arXiv:1606.01865), where x is the imputed
    observation and its mask side by side, and delta has a time for each feature of it (`gap_features`).
    """

    name = "gru-d"
    projections = ("reset", "update", "candidate")
    decay_gates = {"update": -1}

    def __init__(self, gap_features: int = 1) -> None:
        if gap_features < 1:
            raise ValueError(f"gap_features must be at least 1, got {gap_features}")
        self.gap_features = gap_features

    def step_over(
        self, gaps: Step, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent
    ) -> tuple[State, ...]:
        x_r, x_z, x_n = projected
        h = torch.exp(-torch.relu(recurrent.over(gaps))) * state[0]
        h_r, h_z = recurrent(h, "reset", "update")
        (h_n,) = recurrent(torch.sigmoid(x_r + h_r) * h, "candidate")
        z = torch.sigmoid(x_z + h_z)
        return ((1 - z) * h + z * torch.tanh(x_n + h_n),)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (x_r, x_z, x_n), (h,) = gates, state
        U_r, U_z, U_n = np.split(weights["weight_hh"], 3)
        delta = weights.get("gaps", np.ones((len(h), self.gap_features)))
        h = h * np.exp(-np.maximum(0, delta @ weights["weight_gap"].T + weights.get("bias_gap", 0)))
        z = sigmoid(x_z + h @ U_z.T)
        h = (1 - z) * h + z * np.tanh(x_n + (sigmoid(x_r + h @ U_r.T) * h) @ U_n.T)
        return h, (h,)


class GRUD(Layer[Tensor]):
    """GRU whose state decays over the time since each feature was last seen (Che et al. 2018, arXiv:1606.01865).

    z *replaces*. For series with missing values at uneven times, by `gaps`: (batch, time), since the step before, as in
    other cells; or (batch, time, gap_features), since each feature was last seen, read as they are (Che et al.'s
    delta), in both directions twice as many. Without `gaps` each is 1.

    Che et al.'s input is the last observed value, decayed towards the mean, beside the mask of what was observed. Their
    delta is the gap since the step before, plus the delta of that step where the feature was not seen. A model with
    `gap_unit`, and an estimator with `times`, make both from series with NaN.

    Keyword Args:
        gap_features: times that the decay reads at each step (`weight_gap_l0`).

    Example:
        >>> layer = GRUD(6, 8, batch_first=True, gap_features=3)
        >>> output, h_n = layer(torch.randn(2, 5, 6), gaps=torch.rand(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = GRUDEquations


class GRUDCell(Cell[Tensor]):
    """One step of `GRUD`, a gap of 1 after the one before; a stream with gaps is `GRUD.step`. Options as there."""

    layer_class = GRUD


register(GRUD, single_step=GRUDCell)
