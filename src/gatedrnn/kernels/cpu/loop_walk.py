"""Loop cells over a whole sequence and back: one thread takes some of the sequences through all of time.

Sequences do not wait for each other, so threads never meet; each step reads the recurrent weights once for all of a
thread's sequences.
"""

from typing import Any, NamedTuple

import numba
import numpy as np

from gatedrnn.kernels.cpu import loop_gates as gates
from gatedrnn.kernels.cpu.compiling import compiled
from gatedrnn.kernels.cpu.denormals import flush_denormals, restore_denormals
from gatedrnn.kernels.cpu.loop_gates import GRU, LSTM, NO_OUTPUT_GATE
from gatedrnn.kernels.cpu.memory import Memory
from gatedrnn.kernels.cpu.numbers import FAST, INLINED, block, clear, copy, part, widened
from gatedrnn.kernels.cpu.products import add_product
from gatedrnn.kernels.cpu.threads import Kernel


class LoopPlan(NamedTuple):
    """Sizes, and which way time is walked."""

    batch: int
    steps: int
    size: int
    """Channels of a gate, and of c."""
    width: int
    """Channels of h, which are fewer where it is projected."""
    gates: int
    kept: int
    rows: int
    """Sequences of one work item."""
    backwards: bool
    batch_stride: int
    time_stride: int
    """How far apart sequences and steps lie, in rows, in every series but the input and its gradient's source."""
    recurrent_columns: int
    candidate_columns: int
    projection_columns: int
    """Padded columns of the packed matrices; 0 of those that the cell does not have."""


class Parameters(NamedTuple):
    """What multiplies the state, flat; empty arrays for what a cell does not have.

    Matrices are packed (`products.packed`): transposed forwards, as the layer has them backwards.
    """

    recurrent: np.ndarray
    """Of all gates, or of those before the candidate where there is one of these."""
    candidate: np.ndarray
    """Where a gate multiplies h before this product."""
    bias: np.ndarray
    peepholes: np.ndarray
    projection: np.ndarray
    dropped: np.ndarray
    """(batch, width): multiplies h where gates read it."""


@numba.njit(**INLINED)
def _time(plan: LoopPlan, k: int) -> int:
    return plan.steps - 1 - k if plan.backwards else k


@numba.njit(**INLINED)
def _place(plan: LoopPlan, b: int, t: int) -> int:
    """The row of a step in a series."""
    return b * plan.batch_stride + t * plan.time_stride


@numba.njit(**INLINED)
def _read(h: Any, dropped: Any, low: int, rows: int, width: int, room: Any) -> Any:
    """h as gates read it."""
    if dropped.size == 0:
        return h
    for i in range(rows * width):
        room[i] = h[i] * dropped[low * width + i]
    return room


@compiled(**FAST)
def walk_cells(
    first: int, last: int, plan: LoopPlan, kind: int, x: Memory, parameters: Parameters, mask: Any, resets: Any,
    h: Any, c: Any, kept: Any, hs: Any, cs: Any,
) -> None:  # fmt: skip
    """Walk items from the states h (batch, width) and c, and leave there the last ones; every state goes into hs and
    cs, what the gradient needs into `kept`. A masked step leaves the states as they were."""
    exactness = flush_denormals()
    steps, n, width, wide = plan.steps, plan.size, plan.width, plan.gates * plan.size
    dtype = h.dtype
    u_width, new_width, fed_width = plan.recurrent_columns, plan.candidate_columns, plan.projection_columns
    u, candidate, projected = (
        np.zeros(plan.rows * u_width, dtype),
        np.zeros(plan.rows * new_width, dtype),
        np.zeros(plan.rows * fed_width, dtype),
    )
    fed, between = np.zeros(plan.rows * width, dtype), np.zeros(plan.rows * n, dtype)
    room = np.zeros(wide, dtype)
    halved = parameters.candidate.size > 0
    for item in range(first, last):
        low = item * plan.rows
        rows = min(plan.rows, plan.batch - low)
        own = part(h, low * width, rows * width)
        for k in range(steps):
            t = _time(plan, k)
            for r in range(rows):
                if resets.size and resets[(low + r) * steps + t]:
                    clear(block(own, r, width))
                    if c.size:
                        clear(block(c, low + r, n))
                if parameters.bias.size:
                    copy(parameters.bias, part(u, r * u_width, wide))
                else:
                    clear(block(u, r, u_width))
            read = _read(own, parameters.dropped, low, rows, width, fed)
            add_product(rows, width, read, width, parameters.recurrent, u_width, u)
            for r in range(rows):
                b = low + r
                place = _place(plan, b, t)
                if mask.size and not mask[b * steps + t]:
                    clear(block(between, r, n))
                    clear(block(kept, place, plan.kept * n))  # a weight's gradient multiplies it with 0
                    continue
                x_row = widened(part(x.numbers, b * x.batch + t * x.time, wide), room)
                u_row, k_row, h_row = block(u, r, u_width), block(kept, place, plan.kept * n), block(own, r, width)
                if kind == LSTM:
                    to = block(between, r, n) if parameters.projection.size else h_row
                    gates.lstm(x_row, u_row, block(c, b, n), parameters.peepholes, to, k_row)
                elif kind == NO_OUTPUT_GATE:
                    gates.no_output_gate(x_row, u_row, block(c, b, n), h_row, k_row)
                elif kind == GRU:
                    gates.gru(x_row, u_row, h_row, k_row)
                elif halved:
                    gates.gate_the_state(kind, x_row, u_row, h_row, k_row, block(between, r, n))
                else:
                    gates.no_reset_gate(x_row, u_row, h_row, k_row)
            if halved:
                read = _read(between, parameters.dropped, low, rows, width, fed)
                clear(candidate)
                add_product(rows, width, read, width, parameters.candidate, new_width, candidate)
                for r in range(rows):
                    b = low + r
                    if mask.size == 0 or mask[b * steps + t]:
                        x_row = widened(part(x.numbers, b * x.batch + t * x.time, wide), room)
                        k_row = block(kept, _place(plan, b, t), plan.kept * n)
                        gates.renew_the_state(kind, x_row, block(candidate, r, new_width), block(own, r, width), k_row)
            if parameters.projection.size:
                clear(projected)
                add_product(rows, n, between, n, parameters.projection, fed_width, projected)
                for r in range(rows):
                    if mask.size == 0 or mask[(low + r) * steps + t]:
                        copy(part(projected, r * fed_width, width), block(own, r, width))
            for r in range(rows):
                place = _place(plan, low + r, t)
                copy(block(own, r, width), block(hs, place, width))
                if c.size:
                    copy(block(c, low + r, n), block(cs, place, n))
    restore_denormals(exactness)


@numba.njit(**INLINED)
def _before(series: Any, start: Any, plan: LoopPlan, b: int, k: int, size: int, cut: bool, zeros: Any) -> Any:
    """A state before step k of the walk."""
    if cut:
        return part(zeros, 0, size)
    if k == 0:
        return block(start, b, size)
    return block(series, _place(plan, b, _time(plan, k - 1)), size)


@numba.njit(**INLINED)
def _add_read(to: Any, row: Any, dropped: Any, b: int) -> None:
    """Add the gradient of h as gates read it."""
    if dropped.size:
        for i in range(to.size):
            to[i] += row[i] * dropped[b * to.size + i]
    else:
        for i in range(to.size):
            to[i] += row[i]


@compiled(**FAST)
def walk_cells_back(
    first: int, last: int, plan: LoopPlan, kind: int, grad: Memory, parameters: Parameters, mask: Any, resets: Any,
    h0: Any, c0: Any, kept: Any, hs: Any, cs: Any, delta_h: Any, delta_c: Any,
    grad_x: Any, grad_u_n: Any, grad_h: Any, grad_peepholes: Any,
) -> None:  # fmt: skip
    """Walk items against the walk from the gradients of the last states, and leave there those of the first.

    grad_x gets the gradients of the pre-activations; grad_u_n that of the recurrent product's last block, where it is
    another (GRU); grad_h that of every projected h.
    """
    exactness = flush_denormals()
    steps, n, width, wide = plan.steps, plan.size, plan.width, plan.gates * plan.size
    dtype = delta_h.dtype
    back_width, of_h_width = plan.recurrent_columns, plan.projection_columns
    pre, between = np.zeros(plan.rows * wide, dtype), np.zeros(plan.rows * n, dtype)
    back, of_h = np.zeros(plan.rows * back_width, dtype), np.zeros(plan.rows * of_h_width, dtype)
    zeros, room = np.zeros(max(width, n), dtype), np.zeros(width, dtype)
    halved = parameters.candidate.size > 0
    until = wide - n if halved else wide
    for item in range(first, last):
        low = item * plan.rows
        rows = min(plan.rows, plan.batch - low)
        own = part(delta_h, low * width, rows * width)
        for k in range(steps - 1, -1, -1):
            t = _time(plan, k)
            for r in range(rows):
                b = low + r
                if mask.size and not mask[b * steps + t]:
                    continue
                given = widened(part(grad.numbers, b * grad.batch + t * grad.time, width), room)
                row = block(own, r, width)
                for i in range(width):
                    row[i] += given[i]
                if grad_h.size:
                    copy(row, block(grad_h, _place(plan, b, t), width))
            if parameters.projection.size:
                clear(of_h)
                add_product(rows, width, own, width, parameters.projection, of_h_width, of_h)
            for r in range(rows):
                b = low + r
                place = _place(plan, b, t)
                p_row, d_row = block(pre, r, wide), block(own, r, width)
                if mask.size and not mask[b * steps + t]:
                    clear(p_row)
                    continue
                cut = resets.size > 0 and resets[b * steps + t]
                k_row = block(kept, place, plan.kept * n)
                if kind == LSTM or kind == NO_OUTPUT_GATE:
                    before = _before(cs, c0, plan, b, k, n, cut, zeros)
                    if kind == LSTM:
                        upon_h = part(of_h, r * of_h_width, n) if parameters.projection.size else d_row
                        gates.lstm_back(
                            k_row, before, block(cs, place, n), parameters.peepholes, upon_h, block(delta_c, b, n),
                            p_row, block(grad_peepholes, b, 3 * n),
                        )  # fmt: skip
                    else:
                        gates.no_output_gate_back(
                            k_row, before, block(hs, place, n), d_row, block(delta_c, b, n), p_row
                        )
                    clear(d_row)
                else:
                    before = _before(hs, h0, plan, b, k, n, cut, zeros)
                    if kind == GRU:
                        u_row = block(grad_u_n, place, n)
                        gates.gru_back(k_row, before, d_row, p_row, u_row)
                        copy(p_row, block(grad_x, place, wide))
                        copy(u_row, part(p_row, wide - n, n))
                    elif halved:
                        gates.renew_the_state_back(kind, k_row, before, d_row, p_row)
                    else:
                        gates.no_reset_gate_back(k_row, before, d_row, p_row)
            if halved:
                clear(back)
                add_product(rows, n, part(pre, until, pre.size - until), wide, parameters.candidate, back_width, back)
                for r in range(rows):
                    b = low + r
                    if mask.size == 0 or mask[b * steps + t]:
                        cut = resets.size > 0 and resets[b * steps + t]
                        before = _before(hs, h0, plan, b, k, n, cut, zeros)
                        delta = block(between, r, n)
                        clear(delta)
                        _add_read(delta, block(back, r, back_width), parameters.dropped, b)
                        gates.gate_the_state_back(
                            kind, block(kept, _place(plan, b, t), plan.kept * n), before, delta, block(own, r, n),
                            block(pre, r, wide),
                        )  # fmt: skip
            clear(back)
            add_product(rows, until, pre, wide, parameters.recurrent, back_width, back)
            for r in range(rows):
                b = low + r
                place = _place(plan, b, t)
                _add_read(block(own, r, width), block(back, r, back_width), parameters.dropped, b)
                if kind != GRU or (mask.size and not mask[b * steps + t]):
                    copy(block(pre, r, wide), block(grad_x, place, wide))
                if kind == GRU and mask.size and not mask[b * steps + t]:
                    clear(block(grad_u_n, place, n))
                if resets.size and resets[b * steps + t]:
                    clear(block(own, r, width))
                    if delta_c.size:
                        clear(block(delta_c, low + r, n))
    restore_denormals(exactness)


WALK_CELLS = Kernel.of(walk_cells)
WALK_CELLS_BACK = Kernel.of(walk_cells_back)
