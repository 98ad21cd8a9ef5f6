"""The scan h_t = a_t * h_(t-1) + b_t and its gradient as loops over rows, bare or with gates computed in the same pass.

A work item is one sequence, one block of channels and one chunk of time.
"""

from typing import Any, NamedTuple

import numba
import numpy as np

from gatedrnn.kernels.cpu._compile import FAST, INLINED, INNER, compiled
from gatedrnn.kernels.cpu._gates import LINEAR, coefficients, gradients
from gatedrnn.kernels.cpu._math import ONE, ZERO, flush_denormals, restore_denormals, tanh
from gatedrnn.kernels.cpu._threads import Kernel
from gatedrnn.kernels.cpu._views import (
    StridedView,
    borrowed,
    borrowed_view,
    clear,
    copy,
    keep_alive,
    prefetch_row,
    prefetch_row_to_write,
    row_of,
    store,
    view,
    widened,
    with_bias,
    writable,
)

PREFETCHED = 256  # elements of a series between the row at work and the row that is prefetched
SUMMED_ALONE = 64  # steps whose gradients of a bias are summed by themselves: a long sum would lose digits


class Inputs(NamedTuple):
    """Arrays that forward and backward read; flags are empty if there are none."""

    branch: int
    x: StridedView
    y: StridedView
    z: StridedView
    """Projections of the candidate, of the first and of the second gate; z is empty where there is one gate. In the
    bare scan x is the decay and y the drive."""
    order: tuple[int, int, int]
    """Places of x, y and z among the projections, and so in the bias."""
    bias: np.ndarray
    mask: np.ndarray
    resets: np.ndarray
    reset_state: np.ndarray


class Plan(NamedTuple):
    """How the work is divided, and in which direction time runs."""

    steps: int
    channels: int
    block: int
    """Channels of a work item."""
    chunks: int
    """Chunks of time that run at once."""
    reverse: bool
    first: int
    """The first sequence, of `sequences` ones."""
    sequences: int
    low: int
    """The first step, in the order of the run; `high` is the end."""
    high: int

    @property
    def items(self) -> int:
        """Number of work items."""
        return self.sequences * -(-self.channels // self.block) * self.chunks


class Scratch(NamedTuple):
    """Rows of scratch memory of the forward kernels, each as wide as a work item."""

    x: Any
    y: Any
    z: Any
    decay: Any
    drive: Any
    output: Any


class BackwardScratch(NamedTuple):
    """Rows of scratch memory of the backward kernels."""

    x: Any
    y: Any
    z: Any
    decay: Any
    drive: Any
    grad: Any
    state: Any
    previous: Any
    grad_x: Any
    grad_y: Any
    grad_z: Any
    grad_bias: Any
    """A row for each of x, y and z."""


@numba.njit(**INLINED)
def _scratch(memory: Any, block: int, n: int) -> Scratch:
    return Scratch(
        view(memory, 0, n), view(memory, block, n), view(memory, 2 * block, n), view(memory, 3 * block, n),
        view(memory, 4 * block, n), view(memory, 5 * block, n),
    )  # fmt: skip


@numba.njit(**INLINED)
def _backward_scratch(memory: Any, block: int, n: int) -> BackwardScratch:
    return BackwardScratch(
        view(memory, 0, n), view(memory, block, n), view(memory, 2 * block, n), view(memory, 3 * block, n),
        view(memory, 4 * block, n), view(memory, 5 * block, n), view(memory, 6 * block, n), view(memory, 7 * block, n),
        view(memory, 8 * block, n), view(memory, 9 * block, n), view(memory, 10 * block, n),
        (view(memory, 11 * block, n), view(memory, 12 * block, n), view(memory, 13 * block, n)),
    )  # fmt: skip


@numba.njit(**INLINED)
def _item(plan: Plan, item: int) -> tuple[int, int, int, int, int, int]:
    """Sequence, first channel, number of channels, first step and end in the order of the run, offset of the state."""
    blocks = (plan.channels + plan.block - 1) // plan.block
    chunk, low = item % plan.chunks, item // plan.chunks % blocks * plan.block
    b, n = plan.first + item // (plan.chunks * blocks), min(plan.block, plan.channels - low)
    length = plan.high - plan.low
    start, end = plan.low + length * chunk // plan.chunks, plan.low + length * (chunk + 1) // plan.chunks
    return b, low, n, start, end, (b * plan.chunks + chunk) * plan.channels + low


@numba.njit(**INLINED)
def _borrowed(inputs: Inputs) -> Inputs:
    return Inputs(
        inputs.branch, borrowed_view(inputs.x), borrowed_view(inputs.y), borrowed_view(inputs.z), inputs.order,
        borrowed(inputs.bias), borrowed(inputs.mask), borrowed(inputs.resets), borrowed(inputs.reset_state),
    )  # fmt: skip


@numba.njit(**INLINED)
def _gate(series: StridedView, bias: Any, gate: int, plan: Plan, b: int, t: int, low: int, n: int, scratch: Any) -> Any:
    """A row of projections, with the bias of its gate."""
    start = gate * plan.channels + low
    return with_bias(row_of(series, b, t, low, n), view(bias, start, n if bias.size else 0), scratch)


@numba.njit(**INLINED)
def _soon(plan: Plan, t: int, n: int, upwards: bool) -> int:
    """The step to prefetch, where time goes upwards or downwards in memory."""
    steps = (PREFETCHED + n - 1) // n
    return min(t + steps, plan.steps - 1) if upwards else max(t - steps, 0)


@numba.njit(**INLINED)
def _prefetch_gates(inputs: Inputs, b: int, t: int, low: int, n: int, upwards: bool) -> None:
    """The gates of a step lie one after another; they are prefetched in that order."""
    gates, in_order = (inputs.x, inputs.y, inputs.z), upwards == (inputs.x.offset <= inputs.y.offset)
    for i in range(3):
        prefetch_row(gates[i if in_order else 2 - i], b, t, low, n, upwards)


@numba.njit(**INLINED)
def _prefetch_gates_to_write(
    x: StridedView, y: StridedView, z: StridedView, b: int, t: int, low: int, n: int, upwards: bool
) -> None:
    gates, in_order = (x, y, z), upwards == (x.offset <= y.offset)
    for i in range(3):
        prefetch_row_to_write(gates[i if in_order else 2 - i], b, t, low, n, upwards)


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
def run(
    first: int, last: int, plan: Plan, inputs: Inputs, state: Any, squash: bool, hold: bool, out: StridedView
) -> None:
    """Run each item's chunk from its `state`, and leave the last state there; `out` gets every state, or its tanh.

    A masked step leaves the state as it was; `out` gets 0 there, or with `hold` the state.
    """
    exactness = flush_denormals()
    memory = np.zeros(6 * plan.block, state.dtype)
    inputs, state, out = _borrowed(inputs), borrowed(state), borrowed_view(out)
    branch, bias, order, mask, resets = inputs.branch, inputs.bias, inputs.order, inputs.mask, inputs.resets
    for item in range(first, last):
        b, low, n, start, end, offset = _item(plan, item)
        h, upwards, scratch = view(state, offset, n), not plan.reverse, _scratch(borrowed(memory), plan.block, n)
        for k in range(start, end):
            t = plan.steps - 1 - k if plan.reverse else k
            soon = _soon(plan, t, n, upwards)
            _prefetch_gates(inputs, b, soon, low, n, upwards)
            prefetch_row_to_write(out, b, soon, low, n, upwards)
            if resets.size and resets[b * plan.steps + t]:
                copy(view(inputs.reset_state, low, n), h)
            row = row_of(out, b, t, low, n)
            to = writable(row, scratch.output)
            if mask.size and not mask[b * plan.steps + t]:
                clear(to)
                if hold:
                    copy(h, to)
            else:
                x = _gate(inputs.x, bias, order[0], plan, b, t, low, n, scratch.x)
                y = _gate(inputs.y, bias, order[1], plan, b, t, low, n, scratch.y)
                if branch == LINEAR:
                    _step(x, y, h, to)
                else:
                    z = _gate(inputs.z, bias, order[2], plan, b, t, low, n, scratch.z)
                    coefficients(branch, x, y, z, scratch.decay, scratch.drive)
                    _step(scratch.decay, scratch.drive, h, to)
                if squash:
                    for i in range(n):
                        to[i] = tanh(h[i])
            store(to, row)
    keep_alive(memory)
    restore_denormals(exactness)


@compiled(**FAST)
def compose(first: int, last: int, plan: Plan, inputs: Inputs, state: Any, product: Any) -> None:
    """The map of each chunk from a state h before it to the state after it: product * h + state."""
    exactness = flush_denormals()
    memory = np.zeros(6 * plan.block, state.dtype)
    inputs, state, product = _borrowed(inputs), borrowed(state), borrowed(product)
    branch, bias, order, mask, resets = inputs.branch, inputs.bias, inputs.order, inputs.mask, inputs.resets
    for item in range(first, last):
        b, low, n, start, end, offset = _item(plan, item)
        h, through = view(state, offset, n), view(product, offset, n)
        scratch = _scratch(borrowed(memory), plan.block, n)
        for k in range(start, end):
            t = plan.steps - 1 - k if plan.reverse else k
            if resets.size and resets[b * plan.steps + t]:
                copy(view(inputs.reset_state, low, n), h)
                clear(through)
            if mask.size == 0 or mask[b * plan.steps + t]:
                decay = _gate(inputs.x, bias, order[0], plan, b, t, low, n, scratch.x)
                drive = _gate(inputs.y, bias, order[1], plan, b, t, low, n, scratch.y)
                if branch != LINEAR:
                    z = _gate(inputs.z, bias, order[2], plan, b, t, low, n, scratch.z)
                    coefficients(branch, decay, drive, z, scratch.decay, scratch.drive)
                    decay, drive = scratch.decay, scratch.drive
                _step(decay, drive, h, scratch.output)
                for i in range(n):
                    through[i] *= decay[i]
    keep_alive(memory)
    restore_denormals(exactness)


@compiled(**FAST)
def compose_backward(
    first: int, last: int, plan: Plan, inputs: Inputs, grad: StridedView, states: StridedView, carry: Any, product: Any,
    squash: bool,
) -> None:  # fmt: skip
    """The same for the gradient, from that of the state after a chunk to that before it: product * gradient + carry."""
    exactness = flush_denormals()
    memory = np.zeros(14 * plan.block, carry.dtype)
    inputs, grad, states = _borrowed(inputs), borrowed_view(grad), borrowed_view(states)
    carry, product = borrowed(carry), borrowed(product)
    branch, bias, order, mask, resets = inputs.branch, inputs.bias, inputs.order, inputs.mask, inputs.resets
    for item in range(first, last):
        b, low, n, start, end, offset = _item(plan, item)
        delta, through = view(carry, offset, n), view(product, offset, n)
        scratch = _backward_scratch(borrowed(memory), plan.block, n)
        for k in range(end - 1, start - 1, -1):
            t = plan.steps - 1 - k if plan.reverse else k
            if mask.size == 0 or mask[b * plan.steps + t]:
                upstream = widened(row_of(grad, b, t, low, n), scratch.grad)
                _add_gradient(upstream, states, b, t, low, squash, delta, scratch.state)
                decay = _gate(inputs.x, bias, order[0], plan, b, t, low, n, scratch.x)
                if branch != LINEAR:
                    y = _gate(inputs.y, bias, order[1], plan, b, t, low, n, scratch.y)
                    z = _gate(inputs.z, bias, order[2], plan, b, t, low, n, scratch.z)
                    coefficients(branch, decay, y, z, scratch.decay, scratch.drive)
                    decay = scratch.decay
                for i in range(n):
                    delta[i] *= decay[i]
                    through[i] *= decay[i]
            if resets.size and resets[b * plan.steps + t]:
                clear(delta)
                clear(through)
    keep_alive(memory)
    restore_denormals(exactness)


@numba.njit(**INNER)
def _add_gradient(
    grad: Any, states: StridedView, b: int, t: int, low: int, squash: bool, delta: Any, scratch: Any
) -> None:
    """Add the gradient of an output to that of its state."""
    n = delta.size
    if squash:
        state = widened(row_of(states, b, t, low, n), scratch)
        for i in range(n):
            out = tanh(state[i])
            delta[i] += grad[i] * (ONE - out * out)
    else:
        for i in range(n):
            delta[i] += grad[i]


@compiled(**FAST)
def run_backward(
    first: int, last: int, plan: Plan, inputs: Inputs, grad: StridedView, states: StridedView, h0: Any, carry: Any,
    squash: bool, grad_x: StridedView, grad_y: StridedView, grad_z: StridedView, grad_bias: Any, grad_reset: Any,
) -> None:  # fmt: skip
    """Run each item's chunk backward from its `carry`, the gradient of its last state, and leave there the gradient of
    the state before it. `grad_bias` and `grad_reset` get the sums over the chunk.
    """
    exactness = flush_denormals()
    memory = np.zeros(14 * plan.block, carry.dtype)
    inputs, grad, states = _borrowed(inputs), borrowed_view(grad), borrowed_view(states)
    h0, carry = borrowed(h0), borrowed(carry)
    grad_x, grad_y, grad_z = borrowed_view(grad_x), borrowed_view(grad_y), borrowed_view(grad_z)
    grad_bias, grad_reset = borrowed(grad_bias), borrowed(grad_reset)
    branch, bias, order, mask, resets = inputs.branch, inputs.bias, inputs.order, inputs.mask, inputs.resets
    gates = bias.size // plan.channels
    for item in range(first, last):
        b, low, n, start, end, offset = _item(plan, item)
        delta, of_reset = view(carry, offset, n), view(grad_reset, offset, n)
        scratch = _backward_scratch(borrowed(memory), plan.block, n)
        for k in range(end - 1, start - 1, -1):
            t = plan.steps - 1 - k if plan.reverse else k
            before = t + 1 if plan.reverse else t - 1
            soon = _soon(plan, t, n, plan.reverse)
            _prefetch_gates(inputs, b, soon, low, n, plan.reverse)
            prefetch_row(grad, b, soon, low, n, plan.reverse)
            prefetch_row(states, b, soon, low, n, plan.reverse)
            _prefetch_gates_to_write(grad_x, grad_y, grad_z, b, soon, low, n, plan.reverse)
            reset = resets.size > 0 and resets[b * plan.steps + t]
            rows = row_of(grad_x, b, t, low, n), row_of(grad_y, b, t, low, n), row_of(grad_z, b, t, low, n)
            to = (
                writable(rows[0], scratch.grad_x), writable(rows[1], scratch.grad_y), writable(rows[2], scratch.grad_z)
            )  # fmt: skip
            if mask.size and not mask[b * plan.steps + t]:
                clear(to[0])
                clear(to[1])
                clear(to[2])
            else:
                if reset:
                    previous = view(inputs.reset_state, low, n)
                elif 0 <= before < plan.steps:
                    previous = widened(row_of(states, b, before, low, n), scratch.previous)
                else:
                    previous = view(h0, b * plan.channels + low, n)
                upstream = widened(row_of(grad, b, t, low, n), scratch.grad)
                _add_gradient(upstream, states, b, t, low, squash, delta, scratch.state)
                x = _gate(inputs.x, bias, order[0], plan, b, t, low, n, scratch.x)
                y = _gate(inputs.y, bias, order[1], plan, b, t, low, n, scratch.y)
                z = _gate(inputs.z, bias, order[2], plan, b, t, low, n, scratch.z)
                gradients(branch, x, y, z, previous, delta, to[0], to[1], to[2])
                for gate in range(gates):
                    _add(to[gate], scratch.grad_bias[gate])
            if gates and ((end - k) % SUMMED_ALONE == 0 or k == start):
                for gate in range(gates):
                    recent = scratch.grad_bias[gate]
                    _add(recent, view(grad_bias, (offset - low) * gates + order[gate] * plan.channels + low, n))
                    clear(recent)
            store(to[0], rows[0])
            store(to[1], rows[1])
            store(to[2], rows[2])
            if reset:
                for i in range(n):
                    of_reset[i] += delta[i]
                    delta[i] = ZERO
    keep_alive(memory)
    restore_denormals(exactness)


RUN = Kernel.of(run)
COMPOSE = Kernel.of(compose)
COMPOSE_BACKWARD = Kernel.of(compose_backward)
RUN_BACKWARD = Kernel.of(run_backward)
