"""The scan h_t = a_t * h_(t-1) + b_t as loops over rows, bare or with gates computed in the same pass, and back.

A work item is one sequence, one block of channels and one stretch of time.
"""

from typing import Any, NamedTuple

import numba
import numpy as np

from gatedrnn.kernels.cpu.gates import LINEAR, coefficients, gradients
from gatedrnn.kernels.cpu.memory import Memory
from gatedrnn.kernels.cpu.numbers import FAST, INLINED, ONE, ZERO, borrowed, place_for, store, tanh, widened
from gatedrnn.kernels.cpu.team import on_team
from gatedrnn.kernels.cpu.threads import Kernel


class Plan(NamedTuple):
    """How the work is cut, and which way time is walked."""

    steps: int
    channels: int
    block: int
    stretches: int
    backwards: bool


@numba.njit(**INLINED)
def _item(plan: Plan, item: int) -> tuple[int, int, int, int, int, int]:
    """Sequence, first channel, channels, first and last step (in the order of the walk) and place of its state."""
    blocks = (plan.channels + plan.block - 1) // plan.block
    stretch, low, b = (
        item % plan.stretches,
        item // plan.stretches % blocks * plan.block,
        item // (plan.stretches * blocks),
    )
    n = min(plan.block, plan.channels - low)
    start, end = plan.steps * stretch // plan.stretches, plan.steps * (stretch + 1) // plan.stretches
    return b, low, n, start, end, (b * plan.stretches + stretch) * plan.channels + low


@numba.njit(**INLINED)
def _lent(series: Memory) -> Memory:
    return Memory(borrowed(series.numbers), series.batch, series.time)


@numba.njit(**INLINED)
def _row(series: Memory, b: int, t: int, low: int, n: int) -> Any:
    start = b * series.batch + t * series.time + low
    return series.numbers[start : start + n]


@numba.njit(**INLINED)
def _step(decay: Any, drive: Any, state: Any, out: Any) -> None:
    for i in range(state.size):
        h = decay[i] * state[i] + drive[i]
        state[i] = h
        out[i] = h


@numba.njit(**FAST)
def walk(
    first: int, last: int, plan: Plan, kind: int, x: Memory, y: Memory, z: Memory, mask: Any, resets: Any,
    reset_state: Any, state: Any, squashed: bool, hold: bool, out: Memory,
) -> None:  # fmt: skip
    """Walk each item's stretch from its `state`, and leave there the last one; `out` gets every state, or its tanh.

    A masked step leaves the state as it was; `out` gets 0 there, or with `hold` the state.
    """
    room = np.zeros((6, plan.block), state.dtype)
    rooms = borrowed(room)
    x, y, z, out = _lent(x), _lent(y), _lent(z), _lent(out)
    mask, resets, reset_state, state = borrowed(mask), borrowed(resets), borrowed(reset_state), borrowed(state)
    for item in range(first, last):
        b, low, n, start, end, place = _item(plan, item)
        h = state[place : place + n]
        for k in range(start, end):
            t = plan.steps - 1 - k if plan.backwards else k
            if resets.size and resets[b * plan.steps + t]:
                h[:] = reset_state[low : low + n]
            row = _row(out, b, t, low, n)
            to = place_for(row, rooms[0])
            if mask.size and not mask[b * plan.steps + t]:
                to[:] = ZERO
                if hold:
                    to[:] = h
            else:
                first_row, second_row = (
                    widened(_row(x, b, t, low, n), rooms[1]),
                    widened(_row(y, b, t, low, n), rooms[2]),
                )
                if kind == LINEAR:
                    _step(first_row, second_row, h, to)
                else:
                    decay, drive = rooms[3, :n], rooms[4, :n]
                    coefficients(kind, first_row, second_row, widened(_row(z, b, t, low, n), rooms[5]), decay, drive)
                    _step(decay, drive, h, to)
                if squashed:
                    for i in range(n):
                        to[i] = tanh(h[i])
            store(to, row)


@numba.njit(**FAST)
def compose(
    first: int, last: int, plan: Plan, kind: int, x: Memory, y: Memory, z: Memory, mask: Any, resets: Any,
    reset_state: Any, state: Any, product: Any,
) -> None:  # fmt: skip
    """What each stretch makes of a state h that enters it: product * h + state."""
    room = np.zeros((6, plan.block), state.dtype)
    rooms = borrowed(room)
    x, y, z, mask, resets = _lent(x), _lent(y), _lent(z), borrowed(mask), borrowed(resets)
    reset_state, state, product = borrowed(reset_state), borrowed(state), borrowed(product)
    for item in range(first, last):
        b, low, n, start, end, place = _item(plan, item)
        h, through = state[place : place + n], product[place : place + n]
        for k in range(start, end):
            t = plan.steps - 1 - k if plan.backwards else k
            if resets.size and resets[b * plan.steps + t]:
                h[:] = reset_state[low : low + n]
                through[:] = ZERO
            if mask.size == 0 or mask[b * plan.steps + t]:
                decay, drive = widened(_row(x, b, t, low, n), rooms[1]), widened(_row(y, b, t, low, n), rooms[2])
                if kind != LINEAR:
                    third = widened(_row(z, b, t, low, n), rooms[5])
                    coefficients(kind, decay, drive, third, rooms[3, :n], rooms[4, :n])
                    decay, drive = rooms[3, :n], rooms[4, :n]
                _step(decay, drive, h, rooms[0])
                for i in range(n):
                    through[i] *= decay[i]


@numba.njit(**FAST)
def compose_back(
    first: int, last: int, plan: Plan, kind: int, grad: Memory, x: Memory, y: Memory, z: Memory, states: Memory,
    mask: Any, resets: Any, carry: Any, product: Any, squashed: bool,
) -> None:  # fmt: skip
    """The same against the walk, of the gradient that enters a stretch from behind: product * carry + carry."""
    room = np.zeros((8, plan.block), carry.dtype)
    rooms = borrowed(room)
    grad, x, y, z, states = _lent(grad), _lent(x), _lent(y), _lent(z), _lent(states)
    mask, resets, carry, product = borrowed(mask), borrowed(resets), borrowed(carry), borrowed(product)
    for item in range(first, last):
        b, low, n, start, end, place = _item(plan, item)
        delta, through = carry[place : place + n], product[place : place + n]
        for k in range(end - 1, start - 1, -1):
            t = plan.steps - 1 - k if plan.backwards else k
            if mask.size == 0 or mask[b * plan.steps + t]:
                _add_gradient(widened(_row(grad, b, t, low, n), rooms[0]), states, b, t, low, squashed, delta, rooms[6])
                decay = widened(_row(x, b, t, low, n), rooms[1])
                if kind != LINEAR:
                    second, third = widened(_row(y, b, t, low, n), rooms[2]), widened(_row(z, b, t, low, n), rooms[5])
                    coefficients(kind, decay, second, third, rooms[3, :n], rooms[4, :n])
                    decay = rooms[3, :n]
                for i in range(n):
                    delta[i] *= decay[i]
                    through[i] *= decay[i]
            if resets.size and resets[b * plan.steps + t]:
                delta[:] = ZERO
                through[:] = ZERO


@numba.njit(**FAST)
def _add_gradient(grad: Any, states: Memory, b: int, t: int, low: int, squashed: bool, delta: Any, room: Any) -> None:
    """Add the gradient of an output to that of its state."""
    n = delta.size
    if squashed:
        state = widened(_row(states, b, t, low, n), room)
        for i in range(n):
            out = tanh(state[i])
            delta[i] += grad[i] * (ONE - out * out)
    else:
        for i in range(n):
            delta[i] += grad[i]


@numba.njit(**FAST)
def walk_back(
    first: int, last: int, plan: Plan, kind: int, grad: Memory, x: Memory, y: Memory, z: Memory, states: Memory,
    h0: Any, mask: Any, resets: Any, reset_state: Any, carry: Any, squashed: bool,
    grad_x: Memory, grad_y: Memory, grad_z: Memory, grad_reset: Any,
) -> None:  # fmt: skip
    """Walk each item's stretch against the walk from its `carry`, the gradient of its last state, and leave there that
    of the state that entered it.

    `states` may lie where `grad_x` will: a step's states are read before its gradients are written.
    """
    room = np.zeros((10, plan.block), carry.dtype)
    rooms = borrowed(room)
    grad, x, y, z, states = _lent(grad), _lent(x), _lent(y), _lent(z), _lent(states)
    grad_x, grad_y, grad_z, grad_reset = _lent(grad_x), _lent(grad_y), _lent(grad_z), borrowed(grad_reset)
    mask, resets, reset_state = borrowed(mask), borrowed(resets), borrowed(reset_state)
    h0, carry = borrowed(h0), borrowed(carry)
    for item in range(first, last):
        b, low, n, start, end, place = _item(plan, item)
        delta, into = carry[place : place + n], grad_reset[place : place + n]
        for k in range(end - 1, start - 1, -1):
            t = plan.steps - 1 - k if plan.backwards else k
            before = t + 1 if plan.backwards else t - 1
            cut = resets.size > 0 and resets[b * plan.steps + t]
            rows = _row(grad_x, b, t, low, n), _row(grad_y, b, t, low, n), _row(grad_z, b, t, low, n)
            to = place_for(rows[0], rooms[0]), place_for(rows[1], rooms[1]), place_for(rows[2], rooms[2])
            if mask.size and not mask[b * plan.steps + t]:
                to[0][:], to[1][:], to[2][:] = ZERO, ZERO, ZERO
            else:
                if cut:
                    previous = reset_state[low : low + n]
                elif 0 <= before < plan.steps:
                    previous = widened(_row(states, b, before, low, n), rooms[3])
                else:
                    previous = h0[b * plan.channels + low : b * plan.channels + low + n]
                _add_gradient(widened(_row(grad, b, t, low, n), rooms[4]), states, b, t, low, squashed, delta, rooms[5])
                gradients(
                    kind, widened(_row(x, b, t, low, n), rooms[6]), widened(_row(y, b, t, low, n), rooms[7]),
                    widened(_row(z, b, t, low, n), rooms[8]), previous, delta, to[0], to[1], to[2],
                )  # fmt: skip
            store(to[0], rows[0])
            store(to[1], rows[1])
            store(to[2], rows[2])
            if cut:
                for i in range(n):
                    into[i] += delta[i]
                    delta[i] = ZERO


@numba.njit(**FAST)
def _walk_shared(begin: int, items: int, parts: int, *arguments: Any) -> None:
    on_team(walk, begin, items, parts, arguments)


@numba.njit(**FAST)
def _compose_shared(begin: int, items: int, parts: int, *arguments: Any) -> None:
    on_team(compose, begin, items, parts, arguments)


@numba.njit(**FAST)
def _compose_back_shared(begin: int, items: int, parts: int, *arguments: Any) -> None:
    on_team(compose_back, begin, items, parts, arguments)


@numba.njit(**FAST)
def _walk_back_shared(begin: int, items: int, parts: int, *arguments: Any) -> None:
    on_team(walk_back, begin, items, parts, arguments)


WALK = Kernel(walk, _walk_shared)
COMPOSE = Kernel(compose, _compose_shared)
COMPOSE_BACK = Kernel(compose_back, _compose_back_shared)
WALK_BACK = Kernel(walk_back, _walk_back_shared)
