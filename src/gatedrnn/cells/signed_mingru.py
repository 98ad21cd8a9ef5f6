"""Minimal GRU with a decay that may change the state's sign (after Grazzi et al. 2025, arXiv:2411.12537)."""

import numpy as np
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.equations import Arrays, NumpyStep, NumpyWeights, ScanEquations
from gatedrnn.shapes import Series


class SignedMinGRUEquations(ScanEquations):
    """Minimal GRU with a decay of either sign, from the input only: a *keeps*, and at -1 and 1 it keeps all.

    a = clamp(W_a x, -1, 1),  h = a * h + (1 - |a|) * W_v x

    State h, which is the output; one bias a gate; the state before the first step is learned. Nothing enters a channel
    that keeps all of itself, so a state that counts (-1, 1, -1 ...) does not drift, and only a state that is not 0 can.
    The clamp has its ordinary derivative, 0 outside. After Grazzi et al. 2025 (arXiv:2411.12537), who show that a decay
    within (0, 1) cannot tell an even count from an odd one, and one within [-1, 1] can.
    """

    name = "signed-mingru"
    projections = ("candidate", "decay")
    decay_gates = {"decay": 1}
    clamped_decay = True
    learns_initial_state = True

    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        v, decay = projected
        a = decay.clamp(-1, 1)
        return a, (1 - a.abs()) * v

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (v, a), (h,) = gates, state
        a = np.minimum(np.maximum(a, -1), 1)
        h = a * h + (1 - np.abs(a)) * v
        return h, (h,)


class SignedMinGRU(Layer[Tensor]):
    """minGRU with a decay from -1 to 1, for state tracking, run by a scan; a *keeps*.

    The state before the first step, and after a reset, is a parameter (`initial_state_l0`). After Grazzi et al. 2025
    (arXiv:2411.12537).

    Example:
        >>> layer = SignedMinGRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = SignedMinGRUEquations


class SignedMinGRUCell(Cell[Tensor]):
    """One step of `SignedMinGRU`."""

    layer_class = SignedMinGRU


register(SignedMinGRU, single_step=SignedMinGRUCell)
