"""One step of any cell, from its projection: what streaming, the step loop and the single-step modules all do."""

from gatedrnn.equations import Equations, Recurrent, split_gates
from gatedrnn.layers.regularise import Keep, zoned
from gatedrnn.ops import accumulation_dtype
from gatedrnn.shapes import State, Step


def one_step(
    cell: Equations, projected: Step, state: tuple[State, ...], recurrent: Recurrent, keep: Keep | None = None
) -> tuple[State, ...]:
    """The next state, in the dtype of the one before; `keep` is what zoneout leaves as it was."""
    # Computed in at least float32, as torch's kernels do it, and rounded to the state's dtype at the end of the step.
    wide = accumulation_dtype(projected.dtype)
    gates, before = split_gates(len(cell.projections), projected.to(wide)), tuple(s.to(wide) for s in state)
    after = zoned(keep, before, cell.step(gates, before, recurrent))
    return tuple(a.to(s.dtype) for a, s in zip(after, state, strict=True))
