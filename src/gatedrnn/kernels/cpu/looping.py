"""Loop cells over a whole sequence and their gradient, shared out over threads by sequences."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gatedrnn.kernels.cpu.loop_gates import GATES, KEPT, KINDS
from gatedrnn.kernels.cpu.loop_walk import WALK_CELLS, WALK_CELLS_BACK, LoopPlan, Parameters
from gatedrnn.kernels.cpu.memory import flags, flat, series
from gatedrnn.kernels.cpu.threads import Kernel, share_out, threads_for
from gatedrnn.shapes import Flags, Series, State

ROWS = 8  # sequences of one work item at most: a matrix that is read once serves them all


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
    kind: str, projected: Series, recurrence: Recurrence, h0: State, c0: State | None,
    mask: Flags | None, resets: Flags | None, reverse: bool,
) -> tuple[Walked, State, State]:  # fmt: skip
    """A loop cell's states from its input projections (batch, time, gates · size), and the last h and c.

    Everything in one dtype, float32 or float64. A masked step leaves the states as they were; a reset brings them back
    to zeros.
    """
    plan = _plan(kind, projected.shape, h0.shape[1], reverse)
    batch, steps, dtype = plan.batch, plan.steps, projected.dtype
    h = h0.contiguous().clone()
    c = projected.new_empty(0) if c0 is None else c0.contiguous().clone()
    hs = torch.empty(batch, steps, plan.width, dtype=dtype)
    cs = torch.empty((0,) if c0 is None else (batch, steps, plan.size), dtype=dtype)
    kept = torch.empty(batch, steps, plan.kept * plan.size, dtype=dtype)
    if batch:
        _share(
            WALK_CELLS, plan, plan, KINDS[kind], series(projected), _parameters(recurrence, transposed=True),
            flags(mask), flags(resets), flat(h), flat(c), flat(kept), flat(hs), flat(cs),
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
    kind: str, grad_h: Series, grad_last_h: State, grad_last_c: State | None, walked: Walked, recurrence: Recurrence,
    h0: State, c0: State | None, mask: Flags | None, resets: Flags | None, reverse: bool,
) -> LoopGradient:  # fmt: skip
    """Against the walk; a masked step's own `grad_h` counts for nothing."""
    steps, size = walked.kept.shape[1], walked.kept.shape[2] // KEPT[KINDS[kind]]
    plan = _plan(kind, (walked.h.shape[0], steps, GATES[KINDS[kind]] * size), h0.shape[1], reverse)
    batch, new = plan.batch, walked.h.new_empty
    nothing = new(0)
    delta_h = grad_last_h.contiguous().clone()
    delta_c = nothing if grad_last_c is None else grad_last_c.contiguous().clone()
    grad_x = new(batch, steps, plan.gates * size)
    candidate = new(batch, steps, size) if kind == "gru" else nothing
    projected_h = new(batch, steps, plan.width) if recurrence.weight_hr is not None else nothing
    if mask is not None and projected_h.numel():
        projected_h.zero_()
    peepholes = torch.zeros((batch, 3 * size), dtype=h0.dtype) if recurrence.peepholes is not None else nothing
    if batch:
        _share(
            WALK_CELLS_BACK, plan, plan, KINDS[kind], series(grad_h), _parameters(recurrence, transposed=False),
            flags(mask), flags(resets), flat(h0.contiguous()), flat(nothing if c0 is None else c0.contiguous()),
            flat(walked.kept), flat(walked.h), flat(walked.c), flat(delta_h), flat(delta_c),
            flat(grad_x), flat(candidate), flat(projected_h), flat(peepholes),
        )  # fmt: skip
    return LoopGradient(
        grad_x, candidate, projected_h, delta_h, delta_c, peepholes.sum(0) if peepholes.dim() > 1 else peepholes
    )


def _plan(kind: str, shape: tuple[int, ...] | torch.Size, width: int, reverse: bool) -> LoopPlan:
    batch, steps, features = shape
    gates = GATES[KINDS[kind]]
    rows = max(1, min(ROWS, -(-batch // _threads(batch, steps, features))))
    return LoopPlan(batch, steps, features // gates, width, gates, KEPT[KINDS[kind]], rows, reverse)


def _threads(batch: int, steps: int, features: int) -> int:
    # A step multiplies every number of a projection by as many weights as the state has channels.
    return threads_for(batch * steps * features * 8)


def _share(kernel: Kernel, plan: LoopPlan, *arguments: object) -> None:
    threads = _threads(plan.batch, plan.steps, plan.gates * plan.size)
    share_out(kernel, -(-plan.batch // plan.rows), threads, *arguments)


def _parameters(recurrence: Recurrence, transposed: bool) -> Parameters:
    weight, bias, peepholes, projection, dropped = recurrence
    nothing = weight.new_empty(0)

    def lying(matrix: Tensor | None) -> np.ndarray:
        return flat(nothing if matrix is None else (matrix.t() if transposed else matrix).contiguous())

    others = [flat(nothing if v is None else v.contiguous()) for v in (bias, peepholes, dropped)]
    return Parameters(lying(weight), others[0], others[1], lying(projection), others[2])
