"""The scan cells' gates, scan and output in one Triton kernel, and the gradient of all three in another.

Only projection and output have to be kept for the gradient: gates are computed again, and so are the states, into
memory that is freed again, where the output does not show them (it is their tanh, or 0 at a masked step).
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
# Triton's compiler reads annotations and knows only its own.

import torch
import triton
import triton.language as tl
from torch import Tensor

from gatedrnn.codegen.scan_tile import TileProgram
from gatedrnn.kernels.gpu._generated import parts_of
from gatedrnn.kernels.gpu._launch import HEAVY, LIGHT, divide_time, flags, launch, programs, strided, tuned
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
from gatedrnn.kernels.gpu.scan import empty_states, states_before_chunks
from gatedrnn.shapes import Channels, Flags, Series, State


@triton.jit
def _real(mask, sequence, t, steps, inside):
    """A column: whether there is a step, and one that the mask lets through."""
    if mask is not None:
        return flagged(mask, sequence, t, steps, inside)
    else:
        return inside[:, None]


@tuned(LIGHT)
@triton.jit(do_not_specialize=["steps", "chunk", "chunks", "crowd"])
def _gated_scan(
    projected, projected_b, projected_t, projected_c,
    bias, h0, mask, resets, reset_state, starts, output, products, end,
    steps, channels, chunk, chunks, crowd,
    CELL: tl.constexpr, COEFFICIENTS: tl.constexpr, OUTPUT: tl.constexpr,
    STATES: tl.constexpr, RESETS: tl.constexpr, REVERSE: tl.constexpr,
    TIME: tl.constexpr, CHANNELS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """COEFFICIENTS, OUTPUT: generated, see `triton_source`; OUTPUT is None where it is the state.
    STATES: write the states themselves, at masked steps too, instead of the layer's output."""
    sequence, chunk_index, channel = program(channels, chunks, CHANNELS)
    within = channel < channels
    state = state_before(h0, starts, sequence, chunk_index, chunks, channel, channels, end)
    product = tl.zeros_like(state) + 1.0
    reset_row = tl.zeros_like(state)
    if reset_state is not None:
        reset_row = tl.load(reset_state + channel, mask=within, other=0.0)
    projected += sequence * projected_b
    gate = tl.cast(channels, tl.int64) * projected_c
    low = chunk_index * chunk
    for start in tl.range(low, tl.minimum(low + chunk, steps), TIME, num_stages=STAGES):
        row = start + tl.arange(0, TIME)
        t = time_of(row, steps, REVERSE)
        inside = (row < steps)[:, None] & within[None, :]
        offset = offsets(t, projected_t, channel, projected_c)
        decay, drive = COEFFICIENTS(projected, offset, gate, inside, state, bias, channel, channels)
        real = _real(mask, sequence, t, steps, row < steps)
        a = tl.where(real, decay, 1.0)
        b = tl.where(real, drive, 0.0)
        if resets is not None:
            reset = flagged(resets, sequence, t, steps, row < steps)
            b = tl.where(reset, a * reset_row[None, :] + b, b)
            a = tl.where(reset, 0.0, a)
        a, b = scanned(a, b, RESETS)
        if products is not None:
            product, state = after_reset(product, state, last_row(a, TIME), last_row(b, TIME))
        else:
            states = applied(a, b, state, RESETS)
            state = last_row(states, TIME)
            if not STATES:
                if OUTPUT is not None:
                    states = OUTPUT(projected, offset, gate, inside, state, bias, channel, channels, states)
                if mask is not None:
                    states = tl.where(real, states, 0.0)
            tl.store(output + sequence * steps * channels + offsets(t, channels, channel, 1), states, mask=inside)
    store_end(products, product, end, state, sequence, chunk_index, chunks, channel, channels)


@tuned(HEAVY)
@triton.jit(do_not_specialize=["steps", "chunk", "chunks", "crowd"])
def _gated_scan_gradient(
    grad_output, grad_b, grad_t, grad_c,
    projected, projected_b, projected_t, projected_c,
    bias, grad_last, states, h0, mask, resets, reset_state, starts,
    grad_projected, grad_reset, products, end,
    steps, channels, chunk, chunks, crowd,
    GATES: tl.constexpr, CELL: tl.constexpr, COEFFICIENTS: tl.constexpr, OF_STATE: tl.constexpr,
    GRADIENT: tl.constexpr, RESETS: tl.constexpr, REVERSE: tl.constexpr,
    TIME: tl.constexpr, CHANNELS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """delta_t = grad_t + a_(t+1) delta_(t+1), as in the gradient of the bare scan, and from delta the projections'."""
    sequence, chunk_index, channel = program(channels, chunks, CHANNELS)
    within = channel < channels
    state = state_before(grad_last, starts, sequence, chunk_index, chunks, channel, channels, end)
    product = tl.zeros_like(state) + 1.0
    of_resets = tl.zeros_like(state)
    start_state = state_before(h0, None, sequence, chunk_index, chunks, channel, channels, end)
    reset_row = tl.zeros_like(state)
    if reset_state is not None:
        reset_row = tl.load(reset_state + channel, mask=within, other=0.0)
    grad_output += sequence * grad_b
    projected += sequence * projected_b
    states += sequence * steps * channels
    grad_projected += sequence * steps * channels * GATES
    gate = tl.cast(channels, tl.int64) * projected_c
    low = chunk_index * chunk
    for start in tl.range(low, tl.minimum(low + chunk, steps + 1), TIME, num_stages=STAGES):
        row = start + tl.arange(0, TIME)
        t = time_of(row, steps, REVERSE)
        later = time_of(row - 1, steps, REVERSE)
        inside = (row < steps)[:, None] & within[None, :]
        has_later = (row > 0) & (row <= steps)
        both = has_later[:, None] & within[None, :]
        offset = offsets(later, projected_t, channel, projected_c)
        decay, _ = COEFFICIENTS(projected, offset, gate, both, state, bias, channel, channels)
        a = tl.where(_real(mask, sequence, later, steps, has_later), decay, 1.0)
        if resets is not None:
            a = tl.where(flagged(resets, sequence, later, steps, has_later), 0.0, a)
        upstream = tl.load(grad_output + offsets(t, grad_t, channel, grad_c), mask=inside, other=0.0).to(state.dtype)
        real = _real(mask, sequence, t, steps, row < steps)
        offset = offsets(t, projected_t, channel, projected_c)
        after = tl.zeros_like(upstream)
        b = upstream
        if OF_STATE is not None:
            after = tl.load(states + offsets(t, channels, channel, 1), mask=inside, other=0.0).to(state.dtype)
            b = OF_STATE(projected, offset, gate, inside, state, bias, channel, channels, after, upstream)
        if mask is not None:
            b = tl.where(real, b, 0.0)
        a, b = scanned(a, b, RESETS)
        if products is not None:
            product, state = after_reset(product, state, last_row(a, TIME), last_row(b, TIME))
        else:
            delta = applied(a, b, state, RESETS)
            state = last_row(delta, TIME)
            before = time_of(row + 1, steps, REVERSE)
            known = (row + 1 < steps)[:, None] & within[None, :]
            previous = tl.load(states + offsets(before, channels, channel, 1), mask=known, other=0.0).to(state.dtype)
            previous = tl.where((row + 1 == steps)[:, None], start_state[None, :], previous)
            if resets is not None:
                reset = flagged(resets, sequence, t, steps, row < steps)
                decay, _ = COEFFICIENTS(projected, offset, gate, inside, state, bias, channel, channels)
                previous = tl.where(reset, reset_row[None, :], previous)
                of_resets += tl.sum(tl.where(reset, tl.where(real, decay, 1.0) * delta, 0.0), axis=0)
            here = grad_projected + offsets(t, channels * GATES, channel, 1)
            GRADIENT(
                projected, offset, gate, inside, state, bias, channel, channels, after, previous, delta, upstream,
                here, real, inside,
            )  # fmt: skip
    store_end(products, product, end, state, sequence, chunk_index, chunks, channel, channels)
    if grad_reset is not None:
        tl.store(grad_reset + (sequence * chunks + chunk_index) * channels + channel, of_resets, mask=within)


def gated_scan(
    cell: TileProgram, projected: Series, bias: Channels | None, h0: State | None, mask: Flags | None,
    resets: Flags | None, reset_state: Channels | None, reverse: bool, *, chunk: int | None = None,
) -> tuple[Series, State]:  # fmt: skip
    """A scan cell's outputs, contiguous in the dtype of `projected`, and its last state.

    Args:
        cell: its parts.
        projected: the input projections in the cell's order, (batch, time, gates * channels), any strides.
        bias: added to them, (gates * channels,) in the dtype of accumulation.
        h0: (batch, channels) in the dtype of accumulation; None is zeros.
        mask: (batch, time); where False the state stays as it was and the output is 0.
        resets: (batch, time); where True the state before the step is `reset_state`, at a masked step too.
        reset_state: (channels,) in the dtype of accumulation; None is zeros.
        reverse: run from the last step to the first.
        chunk: as in `divide_time`.
    """
    channels = projected.shape[2] // cell.gates
    output = projected.new_empty(*projected.shape[:2], channels)
    last = _run_forward(cell, projected, bias, h0, mask, resets, reset_state, reverse, chunk, output, states=False)
    return output, last


def _run_forward(
    cell: TileProgram, projected: Series, bias: Channels | None, h0: State | None, mask: Flags | None,
    resets: Flags | None, reset_state: Channels | None, reverse: bool, chunk: int | None, output: Tensor, states: bool,
) -> State:  # fmt: skip
    """Write the cell's outputs, or the states themselves, to `output`; returns the last state."""
    batch, steps, channels = output.shape
    last = empty_states(output, batch)
    if not output.numel():
        return last.zero_() if h0 is None else last.copy_(h0)
    parts = parts_of(cell)
    division = divide_time(batch, steps, channels, output.device, chunk)
    start_state, bias, reset_row = (None if x is None else x.contiguous() for x in (h0, bias, reset_state))
    real, reset_bytes = flags(mask), flags(resets)

    def run(starts: Tensor | None, products: Tensor | None, end: Tensor) -> None:
        launch(
            _gated_scan, programs(batch, division, channels), output, *strided(projected),
            bias, start_state if products is None else None, real, reset_bytes, reset_row, starts, output, products,
            end, steps, channels, *division, CELL=parts.key, COEFFICIENTS=parts.coefficients, OUTPUT=parts.output,
            STATES=states, RESETS=resets is not None, REVERSE=reverse,
        )  # fmt: skip

    run(states_before_chunks(run, division, start_state, last), None, last)
    return last


def gated_scan_gradient(
    cell: TileProgram, grad_output: Series, grad_last: State, projected: Series, bias: Channels | None,
    output: Series | None, h0: State | None, mask: Flags | None, resets: Flags | None, reset_state: Channels | None,
    reverse: bool, *, chunk: int | None = None,
) -> tuple[Series, Channels, State, Channels]:  # fmt: skip
    """Gradients of the projections, contiguous in their dtype and 0 at masked steps, of bias, and of h0 and
    reset_state, as they are summed up.

    Args:
        grad_output: any strides. The others as passed to or returned by `gated_scan`.
        output: None where it does not show the states, which are then computed again.
        chunk: as in `divide_time`, of one step more than there are.
    """
    batch, steps, channels = grad_output.shape
    parts = parts_of(cell)
    grad_projected = torch.empty(projected.shape, dtype=projected.dtype, device=projected.device)
    grad_h0 = empty_states(grad_output, batch)
    if not grad_output.numel():
        return grad_projected, _grad_bias(grad_projected, bias), grad_h0.copy_(grad_last), grad_h0.new_zeros(channels)
    if output is not None:
        states = output.contiguous()
    else:
        states = empty_states(grad_output, batch, steps)
        _run_forward(cell, projected, bias, h0, mask, resets, reset_state, reverse, chunk, states, states=True)
    division = divide_time(batch, steps + 1, channels, grad_output.device, chunk)
    upstream, real, reset_bytes = grad_last.contiguous(), flags(mask), flags(resets)
    start_state, bias, reset_row = (None if x is None else x.contiguous() for x in (h0, bias, reset_state))
    # One row per program, summed in a fixed order afterwards.
    grad_reset = None if reset_state is None or resets is None else empty_states(grad_output, batch, division.chunks)

    def run(starts: Tensor | None, products: Tensor | None, end: Tensor) -> None:
        launch(
            _gated_scan_gradient, programs(batch, division, channels), projected, *strided(grad_output, projected),
            bias, upstream if products is None else None, states, start_state, real, reset_bytes, reset_row, starts,
            grad_projected, grad_reset if products is None else None, products, end,
            steps, channels, *division, GATES=cell.gates, CELL=parts.key, COEFFICIENTS=parts.coefficients,
            OF_STATE=parts.of_state, GRADIENT=parts.gradient, RESETS=resets is not None, REVERSE=not reverse,
        )  # fmt: skip

    run(states_before_chunks(run, division, upstream, grad_h0), None, grad_h0)
    grad_reset_state = grad_h0.new_zeros(channels) if grad_reset is None else grad_reset.sum((0, 1))
    return grad_projected, _grad_bias(grad_projected, bias), grad_h0, grad_reset_state


def _grad_bias(grad_projected: Series, bias: Channels | None) -> Channels:
    if bias is None:
        return grad_projected.new_empty(0)
    return grad_projected.sum((0, 1), dtype=bias.dtype)
