"""Minimal GRU with a decay that may change the state's sign."""

from gatedrnn.equations import ScanEquations
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
    kernel = "signed-mingru"

    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        v, decay = projected
        a = decay.clamp(-1, 1)
        return a, (1 - a.abs()) * v
