"""Time, masks, resets and products with the state around the generated functions of rows of a loop cell.

One thread runs some of the sequences through all of time. Sequences do not wait for each other, so threads never meet;
each step reads the recurrent weights once for all of a thread's sequences.
"""

from typing import Any, NamedTuple

import numba
import numpy as np

from gatedrnn.kernels.cpu.compile import FAST, INLINED, compiled
from gatedrnn.kernels.cpu.functions import flush_denormals, restore_denormals
from gatedrnn.kernels.cpu.products import add_product
from gatedrnn.kernels.cpu.rows import address_of, call_row
from gatedrnn.kernels.cpu.threads import Kernel
from gatedrnn.kernels.cpu.views import (
    Array,
    StridedView,
    block,
    borrowed,
    clear,
    copy,
    keep_alive,
    view,
)

NO_SCRATCH, PRODUCTS, CANDIDATE, INNER, GRADS, UNPROJECTED = range(6)
"""Memory of a thread in which rows lie that are no tensor's: products of the state, of the gated state; the gated
state, its gradient, or h before its projection; gradients of products; that of h before its projection."""
NONE = -1
"""The index of a row that the function does not have."""


class RowAt(NamedTuple):
    """The place of a row of a function in memory."""

    scratch: int
    """The number of a thread's memory, or NO_SCRATCH."""
    base: int
    """The address, or how many bytes behind the beginning of that memory."""
    of_sequence: int
    """Bytes from one sequence to the next; likewise the others."""
    of_item: int
    """Bytes between the sequences of a work item."""
    of_step: int


ROW_AT = np.dtype([(name, np.int64) for name in RowAt._fields])


class RowFunction(NamedTuple):
    """A generated function and where its rows lie."""

    address: int
    before_h: int
    """The index of the row of h before a step, or NONE."""
    rows: np.ndarray
    """One `RowAt` a row."""
    before_carried: np.ndarray
    """The indices of the other states before a step, or NONE."""


class LoopPlan(NamedTuple):
    """Sizes, and the direction in which time runs."""

    batch: int
    steps: int
    size: int
    """Channels of a gate."""
    carried: int
    """Channels of c: of all states but h."""
    width: int
    """Channels of h, which are fewer where it is projected."""
    gates: int
    gated: int
    """Projections of the second product, as in `LoopProgram`."""
    kept: int
    separate: int
    """The number of `LoopProgram.separate`."""
    passes_output: bool
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
    """The matrix of all gates, or of those before the ones that read the gated state."""
    candidate: np.ndarray
    """The matrix of those."""
    bias: np.ndarray
    projection: np.ndarray
    dropout_mask: np.ndarray
    """(batch, width): multiplies h where gates read it."""


@numba.njit(**INLINED)
def _time_index(plan: LoopPlan, k: int) -> int:
    return plan.steps - 1 - k if plan.reverse else k


@numba.njit(**INLINED)
def _series_row(plan: LoopPlan, b: int, t: int) -> int:
    """The row of a step in a series."""
    return b * plan.batch_stride + t * plan.time_stride


@numba.njit(**INLINED)
def _apply_dropout(h: Any, dropout_mask: Any, low: int, rows: int, width: int, scratch: Any) -> Any:
    """h as gates read it."""
    if dropout_mask.size == 0:
        return h
    for i in range(rows * width):
        scratch[i] = h[i] * dropout_mask[low * width + i]
    return scratch


@numba.njit(**INLINED)
def _with_scratch_addresses(function: RowFunction, memory: Any) -> Any:
    """Return the same function with the addresses of a thread's own memory; `keep_alive` its rows."""
    # A copy: `rows` is shared by all threads, and scratch addresses are of one.
    rows = function.rows.copy()
    for i in range(rows.size):
        if rows[i].scratch != NO_SCRATCH:
            rows[i].base += memory[rows[i].scratch]
    return RowFunction(function.address, function.before_h, rows, function.before_carried)


@numba.njit(**INLINED)
def _call_row(
    function: Any, n: int, b: int, r: int, t: int, before_h: int, before_c: int, state_stride: int, table: Any
) -> None:  # fmt: skip
    """Call a function of rows for a sequence, the r-th of an item, at a step; states are `state_stride` bytes apart."""
    rows, carried = borrowed(function.rows), borrowed(function.before_carried)
    for i in range(rows.size):
        row = rows[i]
        table[i] = row.base + b * row.of_sequence + r * row.of_item + t * row.of_step
    if function.before_h != NONE:
        table[function.before_h] = before_h
    for i in range(carried.size):
        if carried[i] != NONE:
            table[carried[i]] = before_c + i * state_stride
    call_row(function.address, n, address_of(table))


@numba.njit(**INLINED)
def _init_products(products: Any, rows: int, width: int, bias: Any, first: int, count: int) -> None:
    """Products begin with their bias, so many channels of it from the first one on, or with zeros."""
    for r in range(rows):
        if bias.size:
            copy(view(bias, first, count), view(products, r * width, count))
        else:
            clear(block(products, r, width))


@compiled(**FAST)
def run(
    first: int, last: int, plan: LoopPlan, gates: RowFunction, update: RowFunction, parameters: Parameters, mask: Array,
    resets: Array, h: Array, c: Array, kept: Array, hs: Array, cs: Array,
) -> None:  # fmt: skip
    """Run items from the states h (batch, width) and c, and leave the last states there; every state is written to hs
    and cs. A masked step leaves the states as they were.

    Args:
        gates: function and places of a step's gates, or of those before the product of the gated state.
        update: of what follows that product; empty where there is none.
    """
    exactness = flush_denormals()
    steps, n, width, wide = plan.steps, plan.size, plan.width, plan.gates * plan.size
    early, dtype = wide - plan.gated * n, h.dtype
    u_width, candidate_width, projected_width = plan.recurrent_columns, plan.candidate_columns, plan.projection_columns
    u, candidate = np.zeros(plan.rows * u_width, dtype), np.zeros(plan.rows * candidate_width, dtype)
    projected, read_scratch = np.zeros(plan.rows * projected_width, dtype), np.zeros(plan.rows * width, dtype)
    # `inner` is h before its projection, or the state that a gate has multiplied: no cell has both.
    inner, memory = np.zeros(plan.rows * n, dtype), np.zeros(UNPROJECTED + 1, np.int64)
    table = np.empty(max(gates.rows.size, update.rows.size), np.int64)
    memory[PRODUCTS], memory[CANDIDATE], memory[INNER] = address_of(u), address_of(candidate), address_of(inner)
    gates, update = _with_scratch_addresses(gates, memory), _with_scratch_addresses(update, memory)
    for item in range(first, last):
        low = item * plan.rows
        rows = min(plan.rows, plan.batch - low)
        h_rows = view(h, low * width, rows * width)
        for k in range(steps):
            t = _time_index(plan, k)
            for r in range(rows):
                if resets.size and resets[(low + r) * steps + t]:
                    clear(block(h_rows, r, width))
                    if c.size:
                        clear(block(c, low + r, plan.carried))
            _init_products(u, rows, u_width, parameters.bias, 0, early)
            # Masked rows are multiplied too: one product for all rows reads the weights once.
            read = _apply_dropout(h_rows, parameters.dropout_mask, low, rows, width, read_scratch)
            add_product(rows, width, read, width, parameters.recurrent, u_width, u)
            for r in range(rows):
                if mask.size == 0 or mask[(low + r) * steps + t]:
                    _call_row(gates, n, low + r, r, t, 0, 0, 0, table)
                else:
                    clear(block(inner, r, n))
                    # No step writes these: an output of an operation must not hold uninitialised memory.
                    clear(block(kept, _series_row(plan, low + r, t), plan.kept * n))
            if plan.gated:
                _init_products(candidate, rows, candidate_width, parameters.bias, early, wide - early)
                read = _apply_dropout(inner, parameters.dropout_mask, low, rows, width, read_scratch)
                add_product(rows, width, read, width, parameters.candidate, candidate_width, candidate)
                for r in range(rows):
                    if mask.size == 0 or mask[(low + r) * steps + t]:
                        _call_row(update, n, low + r, r, t, 0, 0, 0, table)
            if parameters.projection.size:
                clear(projected)
                add_product(rows, n, inner, n, parameters.projection, projected_width, projected)
                for r in range(rows):
                    if mask.size == 0 or mask[(low + r) * steps + t]:
                        copy(view(projected, r * projected_width, width), block(h_rows, r, width))
            for r in range(rows):
                index = _series_row(plan, low + r, t)
                copy(block(h_rows, r, width), block(hs, index, width))
                if c.size:
                    copy(block(c, low + r, plan.carried), block(cs, index, plan.carried))
    keep_alive((u, candidate, inner, table, gates.rows, update.rows))
    restore_denormals(exactness)


@numba.njit(**INLINED)
def _state_address(
    series: Any, start: Any, zeros: Any, plan: LoopPlan, b: int, k: int, size: int, reset: bool
) -> int:  # fmt: skip
    """Return the place of a state before step k of the run."""
    if reset:
        return address_of(zeros)
    if k == 0:
        return address_of(start) + b * size * start.itemsize
    return address_of(series) + _series_row(plan, b, _time_index(plan, k - 1)) * size * series.itemsize


@numba.njit(**INLINED)
def _add_grad(to: Any, row: Any, dropout_mask: Any, b: int) -> None:
    """Add the gradient of h as gates read it."""
    if dropout_mask.size:
        for i in range(to.size):
            to[i] += row[i] * dropout_mask[b * to.size + i]
    else:
        for i in range(to.size):
            to[i] += row[i]


@compiled(**FAST)
def run_backward(
    first: int, last: int, plan: LoopPlan, gates: RowFunction, update: RowFunction, grad: StridedView,
    parameters: Parameters, mask: Array, resets: Array, h0: Array, c0: Array, hs: Array, cs: Array, delta_h: Array,
    delta_c: Array, grad_x: Array, apart: Array, separate: Array, grad_h: Array,
) -> None:  # fmt: skip
    """Run items backward from the gradients of the last states, and leave those of the initial states there.

    Args:
        gates, update: of the gradient, as in `run`.
        grad_x: gets the gradients of the projections.
        apart: of each projection its place in `separate`, which gets those of the recurrent product where they are
            other ones; or -1.
        grad_h: gets the gradient of every projected h.
    """
    exactness = flush_denormals()
    steps, n, width, wide = plan.steps, plan.size, plan.width, plan.gates * plan.size
    early, dtype = wide - plan.gated * n, delta_h.dtype
    products_width, unprojected_width = plan.recurrent_columns, plan.projection_columns
    grads, inner = np.zeros(plan.rows * wide, dtype), np.zeros(plan.rows * n, dtype)
    products, unprojected = np.zeros(plan.rows * products_width, dtype), np.zeros(plan.rows * unprojected_width, dtype)
    zeros, memory = np.zeros(max(width, plan.carried), dtype), np.zeros(UNPROJECTED + 1, np.int64)
    table = np.empty(max(gates.rows.size, update.rows.size), np.int64)
    memory[INNER], memory[GRADS], memory[UNPROJECTED] = address_of(inner), address_of(grads), address_of(unprojected)
    gates, update = _with_scratch_addresses(gates, memory), _with_scratch_addresses(update, memory)
    before_h, before_c = 0, 0
    for item in range(first, last):
        low = item * plan.rows
        rows = min(plan.rows, plan.batch - low)
        delta_rows = view(delta_h, low * width, rows * width)
        for k in range(steps - 1, -1, -1):
            t = _time_index(plan, k)
            for r in range(rows):
                b = low + r
                if mask.size and not mask[b * steps + t]:
                    continue
                upstream = view(grad.elements, b * grad.batch_stride + t * grad.time_stride, width)
                row = block(delta_rows, r, width)
                for i in range(width):
                    row[i] += upstream[i]
                if grad_h.size:
                    copy(row, block(grad_h, _series_row(plan, b, t), width))
            if parameters.projection.size:
                clear(unprojected)
                add_product(rows, width, delta_rows, width, parameters.projection, unprojected_width, unprojected)
            # Backward, the second part of a step comes first: its gradient of the gated state enters the first part.
            for part in range(1 if plan.gated else 0, -1, -1):
                for r in range(rows):
                    b = low + r
                    if mask.size and not mask[b * steps + t]:
                        # Zeros: the product below multiplies the rows of all sequences.
                        clear(block(grads, r, wide))
                        continue
                    reset = resets.size > 0 and resets[b * steps + t]
                    if gates.before_h != NONE:
                        before_h = _state_address(hs, h0, zeros, plan, b, k, width, reset)
                    if cs.size:
                        before_c = _state_address(cs, c0, zeros, plan, b, k, plan.carried, reset)
                    _call_row(update if part else gates, n, b, r, t, before_h, before_c, n * delta_h.itemsize, table)
                    # Only products read h before the step: its gradient is what they add below, and nothing else.
                    if part == 0 and not plan.passes_output:
                        clear(block(delta_rows, r, width))
                clear(products)
                if part:
                    of_update = view(grads, early, grads.size - early)
                    add_product(rows, wide - early, of_update, wide, parameters.candidate, products_width, products)
                    for r in range(rows):
                        delta = block(inner, r, n)
                        clear(delta)
                        _add_grad(delta, block(products, r, products_width), parameters.dropout_mask, low + r)
            add_product(rows, early, grads, wide, parameters.recurrent, products_width, products)
            for r in range(rows):
                b = low + r
                index = _series_row(plan, b, t)
                _add_grad(block(delta_rows, r, width), block(products, r, products_width), parameters.dropout_mask, b)
                if separate.size == 0:
                    copy(block(grads, r, wide), block(grad_x, index, wide))
                else:
                    real = mask.size == 0 or mask[b * steps + t]
                    for g in range(plan.gates):
                        of_gate, to = view(grads, r * wide + g * n, n), view(grad_x, index * wide + g * n, n)
                        if apart[g] < 0:
                            copy(of_gate, to)
                        else:
                            copy(of_gate, view(separate, (index * plan.separate + apart[g]) * n, n))
                            if not real:
                                clear(to)
                # The state after a reset is a constant: no gradient passes to the steps before.
                if resets.size and resets[b * steps + t]:
                    clear(block(delta_rows, r, width))
                    if delta_c.size:
                        clear(block(delta_c, low + r, plan.carried))
    keep_alive((grads, inner, unprojected, zeros, table, gates.rows, update.rows))
    restore_denormals(exactness)


RUN = Kernel.of(run)
RUN_BACKWARD = Kernel.of(run_backward)
