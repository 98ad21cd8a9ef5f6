"""The scan cells' gates, scan and output in one Triton kernel, and the gradient of all three in another.

Only projection and output have to be kept for the gradient: gates are computed again, and so are the states, into
memory that is given back, where the output does not show them (it is their tanh, or 0 at a masked step).
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
# Triton's compiler reads annotations and knows only its own.

import torch
import triton
import triton.language as tl
from torch import Tensor

from gatedrnn.equations import ScanKernel
from gatedrnn.kernels.gpu.gates import (
    activated,
    keep_and_take,
    tanh,
    through_activation,
    through_gates,
)
from gatedrnn.kernels.gpu.launch import HEAVY, LIGHT, cut_time, flags, launch, programs, strided, tuned
from gatedrnn.kernels.gpu.scanning import empty_states, states_before_chunks
from gatedrnn.kernels.gpu.tile import (
    after_cut,
    applied,
    flagged,
    last_row,
    offsets,
    place,
    scanned,
    state_before,
    store_end,
    time_of,
)
from gatedrnn.shapes import Channels, Flags, Series, State


@triton.jit
def _gate(projected, offset, index: tl.constexpr, gate, inside, like, bias, channel, channels):
    """A tile of one projection, in the dtype of `like`; `gate` is the way from one projection to the next."""
    tile = tl.load(projected + index * gate + offset, mask=inside, other=0.0).to(like.dtype)
    if bias is not None:
        tile += tl.load(bias + index * channels + channel, mask=channel < channels, other=0.0)[None, :]
    return tile


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
    DECAY: tl.constexpr, ACTIVATION: tl.constexpr, CANDIDATE: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr,
    SQUASH: tl.constexpr, STATES: tl.constexpr, CUTS: tl.constexpr, REVERSE: tl.constexpr,
    TIME: tl.constexpr, CHANNELS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """STATES: write the states themselves, at masked steps too, instead of what the layer hands on."""
    sequence, part, channel = place(channels, chunks, CHANNELS)
    within = channel < channels
    state = state_before(h0, starts, sequence, part, chunks, channel, channels, end)
    product = tl.zeros_like(state) + 1.0
    onset = tl.zeros_like(state)
    if reset_state is not None:
        onset = tl.load(reset_state + channel, mask=within, other=0.0)
    projected += sequence * projected_b
    gate = tl.cast(channels, tl.int64) * projected_c
    low = part * chunk
    for start in tl.range(low, tl.minimum(low + chunk, steps), TIME, num_stages=STAGES):
        row = start + tl.arange(0, TIME)
        t = time_of(row, steps, REVERSE)
        inside = (row < steps)[:, None] & within[None, :]
        offset = offsets(t, projected_t, channel, projected_c)
        candidate = _gate(projected, offset, CANDIDATE, gate, inside, state, bias, channel, channels)
        first = _gate(projected, offset, FIRST, gate, inside, state, bias, channel, channels)
        second = first
        if SECOND != FIRST:
            second = _gate(projected, offset, SECOND, gate, inside, state, bias, channel, channels)
        keep, take = keep_and_take(first, second, DECAY)
        real = _real(mask, sequence, t, steps, row < steps)
        a = tl.where(real, keep, 1.0)
        b = tl.where(real, take * activated(candidate, ACTIVATION), 0.0)
        if resets is not None:
            cut = flagged(resets, sequence, t, steps, row < steps)
            b = tl.where(cut, a * onset[None, :] + b, b)
            a = tl.where(cut, 0.0, a)
        a, b = scanned(a, b, CUTS)
        if products is not None:
            product, state = after_cut(product, state, last_row(a, TIME), last_row(b, TIME))
        else:
            states = applied(a, b, state, CUTS)
            state = last_row(states, TIME)
            if not STATES:
                if SQUASH:
                    states = tanh(states)
                if mask is not None:
                    states = tl.where(real, states, 0.0)
            tl.store(output + sequence * steps * channels + offsets(t, channels, channel, 1), states, mask=inside)
    store_end(products, product, end, state, sequence, part, chunks, channel, channels)


@tuned(HEAVY)
@triton.jit(do_not_specialize=["steps", "chunk", "chunks", "crowd"])
def _gated_scan_gradient(
    grad_output, grad_b, grad_t, grad_c,
    projected, projected_b, projected_t, projected_c,
    bias, grad_last, states, h0, mask, resets, reset_state, starts,
    grad_projected, grad_reset, products, end,
    steps, channels, chunk, chunks, crowd,
    GATES: tl.constexpr, DECAY: tl.constexpr, ACTIVATION: tl.constexpr, CANDIDATE: tl.constexpr, FIRST: tl.constexpr,
    SECOND: tl.constexpr, SQUASH: tl.constexpr, CUTS: tl.constexpr, REVERSE: tl.constexpr,
    TIME: tl.constexpr, CHANNELS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """delta_t = grad_t + a_(t+1) delta_(t+1), as in the gradient of the bare scan, and from delta the projections'."""
    sequence, part, channel = place(channels, chunks, CHANNELS)
    within = channel < channels
    state = state_before(grad_last, starts, sequence, part, chunks, channel, channels, end)
    product = tl.zeros_like(state) + 1.0
    into_resets = tl.zeros_like(state)
    beginning = state_before(h0, None, sequence, part, chunks, channel, channels, end)
    onset = tl.zeros_like(state)
    if reset_state is not None:
        onset = tl.load(reset_state + channel, mask=within, other=0.0)
    grad_output += sequence * grad_b
    projected += sequence * projected_b
    states += sequence * steps * channels
    grad_projected += sequence * steps * channels * GATES
    gate = tl.cast(channels, tl.int64) * projected_c
    low = part * chunk
    for start in tl.range(low, tl.minimum(low + chunk, steps + 1), TIME, num_stages=STAGES):
        row = start + tl.arange(0, TIME)
        t = time_of(row, steps, REVERSE)
        later = time_of(row - 1, steps, REVERSE)
        inside = (row < steps)[:, None] & within[None, :]
        has_later = (row > 0) & (row <= steps)
        both = has_later[:, None] & within[None, :]
        offset = offsets(later, projected_t, channel, projected_c)
        first = _gate(projected, offset, FIRST, gate, both, state, bias, channel, channels)
        second = first
        if DECAY == "share":
            second = _gate(projected, offset, SECOND, gate, both, state, bias, channel, channels)
        keep, _ = keep_and_take(first, second, DECAY)
        a = tl.where(_real(mask, sequence, later, steps, has_later), keep, 1.0)
        if resets is not None:
            a = tl.where(flagged(resets, sequence, later, steps, has_later), 0.0, a)
        b = tl.load(grad_output + offsets(t, grad_t, channel, grad_c), mask=inside, other=0.0).to(state.dtype)
        if SQUASH:
            squashed = tanh(tl.load(states + offsets(t, channels, channel, 1), mask=inside, other=0.0).to(state.dtype))
            b *= 1.0 - squashed * squashed
        real = _real(mask, sequence, t, steps, row < steps)
        if mask is not None:
            b = tl.where(real, b, 0.0)
        a, b = scanned(a, b, CUTS)
        if products is not None:
            product, state = after_cut(product, state, last_row(a, TIME), last_row(b, TIME))
        else:
            delta = applied(a, b, state, CUTS)
            state = last_row(delta, TIME)
            before = time_of(row + 1, steps, REVERSE)
            known = (row + 1 < steps)[:, None] & within[None, :]
            previous = tl.load(states + offsets(before, channels, channel, 1), mask=known, other=0.0).to(state.dtype)
            previous = tl.where((row + 1 == steps)[:, None], beginning[None, :], previous)
            offset = offsets(t, projected_t, channel, projected_c)
            candidate = _gate(projected, offset, CANDIDATE, gate, inside, state, bias, channel, channels)
            first = _gate(projected, offset, FIRST, gate, inside, state, bias, channel, channels)
            second = first
            if SECOND != FIRST:
                second = _gate(projected, offset, SECOND, gate, inside, state, bias, channel, channels)
            keep, take = keep_and_take(first, second, DECAY)
            if resets is not None:
                cut = flagged(resets, sequence, t, steps, row < steps)
                previous = tl.where(cut, onset[None, :], previous)
                into_resets += tl.sum(tl.where(cut, tl.where(real, keep, 1.0) * delta, 0.0), axis=0)
            active = activated(candidate, ACTIVATION)
            grad_first, grad_second = through_gates(delta * previous, delta * active, keep, take, first, second, DECAY)
            grad_candidate = through_activation(delta * take, candidate, active, ACTIVATION)
            here = grad_projected + offsets(t, channels * GATES, channel, 1)
            tl.store(here + CANDIDATE * channels, tl.where(real, grad_candidate, 0.0), mask=inside)
            tl.store(here + FIRST * channels, tl.where(real, grad_first, 0.0), mask=inside)
            if SECOND != FIRST:
                tl.store(here + SECOND * channels, tl.where(real, grad_second, 0.0), mask=inside)
    store_end(products, product, end, state, sequence, part, chunks, channel, channels)
    if grad_reset is not None:
        tl.store(grad_reset + (sequence * chunks + part) * channels + channel, into_resets, mask=within)


def gated_scan(
    record: ScanKernel, projected: Series, bias: Channels | None, h0: State | None, mask: Flags | None,
    resets: Flags | None, reset_state: Channels | None, reverse: bool, *, chunk: int | None = None,
) -> tuple[Series, State]:  # fmt: skip
    """What a scan cell hands on, contiguous in the dtype of `projected`, and its last state.

    Args:
        record: how the cell's gates are computed.
        projected: the input projections in the cell's order, (batch, time, gates * channels), any strides.
        bias: added to them, (gates * channels,) in the dtype of accumulation.
        h0: (batch, channels) in the dtype of accumulation; None is zeros.
        mask: (batch, time); where False the state stays as it was and the output is 0.
        resets: (batch, time); where True the state before the step is `reset_state`, at a masked step too.
        reset_state: (channels,) in the dtype of accumulation; None is zeros.
        reverse: walk from the last step to the first.
        chunk: as in `cut_time`.
    """
    channels = projected.shape[2] // record.gates
    output = projected.new_empty(*projected.shape[:2], channels)
    last = _walk_forward(record, projected, bias, h0, mask, resets, reset_state, reverse, chunk, output, states=False)
    return output, last


def _walk_forward(
    record: ScanKernel, projected: Series, bias: Channels | None, h0: State | None, mask: Flags | None,
    resets: Flags | None, reset_state: Channels | None, reverse: bool, chunk: int | None, output: Tensor, states: bool,
) -> State:  # fmt: skip
    """Write into `output` what the cell hands on, or the states themselves; the last state."""
    batch, steps, channels = output.shape
    last = empty_states(output, batch)
    if not output.numel():
        return last.zero_() if h0 is None else last.copy_(h0)
    decay, activation, candidate, first, second, squash = record
    cut = cut_time(batch, steps, channels, output.device, chunk)
    beginning, bias, onset = (None if x is None else x.contiguous() for x in (h0, bias, reset_state))
    real, cuts = flags(mask), flags(resets)

    def walk(starts: Tensor | None, products: Tensor | None, end: Tensor) -> None:
        launch(
            _gated_scan, programs(batch, cut, channels), output, *strided(projected),
            bias, beginning if products is None else None, real, cuts, onset, starts, output, products, end,
            steps, channels, *cut, DECAY=decay, ACTIVATION=activation, CANDIDATE=candidate, FIRST=first, SECOND=second,
            SQUASH=squash, STATES=states, CUTS=resets is not None, REVERSE=reverse,
        )  # fmt: skip

    walk(states_before_chunks(walk, cut, beginning, last), None, last)
    return last


def gated_scan_gradient(
    record: ScanKernel, grad_output: Series, grad_last: State, projected: Series, bias: Channels | None,
    output: Series | None, h0: State | None, mask: Flags | None, resets: Flags | None, reset_state: Channels | None,
    reverse: bool, *, chunk: int | None = None,
) -> tuple[Series, Channels, State, Channels]:  # fmt: skip
    """Gradients of the projections, contiguous in their dtype and 0 at masked steps, of bias, and of h0 and
    reset_state, as they are summed up.

    Args:
        grad_output: any strides. The others as given to or returned by `gated_scan`.
        output: None where it does not tell the states, which are then computed again.
        chunk: as in `cut_time`, of one step more than there are.
    """
    batch, steps, channels = grad_output.shape
    decay, activation, candidate, first, second, squash = record
    grad_projected = torch.empty(projected.shape, dtype=projected.dtype, device=projected.device)
    grad_h0 = empty_states(grad_output, batch)
    if not grad_output.numel():
        return grad_projected, _grad_bias(grad_projected, bias), grad_h0.copy_(grad_last), grad_h0.new_zeros(channels)
    if output is not None:
        states = output.contiguous()
    else:
        states = empty_states(grad_output, batch, steps)
        _walk_forward(record, projected, bias, h0, mask, resets, reset_state, reverse, chunk, states, states=True)
    cut = cut_time(batch, steps + 1, channels, grad_output.device, chunk)
    upstream, real, cuts = grad_last.contiguous(), flags(mask), flags(resets)
    beginning, bias, onset = (None if x is None else x.contiguous() for x in (h0, bias, reset_state))
    # One row per program, summed in a fixed order afterwards.
    grad_reset = None if reset_state is None or resets is None else empty_states(grad_output, batch, cut.chunks)

    def walk(starts: Tensor | None, products: Tensor | None, end: Tensor) -> None:
        launch(
            _gated_scan_gradient, programs(batch, cut, channels), projected, *strided(grad_output, projected),
            bias, upstream if products is None else None, states, beginning, real, cuts, onset, starts,
            grad_projected, grad_reset if products is None else None, products, end,
            steps, channels, *cut, GATES=record.gates, DECAY=decay,
            ACTIVATION=activation, CANDIDATE=candidate, FIRST=first, SECOND=second, SQUASH=squash,
            CUTS=resets is not None, REVERSE=not reverse,
        )  # fmt: skip

    walk(states_before_chunks(walk, cut, upstream, grad_h0), None, grad_h0)
    grad_onset = grad_h0.new_zeros(channels) if grad_reset is None else grad_reset.sum((0, 1))
    return grad_projected, _grad_bias(grad_projected, bias), grad_h0, grad_onset


def _grad_bias(grad_projected: Series, bias: Channels | None) -> Channels:
    if bias is None:
        return grad_projected.new_empty(0)
    return grad_projected.sum((0, 1), dtype=bias.dtype)
