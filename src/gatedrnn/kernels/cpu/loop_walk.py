"""Loop cells over a whole sequence and back: a few sequences at a time are walked through all of time by one thread.

Sequences do not wait for each other, so threads never meet, and the recurrent weights stay in each core's own cache.
"""

from typing import Any, NamedTuple

import numpy as np

from gatedrnn.kernels.cpu import loop_gates as gates
from gatedrnn.kernels.cpu.compiling import compiled
from gatedrnn.kernels.cpu.denormals import flush_denormals, restore_denormals
from gatedrnn.kernels.cpu.loop_gates import GRU, GRU_BEFORE, LSTM, MGU, MGU_KEEP, NO_OUTPUT_GATE
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


class Parameters(NamedTuple):
    """What multiplies the state, flat; empty arrays for what a cell does not have.

    Forwards, matrices lie transposed: `recurrent` (width, gates · size) and `projection` (size, width).
    """

    recurrent: np.ndarray
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
    u, fed, between = (
        np.zeros(plan.rows * wide, dtype),
        np.zeros(plan.rows * width, dtype),
        np.zeros(plan.rows * n, dtype),
    )
    room = np.zeros(wide, dtype)
    halved = kind == GRU_BEFORE or kind == MGU or kind == MGU_KEEP
    until = wide - n if halved else wide
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
                _row(u, r, wide)[:] = ZERO
                if parameters.bias.size:
                    copy(parameters.bias, _row(u, r, wide))
            read = _read(own, parameters.dropped, low, rows, width, fed)
            add_product(rows, width, read, width, parameters.recurrent, wide, 0, until, u, wide)
            for r in range(rows):
                b = low + r
                place = b * steps + t
                if mask.size and not mask[place]:
                    _row(between, r, n)[:] = ZERO
                    _row(kept, place, plan.kept * n)[:] = ZERO  # a weight's gradient multiplies it with 0
                    continue
                x_row = widened(x.numbers[b * x.batch + t * x.time : b * x.batch + t * x.time + wide], room)
                u_row, k_row, h_row = _row(u, r, wide), _row(kept, place, plan.kept * n), _row(own, r, width)
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
                add_product(rows, width, read, width, parameters.recurrent, wide, until, wide, u, wide)
                for r in range(rows):
                    b = low + r
                    place = b * steps + t
                    if mask.size == 0 or mask[place]:
                        x_row = widened(x.numbers[b * x.batch + t * x.time : b * x.batch + t * x.time + wide], room)
                        gates.renew_the_state(
                            kind, x_row, _row(u, r, wide), _row(own, r, width), _row(kept, place, plan.kept * n)
                        )
            if parameters.projection.size:
                fed[:] = ZERO
                add_product(rows, n, between, n, parameters.projection, width, 0, width, fed, width)
                for r in range(rows):
                    if mask.size == 0 or mask[(low + r) * steps + t]:
                        copy(_row(fed, r, width), _row(own, r, width))
            for r in range(rows):
                place = (low + r) * steps + t
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
    return _row(series, b * plan.steps + _time(plan, k - 1), size)


@compiled(**FAST)
def walk_cells_back(
    first: int, last: int, plan: LoopPlan, kind: int, grad: Memory, parameters: Parameters, mask: Any, resets: Any,
    h0: Any, c0: Any, kept: Any, hs: Any, cs: Any, delta_h: Any, delta_c: Any,
    grad_x: Any, grad_u_n: Any, grad_h: Any, grad_peepholes: Any,
) -> None:  # fmt: skip
    """Walk items against the walk from the gradients of the last states, and leave there those of the first.

    grad_x gets the gradients of the pre-activations; grad_u_n that of the recurrent product's last block, where it is
    another (GRU); grad_h that of every projected h. Matrices lie as the layer has them.
    """
    exactness = flush_denormals()
    steps, n, width, wide = plan.steps, plan.size, plan.width, plan.gates * plan.size
    dtype = delta_h.dtype
    pre, between = np.zeros(plan.rows * wide, dtype), np.zeros(plan.rows * n, dtype)
    back, zeros, room = (
        np.zeros(plan.rows * max(width, n), dtype),
        np.zeros(max(width, n), dtype),
        np.zeros(width, dtype),
    )
    halved = kind == GRU_BEFORE or kind == MGU or kind == MGU_KEEP
    until = wide - n if halved else wide
    for item in range(first, last):
        low = item * plan.rows
        rows = min(plan.rows, plan.batch - low)
        own = delta_h[low * width : (low + rows) * width]
        for k in range(steps - 1, -1, -1):
            t = _time(plan, k)
            for r in range(rows):
                b = low + r
                place = b * steps + t
                if mask.size and not mask[place]:
                    continue
                given = widened(
                    grad.numbers[b * grad.batch + t * grad.time : b * grad.batch + t * grad.time + width], room
                )
                row = _row(own, r, width)
                for i in range(width):
                    row[i] += given[i]
                if grad_h.size:
                    copy(row, _row(grad_h, place, width))
            if parameters.projection.size:
                between[:] = ZERO
                add_product(rows, width, own, width, parameters.projection, n, 0, n, between, n)
            for r in range(rows):
                b = low + r
                place = b * steps + t
                p_row, d_row = _row(pre, r, wide), _row(own, r, width)
                if mask.size and not mask[place]:
                    p_row[:] = ZERO
                    continue
                cut = resets.size > 0 and resets[place]
                k_row = _row(kept, place, plan.kept * n)
                if kind == LSTM or kind == NO_OUTPUT_GATE:
                    before = _before(cs, c0, plan, b, k, n, cut, zeros)
                    if kind == LSTM:
                        of_h = _row(between, r, n) if parameters.projection.size else d_row
                        gates.lstm_back(
                            k_row, before, _row(cs, place, n), parameters.peepholes, of_h, _row(delta_c, b, n), p_row,
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
                        p_row[wide - n :] = u_row
                    elif halved:
                        gates.renew_the_state_back(kind, k_row, before, d_row, p_row)
                    else:
                        gates.no_reset_gate_back(k_row, before, d_row, p_row)
            if halved:
                back[:] = ZERO
                candidate = parameters.recurrent[until * width :]
                add_product(rows, n, pre[until:], wide, candidate, width, 0, width, back, width)
                read = _read(back, parameters.dropped, low, rows, width, between)
                for r in range(rows):
                    b = low + r
                    place = b * steps + t
                    if mask.size == 0 or mask[place]:
                        cut = resets.size > 0 and resets[place]
                        before = _before(hs, h0, plan, b, k, n, cut, zeros)
                        gates.gate_the_state_back(
                            kind, _row(kept, place, plan.kept * n), before, _row(read, r, n), _row(own, r, n),
                            _row(pre, r, wide),
                        )  # fmt: skip
            if parameters.dropped.size:
                back[:] = ZERO
                add_product(rows, until, pre, wide, parameters.recurrent, width, 0, width, back, width)
                read = _read(back, parameters.dropped, low, rows, width, back)
                for i in range(rows * width):
                    own[i] += read[i]
            else:
                add_product(rows, until, pre, wide, parameters.recurrent, width, 0, width, own, width)
            for r in range(rows):
                place = (low + r) * steps + t
                if kind != GRU or (mask.size and not mask[place]):
                    copy(_row(pre, r, wide), _row(grad_x, place, wide))
                if kind == GRU and mask.size and not mask[place]:
                    _row(grad_u_n, place, n)[:] = ZERO
                if resets.size and resets[place]:
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
