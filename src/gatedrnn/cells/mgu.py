"""Minimal gated unit (Zhou et al. 2016, arXiv:1603.09420)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, LoopEquations, NumpyStep, NumpyWeights, Recurrent
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
        self.decay_gates = {"forget": 1 if keep else -1}

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (h,) = state
        x_f, x_n = projected
        (h_f,) = recurrent(h, "forget")
        f = torch.sigmoid(x_f + h_f)
        (h_n,) = recurrent(f * h, "candidate")
        n = torch.tanh(x_n + h_n)
        return (f * h + (1 - f) * n,) if self.keep else ((1 - f) * h + f * n,)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (x_f, x_n), (h,) = gates, state
        U_f, U_n = np.split(weights["weight_hh"], 2)
        f = sigmoid(x_f + h @ U_f.T)
        n = np.tanh(x_n + (f * h) @ U_n.T)
        h = f * h + (1 - f) * n if self.keep else (1 - f) * h + f * n
        return h, (h,)


class MGU(Layer[Tensor]):
    """Minimal gated unit (Zhou et al. 2016, arXiv:1603.09420); f *replaces*.

    Keyword Args:
        keep: True is the other cell of this name, h = f * h + (1 - f) * n, in which f *keeps*.

    Example:
        >>> layer = MGU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = MGUEquations


class MGUCell(Cell[Tensor]):
    """One step of `MGU`; `keep` as there."""

    layer_class = MGU


register(MGU, single_step=MGUCell, variants=({"keep": True},))
