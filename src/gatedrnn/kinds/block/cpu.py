"""The scan over small blocks, h_t = A_t h_(t-1) + b_t, its gradient, and a single step from the projections."""

import math
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from gatedrnn.equations import BlockKernel
from gatedrnn.kernels.cpu.compile import FAST, INLINED, compiled
from gatedrnn.kernels.cpu.functions import ONE, TWO, ZERO, exp, flush_denormals, restore_denormals
from gatedrnn.kernels.cpu.threads import Kernel, parallel_for, threads_for
from gatedrnn.kernels.cpu.views import LIKE, Array, at_address, borrowed, clear, copy, flags, flat, keep_alive, view
from gatedrnn.kinds.block.op import BlockInputs, BlockUpstream
from gatedrnn.shapes import Channels, Series, State, Step

NARROW = 16  # blocks of a work item at least, where the blocks of a sequence are shared out
ROTATION, REFLECTIONS = range(2)
SHORTEST = 1e-12  # of an axis: torch's normalize divides by no smaller length


def block_scan(inputs: BlockInputs) -> tuple[Series, State]:
    """All states and the last one; see `gatedrnn.ops.block_scan`."""
    transition, drive = inputs.transition.contiguous(), inputs.drive.contiguous()
    out = torch.empty_like(drive)
    state = out.new_zeros(len(out), out.shape[2]) if inputs.h0 is None else _contiguous_copy(inputs.h0)
    # `state` is a copy of h0: the kernel leaves the last state in it.
    _parallel_for(RUN, transition, inputs, drive, flags(inputs.resets), _reset_state(inputs), flat(state), flat(out))
    return out, state


def block_scan_gradient(upstream: BlockUpstream, inputs: BlockInputs) -> tuple[Tensor, Series, State, Channels]:
    """Gradients of transition, drive, h0 and reset_state."""
    transition, h = inputs.transition.contiguous(), upstream.h.contiguous()
    carry = _contiguous_copy(upstream.grad_last)
    start = torch.zeros_like(carry) if inputs.h0 is None else inputs.h0.contiguous()
    grad_transition, grad_drive = torch.empty_like(transition), torch.empty_like(h)
    # One row a sequence, summed in a fixed order afterwards: the result does not depend on the number of threads.
    grad_reset = torch.zeros_like(carry)
    _parallel_for(
        RUN_BACKWARD, transition, inputs, h, flat(upstream.grad_h.contiguous()), flags(inputs.resets),
        _reset_state(inputs), flat(start), flat(carry), flat(grad_transition), flat(grad_drive), flat(grad_reset),
    )  # fmt: skip
    return grad_transition, grad_drive, carry, grad_reset.sum(0)


def _contiguous_copy(state: State) -> State:
    return state.clone(memory_format=torch.contiguous_format)


def _reset_state(inputs: BlockInputs) -> np.ndarray:
    if inputs.reset_state is None:
        return flat(inputs.drive.new_zeros(inputs.drive.shape[2]))
    return flat(inputs.reset_state.contiguous())


def _parallel_for(kernel: Kernel, transition: Tensor, inputs: BlockInputs, series: Series, *others: object) -> None:
    """Run a kernel over all sequences and groups of blocks; the first arguments are the same in both directions."""
    batch, steps, size, _, blocks = transition.shape
    groups = _groups(transition)
    parallel_for(
        kernel, batch * groups, threads_for(transition.numel()), groups, steps, size, blocks, inputs.reverse,
        flat(transition), flat(series), *others,
    )  # fmt: skip


def _groups(transition: Tensor) -> int:
    """Into how many groups the blocks of a sequence are divided, where sequences are too few for the threads."""
    batch, blocks = transition.shape[0], transition.shape[4]
    return max(1, min(-(-torch.get_num_threads() // max(batch, 1)), blocks // NARROW))


@numba.njit(**INLINED)
def _add_block_product(matrix: Any, state: Any, out: Any, size: int, n: int, width: int) -> None:
    """out += A state, for n blocks; rows of `matrix` lie `width` apart."""
    for i in range(size):
        row = view(out, i * n, n)
        for j in range(size):
            entry, column = view(matrix, (i * size + j) * width, n), view(state, j * n, n)
            for m in range(n):
                row[m] += entry[m] * column[m]


@numba.njit(**INLINED)
def _read_group(series: Any, start: int, blocks: int, to: Any, size: int, n: int) -> None:
    """Copy n neighbouring blocks out of a row of so many, whose components lie `blocks` apart."""
    for i in range(size):
        copy(view(series, start + i * blocks, n), view(to, i * n, n))


@numba.njit(**INLINED)
def _write_group(group: Any, series: Any, start: int, blocks: int, size: int, n: int) -> None:
    """Copy n blocks back to where `_read_group` finds them."""
    for i in range(size):
        copy(view(group, i * n, n), view(series, start + i * blocks, n))


@compiled(**FAST)
def run(
    first: int, last: int, groups: int, steps: int, size: int, blocks: int, reverse: bool, transition: Array,
    drive: Array, resets: Array, reset_state: Array, state: Array, out: Array,
) -> None:  # fmt: skip
    """Run each item's blocks from its `state`, and leave the last state there."""
    # A decaying state ends in denormals, and an operation on one takes a hundred times as long.
    exactness = flush_denormals()
    channels = size * blocks
    memory = np.zeros(2 * channels, state.dtype)
    scratch = borrowed(memory)
    transition, drive, resets, reset_state = (
        borrowed(transition),
        borrowed(drive),
        borrowed(resets),
        borrowed(reset_state),
    )
    state, out = borrowed(state), borrowed(out)
    for item in range(first, last):
        b, group = item // groups, item % groups
        low, high = blocks * group // groups, blocks * (group + 1) // groups
        n = high - low
        before, after = view(scratch, 0, size * n), view(scratch, channels, size * n)
        _read_group(state, b * channels + low, blocks, before, size, n)
        for k in range(steps):
            t = steps - 1 - k if reverse else k
            offset = (b * steps + t) * channels + low
            if resets.size and resets[b * steps + t]:
                _read_group(reset_state, low, blocks, before, size, n)
            # `_add_block_product` adds to what it finds, so that the drive is put there first.
            _read_group(drive, offset, blocks, after, size, n)
            entries = (b * steps + t) * size * channels + low
            _add_block_product(view(transition, entries, size * channels), before, after, size, n, blocks)
            _write_group(after, out, offset, blocks, size, n)
            # Swapped, not copied: the state is read again at the next step alone.
            before, after = after, before
        _write_group(before, state, b * channels + low, blocks, size, n)
    keep_alive(memory)
    restore_denormals(exactness)


@compiled(**FAST)
def run_backward(
    first: int, last: int, groups: int, steps: int, size: int, blocks: int, reverse: bool, transition: Array,
    states: Array, grad: Array, resets: Array, reset_state: Array, start: Array, carry: Array,
    grad_transition: Array, grad_drive: Array, grad_reset: Array,
) -> None:  # fmt: skip
    """delta_t = grad_t + A_(t+1)^T delta_(t+1): the drive's gradient; delta_t h_(t-1)^T is that of A_t."""
    exactness = flush_denormals()
    channels = size * blocks
    memory = np.zeros(3 * channels, carry.dtype)
    scratch = borrowed(memory)
    transition, states, grad, resets = borrowed(transition), borrowed(states), borrowed(grad), borrowed(resets)
    reset_state, start, carry = borrowed(reset_state), borrowed(start), borrowed(carry)
    grad_transition, grad_drive, grad_reset = borrowed(grad_transition), borrowed(grad_drive), borrowed(grad_reset)
    for item in range(first, last):
        b, group = item // groups, item % groups
        low, high = blocks * group // groups, blocks * (group + 1) // groups
        n = high - low
        delta, through = view(scratch, 0, size * n), view(scratch, channels, size * n)
        _read_group(carry, b * channels + low, blocks, delta, size, n)
        for k in range(steps - 1, -1, -1):
            t = steps - 1 - k if reverse else k
            before = t + 1 if reverse else t - 1
            reset_here = resets.size > 0 and resets[b * steps + t]
            offset, entries = (b * steps + t) * channels + low, (b * steps + t) * size * channels + low
            clear(through)
            for i in range(size):
                d, upstream = view(delta, i * n, n), view(grad, offset + i * blocks, n)
                to = view(grad_drive, offset + i * blocks, n)
                for m in range(n):
                    d[m] += upstream[m]
                    to[m] = d[m]
            for j in range(size):
                if reset_here:
                    previous = view(reset_state, j * blocks + low, n)
                elif 0 <= before < steps:
                    previous = view(states, (b * steps + before) * channels + j * blocks + low, n)
                else:
                    previous = view(start, b * channels + j * blocks + low, n)
                on = view(through, j * n, n)
                for i in range(size):
                    d, entry = view(delta, i * n, n), view(transition, entries + (i * size + j) * blocks, n)
                    to = view(grad_transition, entries + (i * size + j) * blocks, n)
                    for m in range(n):
                        to[m] = d[m] * previous[m]
                        on[m] += d[m] * entry[m]
            if reset_here:
                for i in range(size):
                    to, on = view(grad_reset, b * channels + i * blocks + low, n), view(through, i * n, n)
                    for m in range(n):
                        to[m] += on[m]
                clear(delta)
            else:
                delta, through = through, delta
        _write_group(delta, carry, b * channels + low, blocks, size, n)
    keep_alive(memory)
    restore_denormals(exactness)


RUN = Kernel.of(run)
RUN_BACKWARD = Kernel.of(run_backward)


def block_step(
    kernel: BlockKernel, size: int, projected: Step, diagonals: Sequence[Channels], before: State, after: State,
    output: Step,
) -> None:  # fmt: skip
    """The next state from the projections of one step, written to `after` and to `output`.

    Args:
        size: channels of a block.
        projected: (batch, gates · channels), float32 or float64; it and the others are contiguous and of one dtype.
        diagonals: of the form "turn", (blocks,) each: the logarithms of minus the logarithm of the decay, of the angle
            and of what multiplies the projection.
        before, after, output: (batch, channels).
    """
    batch, channels = after.shape
    # Numba unpacks each array argument at every call: an array of addresses is unpacked once.
    addresses = [tensor.data_ptr() for tensor in (projected, before, after, output, *diagonals)]
    like, width = LIKE[after.dtype], projected.shape[1]
    if kernel.form == "turn":
        _step_turns(batch, channels, like, np.array(addresses, np.int64))
        return
    form = ROTATION if size == 2 else REFLECTIONS
    _step_blocks(form, size, batch, channels, width, like, np.array(addresses, np.int64))


@compiled(**FAST)
def _step_blocks(form: int, size: int, batch: int, channels: int, width: int, like: Any, addresses: Any) -> None:
    projected = at_address(like, addresses[0], batch * width)
    before, after = at_address(like, addresses[1], batch * channels), at_address(like, addresses[2], batch * channels)
    output = at_address(like, addresses[3], batch * channels)
    blocks = channels // size
    h = np.empty(size, like.dtype)
    for row in range(batch):
        start = row * width
        for n in range(blocks):
            for i in range(size):
                h[i] = before[row * channels + i * blocks + n]
            turns = start + 2 * channels + n
            if form == ROTATION:
                _rotate(projected[turns], projected[turns + blocks], h)
            else:
                # The last factor of the product of reflections meets h first.
                for i in range(size - 1, -1, -1):
                    _reflect(projected, turns + i * blocks, turns + (i + 1) * channels, blocks, h)
            for i in range(size):
                channel = i * blocks + n
                d = _between_0_and_1(projected[start + channels + channel])
                offset = row * channels + channel
                after[offset] = d * h[i] + (ONE - d) * projected[start + channel]
                output[offset] = after[offset]


@compiled(**FAST)
def _step_turns(batch: int, channels: int, like: Any, addresses: Any) -> None:
    """A decay and an angle a block, whatever the input."""
    blocks = channels // 2
    projected, before = (
        at_address(like, addresses[0], batch * channels),
        at_address(like, addresses[1], batch * channels),
    )
    after, output = at_address(like, addresses[2], batch * channels), at_address(like, addresses[3], batch * channels)
    decay, angle = at_address(like, addresses[4], blocks), at_address(like, addresses[5], blocks)
    scale = at_address(like, addresses[6], blocks)
    for n in range(blocks):
        # Once a block, not once a sequence: exp, cos and sin are the costly part of this step.
        radius, turn, factor = exp(-exp(decay[n])), exp(angle[n]), exp(scale[n])
        cos, sin = radius * math.cos(turn), radius * math.sin(turn)
        for row in range(batch):
            first, second = row * channels + n, row * channels + blocks + n
            x, y = before[first], before[second]
            after[first] = cos * x - sin * y + factor * projected[first]
            after[second] = sin * x + cos * y + factor * projected[second]
            output[first], output[second] = after[first], after[second]


@numba.njit(**INLINED)
def _rotate(angle: Any, mirror: Any, h: Any) -> None:
    """h turned by the angle, its second component mirrored first where the sign says so."""
    # A NaN is passed on: a comparison with it is false, and would hide it as a sign of -1.
    second = h[1] if mirror > ZERO else mirror if mirror != mirror else -h[1]
    cos, sin = math.cos(angle), math.sin(angle)
    h[0], h[1] = cos * h[0] - sin * second, sin * h[0] + cos * second


@numba.njit(**INLINED)
def _reflect(projected: Any, whether: int, axis: int, stride: int, h: Any) -> None:
    """h reflected along an axis, or left alone, by a sign; components of the axis lie `stride` apart."""
    sign = projected[whether]
    # In the dtype of h: a Python 0.0 would turn the sums of a float32 row into float64.
    squares = along = ZERO * h[0]
    for i in range(h.size):
        u = projected[axis + i * stride]
        squares += u * u
        along += u * h[i]
    length = max(math.sqrt(squares), h.dtype.type(SHORTEST))
    factor = (TWO * along / (length * length)) if sign > ZERO else sign if sign != sign else ZERO * squares
    for i in range(h.size):
        h[i] -= factor * projected[axis + i * stride]


@numba.njit(**INLINED)
def _between_0_and_1(x: Any) -> Any:
    """Clamp to 0 and 1 by comparisons, for min and max lose a NaN."""
    return ZERO if x < ZERO else ONE if x > ONE else x
