"""Loop cells over a whole sequence, and their gradient: one thread runs some of the sequences through all of time.

Sequences do not wait for each other, so threads never meet; each step reads the recurrent weights once for all of a
thread's sequences.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
from torch import Tensor

from gatedrnn.equations import LoopKernel
from gatedrnn.kernels.cpu import _gates as gates
from gatedrnn.kernels.cpu._compile import FAST, INLINED, compiled
from gatedrnn.kernels.cpu._gates import FORMS, GRU, LSTM, NO_OUTPUT_GATE
from gatedrnn.kernels.cpu._math import flush_denormals, restore_denormals
from gatedrnn.kernels.cpu._products import add_product, packed, padded
from gatedrnn.kernels.cpu._threads import Kernel, share_out, threads_for
from gatedrnn.kernels.cpu._views import Array, StridedView, block, clear, copy, flags, flat, strided, view, widened
from gatedrnn.shapes import Flags, Series, State, empty_series, time_first

ROWS = 32  # sequences of one work item at most: a matrix that is read once serves them all


class Recurrence(NamedTuple):
    """Parameters that multiply the state of a loop cell; None for those that it does not have."""

    weight_hh: Tensor
    bias_hh: Tensor | None = None
    peepholes: Tensor | None = None
    """(3 · size,): for the gates that see c."""
    weight_hr: Tensor | None = None
    dropout_mask: Tensor | None = None
    """(batch, width): multiplies h where gates read it."""


class LoopStates(NamedTuple):
    """Every state, and the other values that the gradient needs."""

    h: Series
    c: Series
    """Of no size where there is no c."""
    saved: Tensor
    """(batch, time, `LoopKernel.saved` · size)."""


class LoopPlan(NamedTuple):
    """Sizes, and the direction in which time runs."""

    batch: int
    steps: int
    size: int
    """Channels of a gate, and of c."""
    width: int
    """Channels of h, which are fewer where it is projected."""
    gates: int
    saved: int
    rows: int
    """Sequences of one work item."""
    reverse: bool
    batch_stride: int
    time_stride: int
    """How far apart sequences and steps lie, in rows, in every series but the input and its gradient's source."""
    recurrent_columns: int
    candidate_columns: int
    projection_columns: int
    """Padded columns of the packed matrices; 0 of those that the cell does not have."""


class Parameters(NamedTuple):
    """Parameters that multiply the state, flat; empty arrays for those that a cell does not have.

    Matrices are packed (`_products.packed`): transposed in the forward, as the layer has them in the backward.
    """

    recurrent: np.ndarray
    """Of all gates, or of those before the candidate where `candidate` is given."""
    candidate: np.ndarray
    """Of the candidate, where a gate multiplies h before this product."""
    bias: np.ndarray
    peepholes: np.ndarray
    projection: np.ndarray
    dropout_mask: np.ndarray
    """(batch, width): multiplies h where gates read it."""


def loop_cells(
    kernel: LoopKernel, projected: Series, recurrence: Recurrence, h0: State, c0: State | None,
    mask: Flags | None, resets: Flags | None, reverse: bool,
) -> tuple[LoopStates, State, State]:  # fmt: skip
    """A loop cell's states from its input projections (batch, time, gates · size), and the last h and c.

    Everything in one dtype, float32 or float64. A masked step leaves the states as they were; a reset brings them back
    to zeros. The series come out in the order in which the projections lie in memory.
    """
    plan = _plan(kernel, projected, recurrence, h0.shape[1], reverse, backward=False)
    h = h0.contiguous().clone()
    c = projected.new_empty(0) if c0 is None else c0.contiguous().clone()
    hs = empty_series(projected, plan.width)
    cs = projected.new_empty(0) if c0 is None else empty_series(projected, plan.size)
    saved = empty_series(projected, plan.saved * plan.size)
    if plan.batch:
        _share_out(
            RUN, plan, plan, FORMS[kernel.form], strided(projected),
            _parameters(kernel, recurrence, transposed=True), flags(mask), flags(resets), flat(h), flat(c),
            _rows_of(saved), _rows_of(hs), _rows_of(cs),
        )  # fmt: skip
    return LoopStates(hs, cs, saved), h, c


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
    kernel: LoopKernel, grad_h: Series, grad_last_h: State, grad_last_c: State | None, states: LoopStates,
    recurrence: Recurrence, h0: State, c0: State | None, mask: Flags | None, resets: Flags | None, reverse: bool,
) -> LoopGradient:  # fmt: skip
    """The backward of `loop_cells`; at a masked step `grad_h` is ignored."""
    saved = states.saved
    size = saved.shape[2] // kernel.saved
    plan = _plan(kernel, saved, recurrence, h0.shape[1], reverse, backward=True)
    nothing = saved.new_empty(0)
    delta_h = grad_last_h.contiguous().clone()
    delta_c = nothing if grad_last_c is None else grad_last_c.contiguous().clone()
    grad_x = empty_series(saved, plan.gates * size)
    candidate = empty_series(saved, size) if kernel.separate_candidate else nothing
    projected_h = empty_series(saved, plan.width) if recurrence.weight_hr is not None else nothing
    if mask is not None and projected_h.numel():
        projected_h.zero_()
    peepholes = saved.new_zeros(plan.batch, 3 * size) if recurrence.peepholes is not None else nothing
    if plan.batch:
        _share_out(
            RUN_BACKWARD, plan, plan, FORMS[kernel.form], strided(grad_h),
            _parameters(kernel, recurrence, transposed=False), flags(mask), flags(resets), flat(h0.contiguous()),
            flat(nothing if c0 is None else c0.contiguous()),
            _rows_of(saved), _rows_of(states.h), _rows_of(states.c), flat(delta_h), flat(delta_c),
            _rows_of(grad_x), _rows_of(candidate), _rows_of(projected_h), flat(peepholes),
        )  # fmt: skip
    return LoopGradient(
        grad_x, candidate, projected_h, delta_h, delta_c, peepholes.sum(0) if peepholes.dim() > 1 else peepholes
    )


def _rows_of(x: Series) -> np.ndarray:
    """The elements of what `empty_series` made, or of nothing, in their order in memory."""
    return flat(x.transpose(0, 1) if x.dim() == 3 and time_first(x) else x)


def _plan(
    kernel: LoopKernel, like: Series, recurrence: Recurrence, width: int, reverse: bool, backward: bool
) -> LoopPlan:  # fmt: skip
    """Of a pass over `like`: the projections in the forward, the saved values in the backward."""
    batch, steps, features = like.shape
    gates, saved, gated_state = kernel.gates, kernel.saved, kernel.gated_state
    size = features // (saved if backward else gates)
    columns = [
        width if backward else (gates - gated_state) * size,
        (width if backward else size) if gated_state else 0,
        (size if backward else width) if recurrence.weight_hr is not None else 0,
    ]
    return LoopPlan(
        batch, steps, size, width, gates, saved, _rows(batch, steps, gates * size), reverse,
        *((1, batch) if time_first(like) else (steps, 1)), *(padded(n, like.element_size()) for n in columns),
    )  # fmt: skip


def _rows(batch: int, steps: int, features: int) -> int:
    """Sequences of a work item: the same number for each thread."""
    threads = min(_threads(batch, steps, features), max(batch, 1))
    items = threads * -(-batch // (threads * ROWS))
    return -(-batch // max(items, 1))


def _threads(batch: int, steps: int, features: int) -> int:
    # A step multiplies every element of a projection by as many weights as the state has channels.
    return threads_for(batch * steps * features * 8)


def _share_out(compiled_kernel: Kernel, plan: LoopPlan, *arguments: object) -> None:
    threads = _threads(plan.batch, plan.steps, plan.gates * plan.size)
    share_out(compiled_kernel, -(-plan.batch // plan.rows), threads, *arguments)


def _parameters(kernel: LoopKernel, recurrence: Recurrence, transposed: bool) -> Parameters:
    weight, bias, peepholes, projection, dropout_mask = recurrence
    nothing = flat(weight.new_empty(0))
    size = weight.shape[0] // kernel.gates
    recurrent, candidate = weight[: len(weight) - size], weight[len(weight) - size :]
    if not kernel.gated_state:
        recurrent, candidate = weight, weight[:0]

    def panels(matrix: Tensor | None) -> np.ndarray:
        return nothing if matrix is None or not len(matrix) else packed(matrix.contiguous(), transposed)

    others = [nothing if v is None else flat(v.contiguous()) for v in (bias, peepholes, dropout_mask)]
    return Parameters(panels(recurrent), panels(candidate), others[0], others[1], panels(projection), others[2])


@numba.njit(**INLINED)
def _time(plan: LoopPlan, k: int) -> int:
    return plan.steps - 1 - k if plan.reverse else k


@numba.njit(**INLINED)
def _index(plan: LoopPlan, b: int, t: int) -> int:
    """The row of a step in a series."""
    return b * plan.batch_stride + t * plan.time_stride


@numba.njit(**INLINED)
def _read(h: Any, dropout_mask: Any, low: int, rows: int, width: int, scratch: Any) -> Any:
    """h as gates read it."""
    if dropout_mask.size == 0:
        return h
    for i in range(rows * width):
        scratch[i] = h[i] * dropout_mask[low * width + i]
    return scratch


@compiled(**FAST)
def run(
    first: int, last: int, plan: LoopPlan, form: int, x: StridedView, parameters: Parameters, mask: Array,
    resets: Array, h: Array, c: Array, saved: Array, hs: Array, cs: Array,
) -> None:  # fmt: skip
    """Run items from the states h (batch, width) and c, and leave the last states there; every state is written to hs
    and cs, the values that the gradient needs to `saved`. A masked step leaves the states as they were."""
    exactness = flush_denormals()
    steps, n, width, wide = plan.steps, plan.size, plan.width, plan.gates * plan.size
    dtype = h.dtype
    u_width, candidate_width, projected_width = plan.recurrent_columns, plan.candidate_columns, plan.projection_columns
    u, candidate = np.zeros(plan.rows * u_width, dtype), np.zeros(plan.rows * candidate_width, dtype)
    projected, read_scratch = np.zeros(plan.rows * projected_width, dtype), np.zeros(plan.rows * width, dtype)
    # `inner` is h before its projection, or the state that a gate has multiplied: no cell has both.
    inner, x_scratch = np.zeros(plan.rows * n, dtype), np.zeros(wide, dtype)
    gated_state = parameters.candidate.size > 0
    for item in range(first, last):
        low = item * plan.rows
        rows = min(plan.rows, plan.batch - low)
        h_rows = view(h, low * width, rows * width)
        for k in range(steps):
            t = _time(plan, k)
            for r in range(rows):
                if resets.size and resets[(low + r) * steps + t]:
                    clear(block(h_rows, r, width))
                    if c.size:
                        clear(block(c, low + r, n))
                if parameters.bias.size:
                    copy(parameters.bias, view(u, r * u_width, wide))
                else:
                    clear(block(u, r, u_width))
            read = _read(h_rows, parameters.dropout_mask, low, rows, width, read_scratch)
            add_product(rows, width, read, width, parameters.recurrent, u_width, u)
            for r in range(rows):
                b = low + r
                index = _index(plan, b, t)
                if mask.size and not mask[b * steps + t]:
                    clear(block(inner, r, n))
                    clear(block(saved, index, plan.saved * n))  # a weight's gradient multiplies it with 0
                    continue
                x_row = widened(view(x.elements, b * x.batch_stride + t * x.time_stride, wide), x_scratch)
                u_row, k_row, h_row = block(u, r, u_width), block(saved, index, plan.saved * n), block(h_rows, r, width)
                if form == LSTM:
                    to = block(inner, r, n) if parameters.projection.size else h_row
                    gates.lstm(x_row, u_row, block(c, b, n), parameters.peepholes, to, k_row)
                elif form == NO_OUTPUT_GATE:
                    gates.no_output_gate(x_row, u_row, block(c, b, n), h_row, k_row)
                elif form == GRU:
                    gates.gru(x_row, u_row, h_row, k_row)
                elif gated_state:
                    gates.gate_state(form, x_row, u_row, h_row, k_row, block(inner, r, n))
                else:
                    gates.no_reset_gate(x_row, u_row, h_row, k_row)
            if gated_state:
                read = _read(inner, parameters.dropout_mask, low, rows, width, read_scratch)
                clear(candidate)
                add_product(rows, width, read, width, parameters.candidate, candidate_width, candidate)
                for r in range(rows):
                    b = low + r
                    if mask.size == 0 or mask[b * steps + t]:
                        x_row = widened(view(x.elements, b * x.batch_stride + t * x.time_stride, wide), x_scratch)
                        k_row = block(saved, _index(plan, b, t), plan.saved * n)
                        gates.update_state(
                            form, x_row, block(candidate, r, candidate_width), block(h_rows, r, width), k_row
                        )
            if parameters.projection.size:
                clear(projected)
                add_product(rows, n, inner, n, parameters.projection, projected_width, projected)
                for r in range(rows):
                    if mask.size == 0 or mask[(low + r) * steps + t]:
                        copy(view(projected, r * projected_width, width), block(h_rows, r, width))
            for r in range(rows):
                index = _index(plan, low + r, t)
                copy(block(h_rows, r, width), block(hs, index, width))
                if c.size:
                    copy(block(c, low + r, n), block(cs, index, n))
    restore_denormals(exactness)


@numba.njit(**INLINED)
def _before(series: Any, start: Any, plan: LoopPlan, b: int, k: int, size: int, reset: bool, zeros: Any) -> Any:
    """A state before step k of the run."""
    if reset:
        return view(zeros, 0, size)
    if k == 0:
        return block(start, b, size)
    return block(series, _index(plan, b, _time(plan, k - 1)), size)


@numba.njit(**INLINED)
def _add_read(to: Any, row: Any, dropout_mask: Any, b: int) -> None:
    """Add the gradient of h as gates read it."""
    if dropout_mask.size:
        for i in range(to.size):
            to[i] += row[i] * dropout_mask[b * to.size + i]
    else:
        for i in range(to.size):
            to[i] += row[i]


@compiled(**FAST)
def run_backward(
    first: int, last: int, plan: LoopPlan, form: int, grad: StridedView, parameters: Parameters, mask: Array,
    resets: Array, h0: Array, c0: Array, saved: Array, hs: Array, cs: Array, delta_h: Array, delta_c: Array,
    grad_x: Array, grad_u_n: Array, grad_h: Array, grad_peepholes: Array,
) -> None:  # fmt: skip
    """Run items backward from the gradients of the last states, and leave those of the initial states there.

    grad_x gets the gradients of the pre-activations; grad_u_n that of the candidate's recurrent product, where it is
    another (GRU); grad_h that of every projected h.
    """
    exactness = flush_denormals()
    steps, n, width, wide = plan.steps, plan.size, plan.width, plan.gates * plan.size
    dtype = delta_h.dtype
    products_width, unprojected_width = plan.recurrent_columns, plan.projection_columns
    grads, inner = np.zeros(plan.rows * wide, dtype), np.zeros(plan.rows * n, dtype)
    products, unprojected = np.zeros(plan.rows * products_width, dtype), np.zeros(plan.rows * unprojected_width, dtype)
    zeros, grad_scratch = np.zeros(max(width, n), dtype), np.zeros(width, dtype)
    gated_state = parameters.candidate.size > 0
    candidate_offset = wide - n if gated_state else wide
    for item in range(first, last):
        low = item * plan.rows
        rows = min(plan.rows, plan.batch - low)
        delta_rows = view(delta_h, low * width, rows * width)
        for k in range(steps - 1, -1, -1):
            t = _time(plan, k)
            for r in range(rows):
                b = low + r
                if mask.size and not mask[b * steps + t]:
                    continue
                given = widened(view(grad.elements, b * grad.batch_stride + t * grad.time_stride, width), grad_scratch)
                row = block(delta_rows, r, width)
                for i in range(width):
                    row[i] += given[i]
                if grad_h.size:
                    copy(row, block(grad_h, _index(plan, b, t), width))
            if parameters.projection.size:
                clear(unprojected)
                add_product(rows, width, delta_rows, width, parameters.projection, unprojected_width, unprojected)
            for r in range(rows):
                b = low + r
                index = _index(plan, b, t)
                p_row, d_row = block(grads, r, wide), block(delta_rows, r, width)
                if mask.size and not mask[b * steps + t]:
                    clear(p_row)
                    continue
                reset = resets.size > 0 and resets[b * steps + t]
                k_row = block(saved, index, plan.saved * n)
                if form == LSTM or form == NO_OUTPUT_GATE:
                    before = _before(cs, c0, plan, b, k, n, reset, zeros)
                    if form == LSTM:
                        upstream = view(unprojected, r * unprojected_width, n) if parameters.projection.size else d_row
                        gates.lstm_backward(
                            k_row, before, block(cs, index, n), parameters.peepholes, upstream, block(delta_c, b, n),
                            p_row, block(grad_peepholes, b, 3 * n),
                        )  # fmt: skip
                    else:
                        gates.no_output_gate_backward(
                            k_row, before, block(hs, index, n), d_row, block(delta_c, b, n), p_row
                        )
                    clear(d_row)
                else:
                    before = _before(hs, h0, plan, b, k, n, reset, zeros)
                    if form == GRU:
                        u_row = block(grad_u_n, index, n)
                        gates.gru_backward(k_row, before, d_row, p_row, u_row)
                        copy(p_row, block(grad_x, index, wide))
                        copy(u_row, view(p_row, wide - n, n))
                    elif gated_state:
                        gates.update_state_backward(form, k_row, before, d_row, p_row)
                    else:
                        gates.no_reset_gate_backward(k_row, before, d_row, p_row)
            if gated_state:
                clear(products)
                add_product(
                    rows,
                    n,
                    view(grads, candidate_offset, grads.size - candidate_offset),
                    wide,
                    parameters.candidate,
                    products_width,
                    products,
                )
                for r in range(rows):
                    b = low + r
                    if mask.size == 0 or mask[b * steps + t]:
                        reset = resets.size > 0 and resets[b * steps + t]
                        before = _before(hs, h0, plan, b, k, n, reset, zeros)
                        delta = block(inner, r, n)
                        clear(delta)
                        _add_read(delta, block(products, r, products_width), parameters.dropout_mask, b)
                        gates.gate_state_backward(
                            form, block(saved, _index(plan, b, t), plan.saved * n), before, delta,
                            block(delta_rows, r, n), block(grads, r, wide),
                        )  # fmt: skip
            clear(products)
            add_product(rows, candidate_offset, grads, wide, parameters.recurrent, products_width, products)
            for r in range(rows):
                b = low + r
                index = _index(plan, b, t)
                _add_read(block(delta_rows, r, width), block(products, r, products_width), parameters.dropout_mask, b)
                if form != GRU or (mask.size and not mask[b * steps + t]):
                    copy(block(grads, r, wide), block(grad_x, index, wide))
                if form == GRU and mask.size and not mask[b * steps + t]:
                    clear(block(grad_u_n, index, n))
                if resets.size and resets[b * steps + t]:
                    clear(block(delta_rows, r, width))
                    if delta_c.size:
                        clear(block(delta_c, low + r, n))
    restore_denormals(exactness)


RUN = Kernel.of(run)
RUN_BACKWARD = Kernel.of(run_backward)
