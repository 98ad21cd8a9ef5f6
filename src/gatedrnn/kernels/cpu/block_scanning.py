"""The scan over small blocks, h_t = A_t h_(t-1) + b_t, and its gradient, shared out over sequences and blocks."""

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from gatedrnn.kernels.cpu.compiling import compiled
from gatedrnn.kernels.cpu.denormals import flush_denormals, restore_denormals
from gatedrnn.kernels.cpu.memory import flags, flat
from gatedrnn.kernels.cpu.numbers import FAST, INLINED, borrowed, clear, copy, keep_alive, part
from gatedrnn.kernels.cpu.threads import Kernel, share_out, threads_for
from gatedrnn.shapes import Channels, Flags, Series, State

NARROW = 16  # blocks of a work item at least, where those of a sequence are shared out


def block_scan(
    transition: Tensor, drive: Series, h0: State | None, resets: Flags | None, reset_state: Channels | None,
    reverse: bool,
) -> tuple[Series, State]:  # fmt: skip
    """All states and the last one; see `gatedrnn.ops.block_scan`."""
    batch, steps, size, _, blocks = transition.shape
    state = drive.new_zeros(batch, size * blocks) if h0 is None else h0.clone(memory_format=torch.contiguous_format)
    out, cuts, threads = torch.empty(drive.shape, dtype=drive.dtype), _cuts(transition), _threads(transition)
    onset = drive.new_zeros(size * blocks) if reset_state is None else reset_state
    share_out(
        WALK_BLOCKS, batch * cuts, threads, cuts, steps, size, blocks, reverse, flat(transition.contiguous()),
        flat(drive.contiguous()), flags(resets), flat(onset.contiguous()), flat(state), flat(out),
    )  # fmt: skip
    return out, state


def block_scan_gradient(
    grad_h: Series, grad_last: State, transition: Tensor, h: Series, h0: State | None, resets: Flags | None,
    reset_state: Channels | None, reverse: bool,
) -> tuple[Tensor, Series, State, Channels]:  # fmt: skip
    """Gradients of transition, drive, h0 and reset_state."""
    batch, steps, size, _, blocks = transition.shape
    carry = grad_last.clone(memory_format=torch.contiguous_format)
    cuts, threads = _cuts(transition), _threads(transition)
    start = torch.zeros_like(carry) if h0 is None else h0
    onset = h.new_zeros(size * blocks) if reset_state is None else reset_state
    grad_transition, grad_drive = (torch.empty(x.shape, dtype=x.dtype) for x in (transition, h))
    # One row a sequence, summed in a fixed order afterwards: the result does not depend on the number of threads.
    grad_reset = torch.zeros_like(carry)
    share_out(
        WALK_BLOCKS_BACK, batch * cuts, threads, cuts, steps, size, blocks, reverse, flat(transition.contiguous()),
        flat(h.contiguous()), flat(grad_h.contiguous()), flags(resets), flat(onset.contiguous()),
        flat(start.contiguous()), flat(carry), flat(grad_transition), flat(grad_drive), flat(grad_reset),
    )  # fmt: skip
    return grad_transition, grad_drive, carry, grad_reset.sum(0)


def _cuts(transition: Tensor) -> int:
    """Parts into which the blocks of a sequence are cut, where sequences are too few for the threads."""
    batch, blocks = transition.shape[0], transition.shape[4]
    return max(1, min(-(-torch.get_num_threads() // max(batch, 1)), blocks // NARROW))


def _threads(transition: Tensor) -> int:
    return threads_for(transition.numel())


@numba.njit(**INLINED)
def _times(matrix: Any, state: Any, out: Any, size: int, n: int, width: int) -> None:
    """out += A state, for n blocks; rows of `matrix` lie `width` apart."""
    for i in range(size):
        row = part(out, i * n, n)
        for j in range(size):
            entry, column = part(matrix, (i * size + j) * width, n), part(state, j * n, n)
            for m in range(n):
                row[m] += entry[m] * column[m]


@compiled(**FAST)
def walk_blocks(
    first: int, last: int, cuts: int, steps: int, size: int, blocks: int, backwards: bool, transition: Any, drive: Any,
    resets: Any, onset: Any, state: Any, out: Any,
) -> None:  # fmt: skip
    """Walk each item's blocks from its `state`, and leave there the last one."""
    exactness = flush_denormals()
    channels = size * blocks
    kept = np.zeros(2 * channels, state.dtype)
    room = borrowed(kept)
    transition, drive, resets, onset = borrowed(transition), borrowed(drive), borrowed(resets), borrowed(onset)
    state, out = borrowed(state), borrowed(out)
    for item in range(first, last):
        b, cut = item // cuts, item % cuts
        low, high = blocks * cut // cuts, blocks * (cut + 1) // cuts
        n = high - low
        before, after = part(room, 0, size * n), part(room, channels, size * n)
        for i in range(size):
            copy(part(state, b * channels + i * blocks + low, n), part(before, i * n, n))
        for k in range(steps):
            t = steps - 1 - k if backwards else k
            place = (b * steps + t) * channels + low
            if resets.size and resets[b * steps + t]:
                for i in range(size):
                    copy(part(onset, i * blocks + low, n), part(before, i * n, n))
            for i in range(size):
                copy(part(drive, place + i * blocks, n), part(after, i * n, n))
            entries = (b * steps + t) * size * channels + low
            _times(part(transition, entries, size * channels), before, after, size, n, blocks)
            for i in range(size):
                copy(part(after, i * n, n), part(out, place + i * blocks, n))
            before, after = after, before
        for i in range(size):
            copy(part(before, i * n, n), part(state, b * channels + i * blocks + low, n))
    keep_alive(kept)
    restore_denormals(exactness)


@compiled(**FAST)
def walk_blocks_back(
    first: int, last: int, cuts: int, steps: int, size: int, blocks: int, backwards: bool, transition: Any, states: Any,
    grad: Any, resets: Any, onset: Any, start: Any, carry: Any, grad_transition: Any, grad_drive: Any, grad_reset: Any,
) -> None:  # fmt: skip
    """delta_t = grad_t + A_(t+1)^T delta_(t+1): the drive's gradient; delta_t h_(t-1)^T is that of A_t."""
    exactness = flush_denormals()
    channels = size * blocks
    kept = np.zeros(3 * channels, carry.dtype)
    room = borrowed(kept)
    transition, states, grad, resets = borrowed(transition), borrowed(states), borrowed(grad), borrowed(resets)
    onset, start, carry = borrowed(onset), borrowed(start), borrowed(carry)
    grad_transition, grad_drive, grad_reset = borrowed(grad_transition), borrowed(grad_drive), borrowed(grad_reset)
    for item in range(first, last):
        b, cut = item // cuts, item % cuts
        low, high = blocks * cut // cuts, blocks * (cut + 1) // cuts
        n = high - low
        delta, through = part(room, 0, size * n), part(room, channels, size * n)
        for i in range(size):
            copy(part(carry, b * channels + i * blocks + low, n), part(delta, i * n, n))
        for k in range(steps - 1, -1, -1):
            t = steps - 1 - k if backwards else k
            before = t + 1 if backwards else t - 1
            cut_here = resets.size > 0 and resets[b * steps + t]
            place, entries = (b * steps + t) * channels + low, (b * steps + t) * size * channels + low
            clear(through)
            for i in range(size):
                d, upward = part(delta, i * n, n), part(grad, place + i * blocks, n)
                into = part(grad_drive, place + i * blocks, n)
                for m in range(n):
                    d[m] += upward[m]
                    into[m] = d[m]
            for j in range(size):
                if cut_here:
                    previous = part(onset, j * blocks + low, n)
                elif 0 <= before < steps:
                    previous = part(states, (b * steps + before) * channels + j * blocks + low, n)
                else:
                    previous = part(start, b * channels + j * blocks + low, n)
                on = part(through, j * n, n)
                for i in range(size):
                    d, entry = part(delta, i * n, n), part(transition, entries + (i * size + j) * blocks, n)
                    into = part(grad_transition, entries + (i * size + j) * blocks, n)
                    for m in range(n):
                        into[m] = d[m] * previous[m]
                        on[m] += d[m] * entry[m]
            if cut_here:
                for i in range(size):
                    into, on = part(grad_reset, b * channels + i * blocks + low, n), part(through, i * n, n)
                    for m in range(n):
                        into[m] += on[m]
                clear(delta)
            else:
                delta, through = through, delta
        for i in range(size):
            copy(part(delta, i * n, n), part(carry, b * channels + i * blocks + low, n))
    keep_alive(kept)
    restore_denormals(exactness)


WALK_BLOCKS = Kernel.of(walk_blocks)
WALK_BLOCKS_BACK = Kernel.of(walk_blocks_back)
