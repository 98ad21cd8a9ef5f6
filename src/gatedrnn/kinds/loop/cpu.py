"""Loop cells over a whole sequence, and their gradient, on a CPU.

What stands between the products of a step comes from the cell's equations (`gatedrnn.kinds.loop.rows`).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from gatedrnn.codegen.row import Row
from gatedrnn.kernels.cpu.products import packed, padded
from gatedrnn.kernels.cpu.rows import dtype_name, row_address
from gatedrnn.kernels.cpu.threads import Kernel, parallel_for, threads_for
from gatedrnn.kernels.cpu.views import flags, flat, strided
from gatedrnn.kinds.loop.loops import (
    CANDIDATE,
    GRADS,
    INNER,
    NO_SCRATCH,
    NONE,
    PRODUCTS,
    ROW_AT,
    RUN,
    RUN_BACKWARD,
    UNPROJECTED,
    LoopPlan,
    Parameters,
    RowAt,
    RowFunction,
)
from gatedrnn.kinds.loop.op import LoopInputs, LoopUpstream
from gatedrnn.kinds.loop.rows import LoopProgram
from gatedrnn.shapes import Series, State, empty_series, time_first

ROWS = 32  # sequences of one work item at most: a matrix that is read once serves them all


def loop_cells(program: LoopProgram, inputs: LoopInputs) -> tuple[Series, State, State, Series, Tensor]:
    """Every h, the last h and c, every c, and what the gradient needs beside them.

    The series come out in the order in which the projections lie in memory.
    """
    projected, c0 = inputs.projected, inputs.c0
    # Kernels find rows by their addresses, in which channels must be neighbours; sequences and steps may lie anyhow.
    projected = projected.contiguous() if projected.stride(2) != 1 else projected
    plan = _plan(program, projected, inputs, backward=False)
    # Copies: the kernel carries the states in place, and leaves the last ones there.
    h = inputs.h0.contiguous().clone()
    c = projected.new_empty(0) if c0 is None else c0.contiguous().clone()
    hs = empty_series(projected, plan.width)
    cs = projected.new_empty(0) if c0 is None else empty_series(projected, plan.carried)
    kept = empty_series(projected, plan.kept * plan.size)
    # An empty tensor has no address, and an empty batch no work item.
    if plan.batch:
        layout = _Layout(projected, plan)
        layout.add_series(program.projections, "x_{}", projected)
        layout.add_series(range(plan.kept), "kept_{}", kept)
        layout.add_products(plan, program.projections)
        layout.add_diagonals(program.diagonals, inputs.diagonals)
        layout.add_states("h", h)
        for i, name in enumerate(program.carried):
            layout.add_states(name, c, i * plan.size)
        if plan.projection_columns:
            layout.add_scratch("h", INNER, plan.size)
        layout.add_scratch("gated", INNER, plan.size)
        _parallel_for(
            RUN, plan, plan, *layout.functions(program, program.forward), _parameters(plan, inputs, transposed=True),
            flags(inputs.mask), flags(inputs.resets), flat(h), flat(c), _flatten(kept), _flatten(hs), _flatten(cs),
        )  # fmt: skip
    return hs, h, c, cs, kept


class LoopGradient(NamedTuple):
    """Gradients of a loop cell over a sequence; those of the weights are products of these with the states."""

    projected: Series
    separate: Series
    """The gradient of the recurrent products of `LoopProgram.separate`; of no size where there are none."""
    gated: Series
    """Not a gradient: what the second product reads; of no size where there is none."""
    h: Series
    """The gradient of every projected h; of no size where h is not projected."""
    inner: Series
    """Not a gradient: h before its projection; of no size too."""
    h0: State
    c0: State
    diagonals: Tensor
    """One after another, or of no size."""


def loop_backward(program: LoopProgram, upstream: LoopUpstream, inputs: LoopInputs) -> LoopGradient:
    """The backward of `loop_cells`; at a masked step `grad_h` is ignored."""
    kept, mask = upstream.kept, inputs.mask
    size = inputs.weight_hh.shape[0] // program.gates
    plan = _plan(program, upstream.h, inputs, backward=True)
    nothing = kept.new_empty(0)
    delta_h, start_h = upstream.grad_last_h.contiguous().clone(), inputs.h0.contiguous()
    delta_c, start_c = (nothing if s is None else s.contiguous() for s in (upstream.grad_last_c, inputs.c0))
    # The gradients of the last states, too, become those of the first ones in place.
    delta_c = delta_c.clone()
    grad_x = empty_series(kept, plan.gates * size)
    separate = empty_series(kept, len(program.separate) * size) if program.separate else nothing
    gated = empty_series(kept, size) if program.gated else nothing
    projects = inputs.weight_hr is not None
    projected_h, inner = (empty_series(kept, n) if projects else nothing for n in (plan.width, size))
    for series in (projected_h, inner, gated):
        if mask is not None:
            series.zero_()  # a weight's gradient multiplies what no step writes with 0
    # One row a sequence, summed in a fixed order afterwards: the result does not depend on the number of threads.
    diagonals = kept.new_zeros(plan.batch, len(program.diagonals) * size)
    if plan.batch:
        layout = _Layout(kept, plan)
        layout.add_series(range(plan.kept), "kept_{}", kept)
        layout.add_series(program.projections, "gx_{}", grad_x)
        layout.add_series(["after_h"], "{}", upstream.h)
        layout.add_series(program.carried, "after_{}", upstream.c)
        layout.add_series(["gated"], "{}", gated)
        layout.add_series(["inner"], "{}", inner)
        layout.add_diagonals(program.diagonals, inputs.diagonals)
        for i, name in enumerate(program.diagonals):
            layout.add_states(f"gw_{name}", diagonals, i * size)
        for i, name in enumerate(program.projections):
            layout.add_scratch(f"gu_{name}", GRADS, plan.gates * size, i * size)
        layout.add_states("delta_h", delta_h)
        for i, name in enumerate(program.carried):
            layout.add_states(f"delta_{name}", delta_c, i * size)
        if projects:
            layout.add_scratch("delta_h", UNPROJECTED, plan.projection_columns)
        layout.add_scratch("delta_gated", INNER, size)
        for name in ("h", *program.carried):
            # `_call_row` fills these in at every step: before the first step and after a reset the state is elsewhere.
            layout.add_scratch(f"before_{name}", 0, 0)
        functions = layout.functions(program, program.backward_projecting if projects else program.backward)
        apart = [program.separate.index(name) if name in program.separate else -1 for name in program.projections]
        _parallel_for(
            RUN_BACKWARD, plan, plan, *functions, strided(upstream.grad_h),
            _parameters(plan, inputs, transposed=False), flags(mask), flags(inputs.resets), flat(start_h),
            flat(start_c), _flatten(upstream.h), _flatten(upstream.c), flat(delta_h), flat(delta_c), _flatten(grad_x),
            np.array(apart, np.int64), _flatten(separate), _flatten(projected_h),
        )  # fmt: skip
    return LoopGradient(grad_x, separate, gated, projected_h, inner, delta_h, delta_c, diagonals.sum(0))


_NO_FUNCTION = RowFunction(0, NONE, np.empty(0, ROW_AT), np.empty(0, np.int64))


class _Layout:
    """The places of the rows that a cell's functions take, by their names."""

    def __init__(self, like: Tensor, plan: LoopPlan) -> None:
        self.dtype, self.bytes, self.size = dtype_name(like.dtype), like.element_size(), plan.size
        self._rows: dict[str, RowAt] = {}

    def add_series(self, names: Iterable[object], title: str, series: Series) -> None:
        """Neighbouring blocks of the channels of a series."""
        if series.dim() == 3:
            between = series.stride(0) * self.bytes, 0, series.stride(1) * self.bytes
            for i, name in enumerate(names):
                address = series.data_ptr() + i * self.size * self.bytes
                self._rows[title.format(name)] = RowAt(NO_SCRATCH, address, *between)

    def add_states(self, name: str, x: Tensor, offset: int = 0) -> None:
        """(batch, channels), from that channel on."""
        if x.dim() == 2:
            address = x.data_ptr() + offset * self.bytes
            self._rows[name] = RowAt(NO_SCRATCH, address, x.shape[1] * self.bytes, 0, 0)

    def add_diagonals(self, names: Iterable[str], weights: Tensor | None) -> None:
        """Weights for all sequences."""
        for i, name in enumerate(names):
            assert weights is not None and weights.is_contiguous()
            self._rows[f"w_{name}"] = RowAt(NO_SCRATCH, weights.data_ptr() + i * self.size * self.bytes, 0, 0, 0)

    def add_scratch(self, name: str, scratch: int, width: int, offset: int = 0) -> None:
        """Memory of a thread: rows of that width for the sequences of a work item."""
        self._rows[name] = RowAt(scratch, offset * self.bytes, 0, width * self.bytes, 0)

    def add_products(self, plan: LoopPlan, projections: Sequence[str]) -> None:
        """Products with the state, of the last projections with the gated state."""
        first = plan.gates - plan.gated
        for i, name in enumerate(projections):
            scratch, width = (PRODUCTS, plan.recurrent_columns) if i < first else (CANDIDATE, plan.candidate_columns)
            self.add_scratch(f"u_{name}", scratch, width, (i if i < first else i - first) * self.size)

    def functions(self, program: LoopProgram, rows: Sequence[Row]) -> tuple[RowFunction, RowFunction]:
        """The two parts of a step, the second of which may be none."""
        first, *second = [self._function(program, row) for row in rows]
        return first, second[0] if second else _NO_FUNCTION

    def _function(self, program: LoopProgram, row: Row) -> RowFunction:
        address = row_address(row, program.word, (self.dtype,) * len(row.rows))
        before = [f"before_{name}" for name in ("h", *program.carried)]
        h, *carried = (row.rows.index(name) if name in row.rows else NONE for name in before)
        layout = np.array([self._rows[name] for name in row.rows], ROW_AT)
        return RowFunction(address, h, layout, np.array(carried, np.int64))


def _flatten(x: Series) -> np.ndarray:
    """The elements of what `empty_series` made, or of nothing, in their order in memory."""
    return flat(x.transpose(0, 1) if x.dim() == 3 and time_first(x) else x)


def _plan(program: LoopProgram, like: Series, inputs: LoopInputs, backward: bool) -> LoopPlan:
    """Return the plan of a pass over a series like this one."""
    (batch, steps, _), gates, gated = like.shape, program.gates, program.gated
    width, size = inputs.h0.shape[1], inputs.weight_hh.shape[0] // gates
    columns = [
        width if backward else (gates - gated) * size,
        (width if backward else gated * size) if gated else 0,
        (size if backward else width) if inputs.weight_hr is not None else 0,
    ]
    return LoopPlan(
        batch, steps, size, len(program.carried) * size, width, gates, gated, program.kept, len(program.separate),
        program.passes_output, _sequences_per_item(batch, steps, gates * size), inputs.reverse,
        *((1, batch) if time_first(like) else (steps, 1)), *(padded(n, like.element_size()) for n in columns),
    )  # fmt: skip


def _sequences_per_item(batch: int, steps: int, features: int) -> int:
    """Sequences of a work item: the same number for each thread."""
    # Equal items: with 33 sequences in items of 32 a second thread would have one.
    threads = min(_threads(batch, steps, features), max(batch, 1))
    items = threads * -(-batch // (threads * ROWS))
    return -(-batch // max(items, 1))


def _threads(batch: int, steps: int, features: int) -> int:
    # A step multiplies every element of a projection by as many weights as the state has channels.
    return threads_for(batch * steps * features * 8)


def _parallel_for(compiled_kernel: Kernel, plan: LoopPlan, *arguments: object) -> None:
    threads = _threads(plan.batch, plan.steps, plan.gates * plan.size)
    parallel_for(compiled_kernel, -(-plan.batch // plan.rows), threads, *arguments)


def _parameters(plan: LoopPlan, inputs: LoopInputs, transposed: bool) -> Parameters:
    weight = inputs.weight_hh
    nothing = flat(weight.new_empty(0))
    first = (plan.gates - plan.gated) * plan.size

    def panels(matrix: Tensor | None) -> np.ndarray:
        return nothing if matrix is None or not len(matrix) else packed(matrix.contiguous(), transposed)

    others = [nothing if v is None else flat(v.contiguous()) for v in (inputs.bias_hh, inputs.dropped)]
    return Parameters(panels(weight[:first]), panels(weight[first:]), others[0], panels(inputs.weight_hr), others[1])
