"""The scan h_t = a_t * h_(t-1) + b_t and its gradient as compiled loops over contiguous rows of channels (Numba).

Tensors come in through their memory, not their shape: a flat view and the strides of batch and time. LLVM vectorises
a loop over a 1-D slice, and does not over three indices. The kernels are serial and release the interpreter lock; the
work is cut into (sequence, channel block) items and shared out over a small pool of threads.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from gatedrnn.shapes import Channels, Flags, Series, State

BLOCK = 256  # channels of one work item: its state stays in the first-level cache
WORTH_A_THREAD = 1 << 15  # elements below which handing work to a thread costs more than it saves


@numba.njit(nogil=True, cache=True)
def _step(decay: Any, drive: Any, state: Any, out: Any) -> None:
    for i in range(state.size):
        h = decay[i] * state[i] + drive[i]
        state[i] = h
        out[i] = h


@numba.njit(nogil=True, cache=True)
def _step_back(grad: Any, decay: Any, previous: Any, carry: Any, grad_decay: Any, grad_drive: Any) -> None:
    for i in range(carry.size):
        delta = grad[i] + carry[i]
        grad_drive[i] = delta
        grad_decay[i] = delta * previous[i]
        carry[i] = delta * decay[i]


@numba.njit(nogil=True, cache=True)
def _scan_items(
    first: int, last: int, steps: int, channels: int, backwards: bool,
    decay: Any, decay_b: int, decay_t: int, drive: Any, drive_b: int, drive_t: int,
    resets: Any, reset_state: Any, state: Any, out: Any,
) -> None:  # fmt: skip
    blocks = (channels + BLOCK - 1) // BLOCK
    for item in range(first, last):
        b, low = item // blocks, item % blocks * BLOCK
        high = min(low + BLOCK, channels)
        n = high - low
        row = state[b * channels + low : b * channels + high]
        for k in range(steps):
            t = steps - 1 - k if backwards else k
            if resets.size and resets[b * steps + t]:
                row[:] = reset_state[low:high]
            p, q, o = b * decay_b + t * decay_t + low, b * drive_b + t * drive_t + low, (b * steps + t) * channels + low
            _step(decay[p : p + n], drive[q : q + n], row, out[o : o + n])


@numba.njit(nogil=True, cache=True)
def _gradient_items(
    first: int, last: int, steps: int, channels: int, backwards: bool,
    grad: Any, grad_b: int, grad_t: int, decay: Any, decay_b: int, decay_t: int, h: Any, h_b: int, h_t: int,
    h0: Any, resets: Any, reset_state: Any, carry: Any, grad_decay: Any, grad_drive: Any, grad_reset: Any,
) -> None:  # fmt: skip
    blocks = (channels + BLOCK - 1) // BLOCK
    for item in range(first, last):
        b, low = item // blocks, item % blocks * BLOCK
        high = min(low + BLOCK, channels)
        n = high - low
        row = carry[b * channels + low : b * channels + high]
        for k in range(steps):
            t = k if backwards else steps - 1 - k  # against the direction of the walk
            before = t + 1 if backwards else t - 1
            cut = resets.size and resets[b * steps + t]
            p, q, o = b * grad_b + t * grad_t + low, b * decay_b + t * decay_t + low, (b * steps + t) * channels + low
            if cut:
                previous = reset_state[low:high]
            elif 0 <= before < steps:
                s = b * h_b + before * h_t + low
                previous = h[s : s + n]
            else:
                previous = h0[b * channels + low : b * channels + high]
            _step_back(grad[p : p + n], decay[q : q + n], previous, row, grad_decay[o : o + n], grad_drive[o : o + n])
            if cut:
                into = grad_reset[b * channels + low : b * channels + high]
                for i in range(n):
                    into[i] += row[i]
                    row[i] = 0.0


def scan(
    decay: Series, drive: Series, h0: State, resets: Flags | None, reset_state: Channels | None, reverse: bool
) -> tuple[Series, State]:
    """All states and the last one. Everything in one floating dtype, float32 or float64."""
    batch, steps, channels = drive.shape
    out = torch.empty(batch, steps, channels, dtype=drive.dtype)
    state = h0.contiguous().clone()
    if drive.numel():
        _share_out(
            _scan_items, batch, steps, channels, reverse, *_memory(decay), *_memory(drive),
            _flags(resets), _row(reset_state, channels, drive.dtype), _flat(state), _flat(out),
        )  # fmt: skip
    return out, state


def scan_gradient(
    grad_h: Series, grad_last: State, decay: Series, h: Series, h0: State,
    resets: Flags | None, reset_state: Channels | None, reverse: bool,
) -> tuple[Series, Series, State, Channels]:  # fmt: skip
    """Gradients of decay, drive, h0 and reset_state, in one pass against the walk."""
    batch, steps, channels = h.shape
    grad_decay, grad_drive = (torch.empty(batch, steps, channels, dtype=h.dtype) for _ in range(2))
    carry = grad_last.contiguous().clone()
    # One row per sequence, summed in a fixed order afterwards: the result does not depend on the number of threads.
    grad_reset = torch.zeros(batch, channels, dtype=h.dtype)
    if h.numel():
        _share_out(
            _gradient_items, batch, steps, channels, reverse, *_memory(grad_h), *_memory(decay), *_memory(h),
            _flat(h0.contiguous()), _flags(resets), _row(reset_state, channels, h.dtype), _flat(carry),
            _flat(grad_decay), _flat(grad_drive), _flat(grad_reset),
        )  # fmt: skip
    return grad_decay, grad_drive, carry, grad_reset.sum(0)


def _share_out(kernel: Callable[..., None], batch: int, steps: int, channels: int, *arguments: Any) -> None:
    items = batch * -(-channels // BLOCK)
    threads = min(torch.get_num_threads(), items) if batch * steps * channels >= WORTH_A_THREAD else 1
    if threads == 1:
        kernel(0, items, steps, channels, *arguments)
        return
    edges = [items * i // threads for i in range(threads + 1)]
    pool = _pool(os.getpid(), threads)
    parts = [pool.submit(kernel, low, high, steps, channels, *arguments) for low, high in pairwise(edges)]
    for part in parts:
        part.result()


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """One pool per process and size: after a fork the parent's threads do not exist in the child."""
    return ThreadPoolExecutor(threads, thread_name_prefix="gatedrnn-scan")


def _memory(x: Series) -> tuple[np.ndarray, int, int]:
    """The tensor's own memory as a flat array, with the strides of batch and time; copied only if channels are apart.

    Strides of zero come in too: the backward of a sum hands over one number expanded to the whole shape.
    """
    if x.stride(2) != 1 and x.shape[2] > 1:
        x = x.contiguous()
    span = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    return x.detach().as_strided((span,), (1,)).numpy(), x.stride(0), x.stride(1)


def _flat(x: Tensor) -> np.ndarray:
    return x.detach().view(-1).numpy()


def _flags(resets: Flags | None) -> np.ndarray:
    return np.empty(0, np.bool_) if resets is None else _flat(resets.contiguous())


def _row(reset_state: Channels | None, channels: int, dtype: torch.dtype) -> np.ndarray:
    return _flat(torch.zeros(channels, dtype=dtype) if reset_state is None else reset_state.contiguous())
