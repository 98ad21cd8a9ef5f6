"""The bare scan h_t = a_t * h_(t-1) + b_t and its gradient as Triton kernels, coalesced over channels.

A program loads a tile of steps at once, scans it along time, applies the state it carries and continues with the next
tile. Where sequences and channels do not fill the device, time is divided into chunks and run twice: first for the map
of each chunk from the state before it to the state after it, then, from the state before each chunk, for all states.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
# Triton's compiler reads annotations and knows only its own.

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor

from gatedrnn.kernels.gpu._launch import (
    CHUNK_MULTIPLE,
    LIGHT,
    Division,
    divide_time,
    flags,
    launch,
    programs,
    strided,
    tuned,
)
from gatedrnn.kernels.gpu._tile import (
    after_reset,
    applied,
    flagged,
    last_row,
    offsets,
    program,
    scanned,
    state_before,
    store_end,
    time_of,
)
from gatedrnn.shapes import Channels, Flags, Series, State


@tuned(LIGHT)
@triton.jit(do_not_specialize=["steps", "chunk", "chunks", "crowd"])
def _scan(
    decay, decay_b, decay_t, decay_c, drive, drive_b, drive_t, drive_c,
    h0, resets, reset_state, starts, h, products, end,
    steps, channels, chunk, chunks, crowd,
    RESETS: tl.constexpr, REVERSE: tl.constexpr, TIME: tl.constexpr, CHANNELS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    sequence, chunk_index, channel = program(channels, chunks, CHANNELS)
    within = channel < channels
    state = state_before(h0, starts, sequence, chunk_index, chunks, channel, channels, end)
    product = tl.zeros_like(state) + 1.0
    reset_row = tl.zeros_like(state)
    if reset_state is not None:
        reset_row = tl.load(reset_state + channel, mask=within, other=0.0)
    decay += sequence * decay_b
    drive += sequence * drive_b
    low = chunk_index * chunk
    for start in tl.range(low, tl.minimum(low + chunk, steps), TIME, num_stages=STAGES):
        row = start + tl.arange(0, TIME)
        t = time_of(row, steps, REVERSE)
        inside = (row < steps)[:, None] & within[None, :]
        a = tl.load(decay + offsets(t, decay_t, channel, decay_c), mask=inside, other=1.0).to(state.dtype)
        b = tl.load(drive + offsets(t, drive_t, channel, drive_c), mask=inside, other=0.0).to(state.dtype)
        if resets is not None:
            reset = flagged(resets, sequence, t, steps, row < steps)
            b = tl.where(reset, a * reset_row[None, :] + b, b)
            a = tl.where(reset, 0.0, a)
        a, b = scanned(a, b, RESETS)
        if products is not None:
            product, state = after_reset(product, state, last_row(a, TIME), last_row(b, TIME))
        else:
            states = applied(a, b, state, RESETS)
            tl.store(h + sequence * steps * channels + offsets(t, channels, channel, 1), states, mask=inside)
            state = last_row(states, TIME)
    store_end(products, product, end, state, sequence, chunk_index, chunks, channel, channels)


@tuned(LIGHT)
@triton.jit(do_not_specialize=["steps", "chunk", "chunks", "crowd"])
def _scan_gradient(
    grad_h, grad_b, grad_t, grad_c, decay, decay_b, decay_t, decay_c,
    grad_last, h, h0, resets, reset_state, starts,
    grad_decay, grad_drive, grad_reset, products, end,
    steps, channels, chunk, chunks, crowd,
    RESETS: tl.constexpr, REVERSE: tl.constexpr, TIME: tl.constexpr, CHANNELS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """delta_t = grad_t + a_(t+1) delta_(t+1), opposite to the forward: REVERSE is that of the backward.

    Row r reads the decay of row r - 1; one row more than there are steps, without a gradient of its own, therefore ends
    with the gradient of h0.
    """
    sequence, chunk_index, channel = program(channels, chunks, CHANNELS)
    within = channel < channels
    state = state_before(grad_last, starts, sequence, chunk_index, chunks, channel, channels, end)
    product = tl.zeros_like(state) + 1.0
    of_resets = tl.zeros_like(state)
    start_state = state_before(h0, None, sequence, chunk_index, chunks, channel, channels, end)
    reset_row = tl.zeros_like(state)
    if reset_state is not None:
        reset_row = tl.load(reset_state + channel, mask=within, other=0.0)
    grad_h += sequence * grad_b
    decay += sequence * decay_b
    whole = sequence * steps * channels
    low = chunk_index * chunk
    for start in tl.range(low, tl.minimum(low + chunk, steps + 1), TIME, num_stages=STAGES):
        row = start + tl.arange(0, TIME)
        t = time_of(row, steps, REVERSE)
        later = time_of(row - 1, steps, REVERSE)
        inside = (row < steps)[:, None] & within[None, :]
        has_later = (row > 0) & (row <= steps)
        both = has_later[:, None] & within[None, :]
        a = tl.load(decay + offsets(later, decay_t, channel, decay_c), mask=both, other=1.0).to(state.dtype)
        b = tl.load(grad_h + offsets(t, grad_t, channel, grad_c), mask=inside, other=0.0).to(state.dtype)
        if resets is not None:
            a = tl.where(flagged(resets, sequence, later, steps, has_later), 0.0, a)
        a, b = scanned(a, b, RESETS)
        if products is not None:
            product, state = after_reset(product, state, last_row(a, TIME), last_row(b, TIME))
        else:
            delta = applied(a, b, state, RESETS)
            before = time_of(row + 1, steps, REVERSE)
            known = (row + 1 < steps)[:, None] & within[None, :]
            previous = tl.load(h + whole + offsets(before, channels, channel, 1), mask=known, other=0.0).to(state.dtype)
            previous = tl.where((row + 1 == steps)[:, None], start_state[None, :], previous)
            if resets is not None:
                reset = flagged(resets, sequence, t, steps, row < steps)
                previous = tl.where(reset, reset_row[None, :], previous)
                at_reset = tl.load(decay + offsets(t, decay_t, channel, decay_c), mask=inside & reset, other=0.0)
                of_resets += tl.sum(tl.where(reset, at_reset.to(state.dtype) * delta, 0.0), axis=0)
            here = whole + offsets(t, channels, channel, 1)
            tl.store(grad_decay + here, delta * previous, mask=inside)
            tl.store(grad_drive + here, delta, mask=inside)
            state = last_row(delta, TIME)
    store_end(products, product, end, state, sequence, chunk_index, chunks, channel, channels)
    if grad_reset is not None:
        tl.store(grad_reset + (sequence * chunks + chunk_index) * channels + channel, of_resets, mask=within)


def scan(
    decay: Series, drive: Series, h0: State | None, resets: Flags | None, reset_state: Channels | None,
    reverse: bool, *, chunk: int | None = None,
) -> tuple[Series, State]:  # fmt: skip
    """All states in the dtype of `drive`, contiguous, and the last one in the dtype of accumulation.

    Args:
        decay, drive: one dtype, any strides. `h0` and `reset_state` are in the dtype of accumulation; None is zeros.
        chunk: as in `divide_time`.
    """
    batch, steps, channels = drive.shape
    h = torch.empty(batch, steps, channels, dtype=drive.dtype, device=drive.device)
    last = empty_states(drive, batch)
    if not drive.numel():
        return h, last.zero_() if h0 is None else last.copy_(h0)
    division = divide_time(batch, steps, channels, drive.device, chunk)
    start, reset_row = (None if x is None else x.contiguous() for x in (h0, reset_state))
    reset_bytes = flags(resets)

    def run(starts: Tensor | None, products: Tensor | None, end: Tensor) -> None:
        launch(
            _scan, programs(batch, division, channels), drive, *strided(decay, drive),
            start if products is None else None, reset_bytes, reset_row, starts, h, products, end,
            steps, channels, *division, RESETS=resets is not None, REVERSE=reverse,
        )  # fmt: skip

    run(states_before_chunks(run, division, start, last), None, last)
    return h, last


def scan_gradient(
    grad_h: Series, grad_last: State, decay: Series, h: Series, h0: State | None,
    resets: Flags | None, reset_state: Channels | None, reverse: bool, *, chunk: int | None = None,
) -> tuple[Series, Series, State, Channels]:  # fmt: skip
    """Gradients of decay and drive in the dtype of `decay`, of h0 and reset_state in the dtype of accumulation.

    Args:
        grad_h, decay: any strides. `h`, `h0`, `resets`, `reset_state`, `reverse` as passed to or returned by `scan`.
        chunk: as in `divide_time`, of one step more than there are.
    """
    batch, steps, channels = h.shape
    grad_decay, grad_drive = (torch.empty(h.shape, dtype=decay.dtype, device=h.device) for _ in range(2))
    grad_h0 = empty_states(h, batch)
    if not h.numel():
        return grad_decay, grad_drive, grad_h0.copy_(grad_last), grad_h0.new_zeros(channels)
    division = divide_time(batch, steps + 1, channels, h.device, chunk)
    start, reset_row = (None if x is None else x.contiguous() for x in (h0, reset_state))
    # One row per program, summed in a fixed order afterwards.
    grad_reset = None if resets is None else empty_states(h, batch, division.chunks)
    upstream, states, reset_bytes = grad_last.contiguous(), h.contiguous(), flags(resets)

    def run(starts: Tensor | None, products: Tensor | None, end: Tensor) -> None:
        launch(
            _scan_gradient, programs(batch, division, channels), h, *strided(grad_h, decay),
            upstream if products is None else None, states, start, reset_bytes, reset_row, starts,
            grad_decay, grad_drive, grad_reset if products is None else None, products, end,
            steps, channels, *division, RESETS=resets is not None, REVERSE=not reverse,
        )  # fmt: skip

    run(states_before_chunks(run, division, upstream, grad_h0), None, grad_h0)
    grad_reset_state = grad_h0.new_zeros(channels) if grad_reset is None else grad_reset.sum((0, 1))
    return grad_decay, grad_drive, grad_h0, grad_reset_state


def empty_states(like: Series, *sizes: int) -> Tensor:
    """Memory for states (*sizes, channels) in the dtype of accumulation: float64 for float64, else float32."""
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    return torch.empty(*sizes, like.shape[2], dtype=dtype, device=like.device)


def states_before_chunks(
    run: Callable[[Tensor | None, Tensor | None, Tensor], None], division: Division, start: State | None, like: State
) -> Tensor | None:
    """The state at the end of each chunk, composed from what `run` returns for each; None if there is one chunk."""
    if division.chunks == 1:
        return None
    batch, channels = like.shape
    products, ends = (like.new_empty(batch, division.chunks, channels) for _ in range(2))
    run(None, products, ends)
    states, last = torch.empty_like(ends), torch.empty_like(like)
    whole = divide_time(
        batch, division.chunks, channels, like.device, CHUNK_MULTIPLE * triton.cdiv(division.chunks, CHUNK_MULTIPLE)
    )
    # Many decays multiplied may overflow, where the states between them need not.
    launch(
        _scan, programs(batch, whole, channels), like, *strided(products, ends), start, None, None, None,
        states, None, last, division.chunks, channels, *whole, RESETS=True, REVERSE=False,
    )  # fmt: skip
    return states
