"""Loop cells over a whole sequence and back: one thread takes some of the sequences through all of time.

Sequences do not wait for each other, so threads never meet; each step reads the recurrent weights once for all of a
thread's sequences.
"""

from typing import Any, NamedTuple

import numpy as np

from gatedrnn.kernels.cpu import loop_gates as gates
from gatedrnn.kernels.cpu.compiling import compiled
from gatedrnn.kernels.cpu.denormals import flush_denormals, restore_denormals
from gatedrnn.kernels.cpu.loop_gates import GRU, LSTM, NO_OUTPUT_GATE
from gatedrnn.kernels.cpu.memory import Memory
from gatedrnn.kernels.cpu.numbers import FAST, ZERO, copy, widened
from gatedrnn.kernels.cpu.products import add_product
from gatedrnn.kernels.cpu.team import on_team
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


@compiled(**FAST)
def _row(flat: Any, place: int, size: int) -> Any:
    return flat[place * size : (place + 1) * size]


@compiled(**FAST)
def _time(plan: LoopPlan, k: int) -> int:
    return plan.steps - 1 - k if plan.backwards else k


@compiled(**FAST)
def _place(plan: LoopPlan, b: int, t: int) -> int:
    """The row of a step in a series."""
    return b * plan.batch_stride + t * plan.time_stride


@compiled(**FAST)
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
        own = h[low * width : (low + rows) * width]
        for k in range(steps):
            t = _time(plan, k)
            for r in range(rows):
                if resets.size and resets[(low + r) * steps + t]:
                    _row(own, r, width)[:] = ZERO
                    if c.size:
                        _row(c, low + r, n)[:] = ZERO
                if parameters.bias.size:
                    copy(parameters.bias, _row(u, r, u_width)[:wide])
                else:
                    _row(u, r, u_width)[:] = ZERO
            read = _read(own, parameters.dropped, low, rows, width, fed)
            add_product(rows, width, read, width, parameters.recurrent, u_width, u)
            for r in range(rows):
                b = low + r
                place = _place(plan, b, t)
                if mask.size and not mask[b * steps + t]:
                    _row(between, r, n)[:] = ZERO
                    _row(kept, place, plan.kept * n)[:] = ZERO  # a weight's gradient multiplies it with 0
                    continue
                x_row = widened(x.numbers[b * x.batch + t * x.time : b * x.batch + t * x.time + wide], room)
                u_row, k_row, h_row = _row(u, r, u_width), _row(kept, place, plan.kept * n), _row(own, r, width)
                if kind == LSTM:
                    to = _row(between, r, n) if parameters.projection.size else h_row
                    gates.lstm(x_row, u_row, _row(c, b, n), parameters.peepholes, to, k_row)
                elif kind == NO_OUTPUT_GATE:
                    gates.no_output_gate(x_row, u_row, _row(c, b, n), h_row, k_row)
                elif kind == GRU:
                    gates.gru(x_row, u_row, h_row, k_row)
                elif halved:
                    gates.gate_the_state(kind, x_row, u_row, h_row, k_row, _row(between, r, n))
                else:
                    gates.no_reset_gate(x_row, u_row, h_row, k_row)
            if halved:
                read = _read(between, parameters.dropped, low, rows, width, fed)
                candidate[:] = ZERO
                add_product(rows, width, read, width, parameters.candidate, new_width, candidate)
                for r in range(rows):
                    b = low + r
                    if mask.size == 0 or mask[b * steps + t]:
                        x_row = widened(x.numbers[b * x.batch + t * x.time : b * x.batch + t * x.time + wide], room)
                        k_row = _row(kept, _place(plan, b, t), plan.kept * n)
                        gates.renew_the_state(kind, x_row, _row(candidate, r, new_width), _row(own, r, width), k_row)
            if parameters.projection.size:
                projected[:] = ZERO
                add_product(rows, n, between, n, parameters.projection, fed_width, projected)
                for r in range(rows):
                    if mask.size == 0 or mask[(low + r) * steps + t]:
                        copy(projected[r * fed_width : r * fed_width + width], _row(own, r, width))
            for r in range(rows):
                place = _place(plan, low + r, t)
                copy(_row(own, r, width), _row(hs, place, width))
                if c.size:
                    copy(_row(c, low + r, n), _row(cs, place, n))
    restore_denormals(exactness)


@compiled(**FAST)
def _before(series: Any, start: Any, plan: LoopPlan, b: int, k: int, size: int, cut: bool, zeros: Any) -> Any:
    """A state before step k of the walk."""
    if cut:
        return zeros[:size]
    if k == 0:
        return _row(start, b, size)
    return _row(series, _place(plan, b, _time(plan, k - 1)), size)


@compiled(**FAST)
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
        own = delta_h[low * width : (low + rows) * width]
        for k in range(steps - 1, -1, -1):
            t = _time(plan, k)
            for r in range(rows):
                b = low + r
                if mask.size and not mask[b * steps + t]:
                    continue
                given = widened(
                    grad.numbers[b * grad.batch + t * grad.time : b * grad.batch + t * grad.time + width], room
                )
                row = _row(own, r, width)
                for i in range(width):
                    row[i] += given[i]
                if grad_h.size:
                    copy(row, _row(grad_h, _place(plan, b, t), width))
            if parameters.projection.size:
                of_h[:] = ZERO
                add_product(rows, width, own, width, parameters.projection, of_h_width, of_h)
            for r in range(rows):
                b = low + r
                place = _place(plan, b, t)
                p_row, d_row = _row(pre, r, wide), _row(own, r, width)
                if mask.size and not mask[b * steps + t]:
                    p_row[:] = ZERO
                    continue
                cut = resets.size > 0 and resets[b * steps + t]
                k_row = _row(kept, place, plan.kept * n)
                if kind == LSTM or kind == NO_OUTPUT_GATE:
                    before = _before(cs, c0, plan, b, k, n, cut, zeros)
                    if kind == LSTM:
                        upon_h = of_h[r * of_h_width : r * of_h_width + n] if parameters.projection.size else d_row
                        gates.lstm_back(
                            k_row, before, _row(cs, place, n), parameters.peepholes, upon_h, _row(delta_c, b, n), p_row,
                            _row(grad_peepholes, b, 3 * n),
                        )  # fmt: skip
                    else:
                        gates.no_output_gate_back(k_row, before, _row(hs, place, n), d_row, _row(delta_c, b, n), p_row)
                    d_row[:] = ZERO
                else:
                    before = _before(hs, h0, plan, b, k, n, cut, zeros)
                    if kind == GRU:
                        u_row = _row(grad_u_n, place, n)
                        gates.gru_back(k_row, before, d_row, p_row, u_row)
                        copy(p_row, _row(grad_x, place, wide))
                        copy(u_row, p_row[wide - n :])
                    elif halved:
                        gates.renew_the_state_back(kind, k_row, before, d_row, p_row)
                    else:
                        gates.no_reset_gate_back(k_row, before, d_row, p_row)
            if halved:
                back[:] = ZERO
                add_product(rows, n, pre[until:], wide, parameters.candidate, back_width, back)
                for r in range(rows):
                    b = low + r
                    if mask.size == 0 or mask[b * steps + t]:
                        cut = resets.size > 0 and resets[b * steps + t]
                        before = _before(hs, h0, plan, b, k, n, cut, zeros)
                        delta = _row(between, r, n)
                        delta[:] = ZERO
                        _add_read(delta, back[r * back_width :], parameters.dropped, b)
                        gates.gate_the_state_back(
                            kind, _row(kept, _place(plan, b, t), plan.kept * n), before, delta, _row(own, r, n),
                            _row(pre, r, wide),
                        )  # fmt: skip
            back[:] = ZERO
            add_product(rows, until, pre, wide, parameters.recurrent, back_width, back)
            for r in range(rows):
                b = low + r
                place = _place(plan, b, t)
                _add_read(_row(own, r, width), back[r * back_width :], parameters.dropped, b)
                if kind != GRU or (mask.size and not mask[b * steps + t]):
                    copy(_row(pre, r, wide), _row(grad_x, place, wide))
                if kind == GRU and mask.size and not mask[b * steps + t]:
                    _row(grad_u_n, place, n)[:] = ZERO
                if resets.size and resets[b * steps + t]:
                    _row(own, r, width)[:] = ZERO
                    if delta_c.size:
                        _row(delta_c, low + r, n)[:] = ZERO
    restore_denormals(exactness)


@compiled(**FAST)
def _walk_cells_shared(begin: int, items: int, parts: int, *arguments: Any) -> None:
    on_team(walk_cells, begin, items, parts, arguments)


@compiled(**FAST)
def _walk_cells_back_shared(begin: int, items: int, parts: int, *arguments: Any) -> None:
    on_team(walk_cells_back, begin, items, parts, arguments)


WALK_CELLS = Kernel(walk_cells, _walk_cells_shared)
WALK_CELLS_BACK = Kernel(walk_cells_back, _walk_cells_back_shared)
