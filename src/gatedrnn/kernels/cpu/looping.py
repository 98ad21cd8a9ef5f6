"""Loop cells over a whole sequence and their gradient, shared out over threads by sequences."""

from typing import NamedTuple

import numpy as np
from torch import Tensor

from gatedrnn.equations import LoopKernel
from gatedrnn.kernels.cpu.loop_gates import CODES
from gatedrnn.kernels.cpu.loop_walk import WALK_CELLS, WALK_CELLS_BACK, LoopPlan, Parameters
from gatedrnn.kernels.cpu.memory import flags, flat, series
from gatedrnn.kernels.cpu.products import packed, padded
from gatedrnn.kernels.cpu.threads import Kernel, share_out, threads_for
from gatedrnn.shapes import Flags, Series, State, empty_series, time_first

ROWS = 32  # sequences of one work item at most: a matrix that is read once serves them all


class Recurrence(NamedTuple):
    """What multiplies the state of a loop cell; None for what it does not have."""

    weight_hh: Tensor
    bias_hh: Tensor | None = None
    peepholes: Tensor | None = None
    """(3 · size,): for the gates that see c."""
    weight_hr: Tensor | None = None
    dropped: Tensor | None = None
    """(batch, width): multiplies h where gates read it."""


class Walked(NamedTuple):
    """Every state, and what else the gradient needs."""

    h: Series
    c: Series
    """Of no size where there is no c."""
    kept: Tensor


def loop_cells(
    record: LoopKernel, projected: Series, recurrence: Recurrence, h0: State, c0: State | None,
    mask: Flags | None, resets: Flags | None, reverse: bool,
) -> tuple[Walked, State, State]:  # fmt: skip
    """A loop cell's states from its input projections (batch, time, gates · size), and the last h and c.

    Everything in one dtype, float32 or float64. A masked step leaves the states as they were; a reset brings them back
    to zeros. The series come out in the order in which the projections lie in memory.
    """
    plan = _plan(record, projected, recurrence, h0.shape[1], reverse, backward=False)
    h = h0.contiguous().clone()
    c = projected.new_empty(0) if c0 is None else c0.contiguous().clone()
    hs = empty_series(projected, plan.width)
    cs = projected.new_empty(0) if c0 is None else empty_series(projected, plan.size)
    kept = empty_series(projected, plan.kept * plan.size)
    if plan.batch:
        _share(
            WALK_CELLS, plan, plan, CODES[record.form], series(projected),
            _parameters(record, recurrence, transposed=True), flags(mask), flags(resets), flat(h), flat(c),
            _rows_of(kept), _rows_of(hs), _rows_of(cs),
        )  # fmt: skip
    return Walked(hs, cs, kept), h, c


class LoopGradient(NamedTuple):
    """Gradients of a loop cell over a sequence; those of the weights are products of these with the states."""

    projected: Series
    candidate: Series
    """Of the recurrent product's last block, where it is not that of the projection (GRU); else of no size."""
    h: Series
    """Of every projected h; of no size where h is not projected."""
    h0: State
    c0: State
    peepholes: Tensor
    """(3 · size,), or of no size."""


def loop_cells_gradient(
    record: LoopKernel, grad_h: Series, grad_last_h: State, grad_last_c: State | None, walked: Walked,
    recurrence: Recurrence, h0: State, c0: State | None, mask: Flags | None, resets: Flags | None, reverse: bool,
) -> LoopGradient:  # fmt: skip
    """Against the walk; a masked step's own `grad_h` counts for nothing."""
    kept = walked.kept
    size = kept.shape[2] // record.saved
    plan = _plan(record, kept, recurrence, h0.shape[1], reverse, backward=True)
    nothing = kept.new_empty(0)
    delta_h = grad_last_h.contiguous().clone()
    delta_c = nothing if grad_last_c is None else grad_last_c.contiguous().clone()
    grad_x = empty_series(kept, plan.gates * size)
    candidate = empty_series(kept, size) if record.separate_candidate else nothing
    projected_h = empty_series(kept, plan.width) if recurrence.weight_hr is not None else nothing
    if mask is not None and projected_h.numel():
        projected_h.zero_()
    peepholes = kept.new_zeros(plan.batch, 3 * size) if recurrence.peepholes is not None else nothing
    if plan.batch:
        _share(
            WALK_CELLS_BACK, plan, plan, CODES[record.form], series(grad_h),
            _parameters(record, recurrence, transposed=False), flags(mask), flags(resets), flat(h0.contiguous()),
            flat(nothing if c0 is None else c0.contiguous()),
            _rows_of(kept), _rows_of(walked.h), _rows_of(walked.c), flat(delta_h), flat(delta_c),
            _rows_of(grad_x), _rows_of(candidate), _rows_of(projected_h), flat(peepholes),
        )  # fmt: skip
    return LoopGradient(
        grad_x, candidate, projected_h, delta_h, delta_c, peepholes.sum(0) if peepholes.dim() > 1 else peepholes
    )


def _rows_of(x: Series) -> np.ndarray:
    """The elements of what `empty_series` made, or of nothing, in their order in memory."""
    return flat(x.transpose(0, 1) if x.dim() == 3 and time_first(x) else x)


def _plan(
    record: LoopKernel, like: Series, recurrence: Recurrence, width: int, reverse: bool, backward: bool
) -> LoopPlan:  # fmt: skip
    """Of a pass over `like`, which has a block for each gate forwards, and for each thing that was kept backwards."""
    batch, steps, features = like.shape
    gates, kept, halved = record.gates, record.saved, record.gated_state
    size = features // (kept if backward else gates)
    columns = [
        width if backward else (gates - halved) * size,
        (width if backward else size) if halved else 0,
        (size if backward else width) if recurrence.weight_hr is not None else 0,
    ]
    return LoopPlan(
        batch, steps, size, width, gates, kept, _rows(batch, steps, gates * size), reverse,
        *((1, batch) if time_first(like) else (steps, 1)), *(padded(n, like.element_size()) for n in columns),
    )  # fmt: skip


def _rows(batch: int, steps: int, features: int) -> int:
    """Sequences of a work item: as many for each thread."""
    threads = min(_threads(batch, steps, features), max(batch, 1))
    items = threads * -(-batch // (threads * ROWS))
    return -(-batch // max(items, 1))


def _threads(batch: int, steps: int, features: int) -> int:
    # A step multiplies every number of a projection by as many weights as the state has channels.
    return threads_for(batch * steps * features * 8)


def _share(kernel: Kernel, plan: LoopPlan, *arguments: object) -> None:
    threads = _threads(plan.batch, plan.steps, plan.gates * plan.size)
    share_out(kernel, -(-plan.batch // plan.rows), threads, *arguments)


def _parameters(record: LoopKernel, recurrence: Recurrence, transposed: bool) -> Parameters:
    weight, bias, peepholes, projection, dropped = recurrence
    nothing = flat(weight.new_empty(0))
    gates = record.gates
    until = weight.shape[0] // gates * (gates - 1) if record.gated_state else weight.shape[0]

    def panels(matrix: Tensor | None) -> np.ndarray:
        return nothing if matrix is None or not len(matrix) else packed(matrix.contiguous(), transposed)

    others = [nothing if v is None else flat(v.contiguous()) for v in (bias, peepholes, dropped)]
    return Parameters(
        panels(weight[:until]), panels(weight[until:]), others[0], others[1], panels(projection), others[2]
    )
