"""The scan h_t = a_t * h_(t-1) + b_t as loops over rows, bare or with gates computed in the same pass, and back.

A work item is one sequence, one block of channels and one stretch of time.
"""

from typing import Any

import numba
import numpy as np

from gatedrnn.kernels.cpu.compiling import compiled
from gatedrnn.kernels.cpu.denormals import flush_denormals, restore_denormals
from gatedrnn.kernels.cpu.gates import LINEAR, coefficients, gradients
from gatedrnn.kernels.cpu.memory import Memory
from gatedrnn.kernels.cpu.numbers import (
    FAST,
    INLINED,
    INNER,
    ONE,
    ZERO,
    borrowed,
    clear,
    copy,
    keep_alive,
    part,
    place_for,
    store,
    tanh,
    widened,
)
from gatedrnn.kernels.cpu.rows import (
    Plan,
    Reading,
    all_lent,
    ask,
    ask_for_gates,
    ask_to_write,
    ask_to_write_gates,
    coming,
    gate_of,
    item_of,
    lent,
    row_of,
)  # fmt: skip
from gatedrnn.kernels.cpu.threads import Kernel

MANY = 64  # steps whose gradients of a bias are summed by themselves: a long sum would lose digits


@numba.njit(**INLINED)
def _step(decay: Any, drive: Any, state: Any, out: Any) -> None:
    for i in range(state.size):
        h = decay[i] * state[i] + drive[i]
        state[i] = h
        out[i] = h


@numba.njit(**INLINED)
def _add(row: Any, to: Any) -> None:
    for i in range(row.size):
        to[i] += row[i]


@compiled(**FAST)
def walk(
    first: int, last: int, plan: Plan, given: Reading, state: Any, squashed: bool, hold: bool, out: Memory
) -> None:
    """Walk each item's stretch from its `state`, and leave there the last one; `out` gets every state, or its tanh.

    A masked step leaves the state as it was; `out` gets 0 there, or with `hold` the state.
    """
    exactness = flush_denormals()
    kept = np.zeros(6 * plan.block, state.dtype)
    room = borrowed(kept)
    kind, x, y, z, bias, mask, resets, reset_state = all_lent(given)
    state, out = borrowed(state), lent(out)
    for item in range(first, last):
        b, low, n, start, end, place = item_of(plan, item)
        h, upwards = part(state, place, n), not plan.backwards
        for k in range(start, end):
            t = plan.steps - 1 - k if plan.backwards else k
            soon = coming(plan, t, n, upwards)
            ask_for_gates(x, y, z, b, soon, low, n, upwards)
            ask_to_write(out, b, soon, low, n, upwards)
            if resets.size and resets[b * plan.steps + t]:
                copy(part(reset_state, low, n), h)
            row = row_of(out, b, t, low, n)
            to = place_for(row, part(room, 0 * plan.block, n))
            if mask.size and not mask[b * plan.steps + t]:
                clear(to)
                if hold:
                    copy(h, to)
            else:
                decay = gate_of(x, bias, 0, plan, b, t, low, n, part(room, 1 * plan.block, n))
                drive = gate_of(y, bias, 1, plan, b, t, low, n, part(room, 2 * plan.block, n))
                if kind == LINEAR:
                    _step(decay, drive, h, to)
                else:
                    third = gate_of(z, bias, 2, plan, b, t, low, n, part(room, 5 * plan.block, n))
                    coefficients(
                        kind, decay, drive, third, part(room, 3 * plan.block, n), part(room, 4 * plan.block, n)
                    )
                    _step(part(room, 3 * plan.block, n), part(room, 4 * plan.block, n), h, to)
                if squashed:
                    for i in range(n):
                        to[i] = tanh(h[i])
            store(to, row)
    keep_alive(kept)
    restore_denormals(exactness)


@compiled(**FAST)
def compose(first: int, last: int, plan: Plan, given: Reading, state: Any, product: Any) -> None:
    """What each stretch makes of a state h that enters it: product * h + state."""
    exactness = flush_denormals()
    kept = np.zeros(6 * plan.block, state.dtype)
    room = borrowed(kept)
    kind, x, y, z, bias, mask, resets, reset_state = all_lent(given)
    state, product = borrowed(state), borrowed(product)
    for item in range(first, last):
        b, low, n, start, end, place = item_of(plan, item)
        h, through = part(state, place, n), part(product, place, n)
        for k in range(start, end):
            t = plan.steps - 1 - k if plan.backwards else k
            if resets.size and resets[b * plan.steps + t]:
                copy(part(reset_state, low, n), h)
                clear(through)
            if mask.size == 0 or mask[b * plan.steps + t]:
                decay = gate_of(x, bias, 0, plan, b, t, low, n, part(room, 1 * plan.block, n))
                drive = gate_of(y, bias, 1, plan, b, t, low, n, part(room, 2 * plan.block, n))
                if kind != LINEAR:
                    third = gate_of(z, bias, 2, plan, b, t, low, n, part(room, 5 * plan.block, n))
                    coefficients(
                        kind, decay, drive, third, part(room, 3 * plan.block, n), part(room, 4 * plan.block, n)
                    )
                    decay, drive = part(room, 3 * plan.block, n), part(room, 4 * plan.block, n)
                _step(decay, drive, h, part(room, 0 * plan.block, n))
                for i in range(n):
                    through[i] *= decay[i]
    keep_alive(kept)
    restore_denormals(exactness)


@compiled(**FAST)
def compose_back(
    first: int, last: int, plan: Plan, given: Reading, grad: Memory, states: Memory, carry: Any, product: Any,
    squashed: bool,
) -> None:  # fmt: skip
    """The same against the walk, of the gradient that enters a stretch from behind: product * carry + carry."""
    exactness = flush_denormals()
    kept = np.zeros(8 * plan.block, carry.dtype)
    room = borrowed(kept)
    kind, x, y, z, bias, mask, resets, _ = all_lent(given)
    grad, states, carry, product = lent(grad), lent(states), borrowed(carry), borrowed(product)
    for item in range(first, last):
        b, low, n, start, end, place = item_of(plan, item)
        delta, through = part(carry, place, n), part(product, place, n)
        for k in range(end - 1, start - 1, -1):
            t = plan.steps - 1 - k if plan.backwards else k
            if mask.size == 0 or mask[b * plan.steps + t]:
                _add_gradient(
                    widened(row_of(grad, b, t, low, n), part(room, 0 * plan.block, n)),
                    states,
                    b,
                    t,
                    low,
                    squashed,
                    delta,
                    part(room, 6 * plan.block, n),
                )
                decay = gate_of(x, bias, 0, plan, b, t, low, n, part(room, 1 * plan.block, n))
                if kind != LINEAR:
                    second = gate_of(y, bias, 1, plan, b, t, low, n, part(room, 2 * plan.block, n))
                    third = gate_of(z, bias, 2, plan, b, t, low, n, part(room, 5 * plan.block, n))
                    coefficients(
                        kind, decay, second, third, part(room, 3 * plan.block, n), part(room, 4 * plan.block, n)
                    )
                    decay = part(room, 3 * plan.block, n)
                for i in range(n):
                    delta[i] *= decay[i]
                    through[i] *= decay[i]
            if resets.size and resets[b * plan.steps + t]:
                clear(delta)
                clear(through)
    keep_alive(kept)
    restore_denormals(exactness)


@numba.njit(**INNER)
def _add_gradient(grad: Any, states: Memory, b: int, t: int, low: int, squashed: bool, delta: Any, room: Any) -> None:
    """Add the gradient of an output to that of its state."""
    n = delta.size
    if squashed:
        state = widened(row_of(states, b, t, low, n), room)
        for i in range(n):
            out = tanh(state[i])
            delta[i] += grad[i] * (ONE - out * out)
    else:
        for i in range(n):
            delta[i] += grad[i]


@compiled(**FAST)
def walk_back(
    first: int, last: int, plan: Plan, given: Reading, grad: Memory, states: Memory, h0: Any, carry: Any,
    squashed: bool, grad_x: Memory, grad_y: Memory, grad_z: Memory, grad_bias: Any, grad_reset: Any,
) -> None:  # fmt: skip
    """Walk each item's stretch against the walk from its `carry`, the gradient of its last state, and leave there that
    of the state that entered it. `grad_bias` and `grad_reset` get the sums over the stretch.
    """
    exactness = flush_denormals()
    kept = np.zeros(13 * plan.block, carry.dtype)
    room = borrowed(kept)
    kind, x, y, z, bias, mask, resets, reset_state = all_lent(given)
    grad, states, h0, carry = lent(grad), lent(states), borrowed(h0), borrowed(carry)
    grad_x, grad_y, grad_z = lent(grad_x), lent(grad_y), lent(grad_z)
    grad_bias, grad_reset = borrowed(grad_bias), borrowed(grad_reset)
    gates = bias.size // plan.channels
    for item in range(first, last):
        b, low, n, start, end, place = item_of(plan, item)
        delta, into = part(carry, place, n), part(grad_reset, place, n)
        for k in range(end - 1, start - 1, -1):
            t = plan.steps - 1 - k if plan.backwards else k
            before = t + 1 if plan.backwards else t - 1
            soon = coming(plan, t, n, plan.backwards)
            ask_for_gates(x, y, z, b, soon, low, n, plan.backwards)
            ask(grad, b, soon, low, n, plan.backwards)
            ask(states, b, soon, low, n, plan.backwards)
            ask_to_write_gates(grad_x, grad_y, grad_z, b, soon, low, n, plan.backwards)
            cut = resets.size > 0 and resets[b * plan.steps + t]
            rows = row_of(grad_x, b, t, low, n), row_of(grad_y, b, t, low, n), row_of(grad_z, b, t, low, n)
            to = (
                place_for(rows[0], part(room, 0 * plan.block, n)),
                place_for(rows[1], part(room, 1 * plan.block, n)),
                place_for(rows[2], part(room, 2 * plan.block, n)),
            )
            if mask.size and not mask[b * plan.steps + t]:
                clear(to[0])
                clear(to[1])
                clear(to[2])
            else:
                if cut:
                    previous = part(reset_state, low, n)
                elif 0 <= before < plan.steps:
                    previous = widened(row_of(states, b, before, low, n), part(room, 3 * plan.block, n))
                else:
                    previous = part(h0, b * plan.channels + low, n)
                _add_gradient(
                    widened(row_of(grad, b, t, low, n), part(room, 4 * plan.block, n)),
                    states,
                    b,
                    t,
                    low,
                    squashed,
                    delta,
                    part(room, 5 * plan.block, n),
                )
                first_row = gate_of(x, bias, 0, plan, b, t, low, n, part(room, 6 * plan.block, n))
                second_row = gate_of(y, bias, 1, plan, b, t, low, n, part(room, 7 * plan.block, n))
                third_row = gate_of(z, bias, 2, plan, b, t, low, n, part(room, 8 * plan.block, n))
                gradients(kind, first_row, second_row, third_row, previous, delta, to[0], to[1], to[2])
                for gate in range(gates):
                    _add(to[gate], part(room, (10 + gate) * plan.block, n))
            if gates and ((end - k) % MANY == 0 or k == start):
                for gate in range(gates):
                    recent = part(room, (10 + gate) * plan.block, n)
                    _add(recent, part(grad_bias, (place - low) * gates + gate * plan.channels + low, n))
                    clear(recent)
            store(to[0], rows[0])
            store(to[1], rows[1])
            store(to[2], rows[2])
            if cut:
                for i in range(n):
                    into[i] += delta[i]
                    delta[i] = ZERO
    keep_alive(kept)
    restore_denormals(exactness)


WALK = Kernel.of(walk)
COMPOSE = Kernel.of(compose)
COMPOSE_BACK = Kernel.of(compose_back)
WALK_BACK = Kernel.of(walk_back)
