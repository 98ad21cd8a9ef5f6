"""The scan of a cell's gates, or of given decays, in one Triton kernel, and its gradient in another.

A program loads a tile of steps at once, coalesced over channels, scans it along time, applies the state it carries and
continues with the next tile. Where sequences and channels do not fill the device, time is divided into chunks and run
twice: first for the map of each chunk from the state before it to the state after it, then, from the state before each
chunk, for all states.

Only projection and output have to be kept for the gradient: gates are computed again, and so are the states, into
memory that is freed again, if the output does not show them (it is their tanh, or 0 at a masked step).
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
# Triton's compiler reads annotations and knows only its own.

import hashlib
import linecache
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from gatedrnn.kernels.gpu import tile
from gatedrnn.kernels.gpu.launch import (
    CHUNK_MULTIPLE,
    HEAVY,
    LIGHT,
    Division,
    divide_time,
    flags,
    launch,
    programs,
    strided,
    tuned,
)
from gatedrnn.kernels.gpu.tile import (
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
from gatedrnn.kinds.scan.definition import ScanGradients, ScanInputs, ScanUpstream
from gatedrnn.kinds.scan.rows import TileProgram, bare_tiles
from gatedrnn.shapes import Channels, Series, State

_HELPERS = ("projection", "shrinking", "tanh", "expm1", "log1p", "sign", "minimum", "maximum")


class Parts(NamedTuple):
    """Functions for Triton; None as in `TileProgram`."""

    key: str
    """The cell and a sum over its source: Triton knows functions by their names, which all cells share."""
    coefficients: Any
    output: Any
    of_state: Any
    gradient: Any


@cache
def parts_of(tiles: TileProgram) -> Parts:
    """Return the functions of a cell."""
    text = tiles.source()
    # Triton reads the source of what it compiles.
    key = f"{tiles.word} {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    file = f"<{key}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    names: dict[str, Any] = {"tl": tl, "__name__": __name__, **{name: getattr(tile, name) for name in _HELPERS}}
    exec(compile(text, file, "exec"), names)
    return Parts(key, *(triton.jit(names[part]) if part in names else None for part in Parts._fields[1:]))


@triton.jit
def _real(mask, sequence, t, steps, inside):
    """A column: whether there is a step, and one that the mask lets through."""
    if mask is not None:
        return flagged(mask, sequence, t, steps, inside)
    else:
        return inside[:, None]


@tuned(LIGHT)
# Triton compiles anew for a number that is 1 or a multiple of 16: lengths would cost seconds each.
@triton.jit(do_not_specialize=["steps", "chunk", "chunks", "crowd"])
def _scan(
    projected, projected_b, projected_t, projected_c, gate,
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


@tuned(HEAVY + LIGHT)
@triton.jit(do_not_specialize=["steps", "chunk", "chunks", "crowd"])
def _scan_gradient(
    grad_output, grad_b, grad_t, grad_c,
    projected, projected_b, projected_t, projected_c, gate,
    bias, grad_last, states, h0, mask, resets, reset_state, starts,
    grad_projected, of_projected_t, gate_of_gradient, grad_reset, products, end,
    steps, channels, chunk, chunks, crowd,
    CELL: tl.constexpr, COEFFICIENTS: tl.constexpr, OF_STATE: tl.constexpr,
    GRADIENT: tl.constexpr, RESETS: tl.constexpr, REVERSE: tl.constexpr,
    TIME: tl.constexpr, CHANNELS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """delta_t = grad_t + a_(t+1) delta_(t+1), opposite to the forward, and from delta the gradients of projections.

    Row r reads the decay of row r - 1; one row more than there are steps, without a gradient of its own, therefore ends
    with the gradient of h0. REVERSE is that of the backward.
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
    grad_output += sequence * grad_b
    projected += sequence * projected_b
    states += sequence * steps * channels
    grad_projected += sequence * steps * of_projected_t
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
            is_inside = (row + 1 < steps)[:, None] & within[None, :]
            previous = tl.load(states + offsets(before, channels, channel, 1), mask=is_inside, other=0.0).to(
                state.dtype
            )
            previous = tl.where((row + 1 == steps)[:, None], start_state[None, :], previous)
            if resets is not None:
                reset = flagged(resets, sequence, t, steps, row < steps)
                decay, _ = COEFFICIENTS(projected, offset, gate, inside, state, bias, channel, channels)
                previous = tl.where(reset, reset_row[None, :], previous)
                of_resets += tl.sum(tl.where(reset, tl.where(real, decay, 1.0) * delta, 0.0), axis=0)
            target = grad_projected + offsets(t, of_projected_t, channel, 1)
            GRADIENT(
                projected, offset, gate, inside, state, bias, channel, channels, after, previous, delta, upstream,
                target, gate_of_gradient, real, inside,
            )  # fmt: skip
    store_end(products, product, end, state, sequence, chunk_index, chunks, channel, channels)
    if grad_reset is not None:
        tl.store(grad_reset + (sequence * chunks + chunk_index) * channels + channel, of_resets, mask=within)


def scan(tiles: TileProgram, inputs: ScanInputs, *, chunk: int | None = None) -> tuple[Series, State, None]:
    """Outputs of a scan cell, or the states of a bare scan, contiguous in the dtype of `x`, and the last state.

    Args:
        tiles: the cell's parts.
        inputs: without a `weight`: the product is torch's. x may have any strides; what is no series is in the dtype of
            accumulation.
        chunk: as in `divide_time`.
    """
    operands = _Operands.of(tiles, inputs)
    output = inputs.x.new_empty(*inputs.x.shape[:2], operands.channels)
    return output, operands.run(chunk, output, states=False), None


class _Operands(NamedTuple):
    """The tensors that forward and backward read, as kernels read them."""

    tiles: TileProgram
    inputs: ScanInputs
    """Contiguous, flags as bytes; decay and drive of a bare scan with the same strides."""
    gate: int
    """Elements from one projection to the next: of a bare scan from the decay to the drive."""

    @classmethod
    def of(cls, tiles: TileProgram, inputs: ScanInputs) -> "_Operands":
        x, drive = inputs.x, inputs.drive
        # The kernel takes one set of strides: it reads the drive as the second gate of the decay.
        if drive is not None and drive.stride() != x.stride():
            x, drive = x.contiguous(), drive.contiguous()
        gate = x.shape[2] // tiles.gates * x.stride(2) if drive is None else distance(x, drive)
        by_channel, starts, reset_state = (
            None if v is None else v.contiguous() for v in (inputs.by_channel, inputs.starts, inputs.reset_state)
        )
        mask, resets = flags(inputs.mask), flags(inputs.resets)
        as_read = ScanInputs(x, drive, None, by_channel, starts, mask, resets, reset_state, reverse=inputs.reverse)
        return cls(tiles, as_read, gate)

    @property
    def channels(self) -> int:
        """Channels of the state."""
        return self.inputs.x.shape[2] if self.inputs.drive is not None else self.inputs.x.shape[2] // self.tiles.gates

    def run(self, chunk: int | None, output: Tensor, states: bool) -> State:
        """Write the outputs, or the states themselves, to `output`; return the last state."""
        inputs, (batch, steps, channels) = self.inputs, output.shape
        last = empty_states(output, batch)
        # A grid without programs cannot be launched.
        if not output.numel():
            return last.zero_() if inputs.starts is None else last.copy_(inputs.starts)
        parts, division = parts_of(self.tiles), divide_time(batch, steps, channels, output.device, chunk)

        def run(starts: Tensor | None, products: Tensor | None, end: Tensor) -> None:
            launch(
                _scan, programs(batch, division, channels), output, *strided(inputs.x), self.gate, inputs.by_channel,
                inputs.starts if products is None else None, inputs.mask, inputs.resets, inputs.reset_state, starts,
                output, products, end, steps, channels, *division, CELL=parts.key, COEFFICIENTS=parts.coefficients,
                OUTPUT=parts.output, STATES=states, RESETS=inputs.resets is not None, REVERSE=inputs.reverse,
            )  # fmt: skip

        run(states_before_chunks(run, division, inputs.starts, last), None, last)
        return last


def scan_gradient(
    tiles: TileProgram, upstream: ScanUpstream, inputs: ScanInputs, *, chunk: int | None = None
) -> ScanGradients:  # fmt: skip
    """Gradients of the projections, contiguous in their dtype and 0 at masked steps, of bias, and of the state before
    the first step and `reset_state`, as they are summed up.

    Args:
        upstream: `grad_output` may have any strides.
        inputs: as passed to `scan`.
        chunk: as in `divide_time`, of one step more than there are.
    """
    grad_output, last = upstream.grad_output, upstream.grad_last.contiguous()
    batch, steps, channels = grad_output.shape
    operands, parts = _Operands.of(tiles, inputs), parts_of(tiles)
    inputs, x, bias = operands.inputs, operands.inputs.x, operands.inputs.by_channel
    grad_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    grad_drive = None if inputs.drive is None else torch.empty(x.shape, dtype=x.dtype, device=x.device)
    gate_of_gradient, of_projected_t = (channels if grad_drive is None else distance(grad_x, grad_drive)), x.shape[2]
    grad_start = empty_states(grad_output, batch)
    nothing = grad_start.new_zeros(channels)
    if not grad_output.numel():
        return ScanGradients(grad_x, grad_drive, None, _of_bias(grad_x, bias), grad_start.copy_(last), nothing)
    if upstream.output is not None:
        states = upstream.output.contiguous()
    else:
        states = empty_states(grad_output, batch, steps)
        operands.run(chunk, states, states=True)
    division = divide_time(batch, steps + 1, channels, grad_output.device, chunk)
    # One row per program, summed in a fixed order afterwards.
    grad_reset = None if inputs.resets is None else empty_states(grad_output, batch, division.chunks)

    def run(before: Tensor | None, products: Tensor | None, end: Tensor) -> None:
        launch(
            _scan_gradient, programs(batch, division, channels), x, *strided(grad_output), *strided(x), operands.gate,
            bias, last if products is None else None, states, inputs.starts, inputs.mask, inputs.resets,
            inputs.reset_state, before, grad_x, of_projected_t, gate_of_gradient,
            grad_reset if products is None else None, products, end, steps, channels, *division, CELL=parts.key,
            COEFFICIENTS=parts.coefficients, OF_STATE=parts.of_state, GRADIENT=parts.gradient,
            RESETS=inputs.resets is not None, REVERSE=not inputs.reverse,
        )  # fmt: skip

    run(states_before_chunks(run, division, last, grad_start), None, grad_start)
    of_reset = nothing if grad_reset is None else grad_reset.sum((0, 1))
    return ScanGradients(grad_x, grad_drive, None, _of_bias(grad_x, bias), grad_start, of_reset)


def _of_bias(grad_projected: Series, bias: Channels | None) -> Channels:
    if bias is None:
        return grad_projected.new_empty(0)
    # In the dtype of the bias, float32 at least: in bfloat16 the sum would be rounded to 8 bits.
    return grad_projected.sum((0, 1), dtype=bias.dtype)


def distance(first: Tensor, second: Tensor) -> int:
    """Return how many elements further a tensor begins than another one of its dtype, in memory."""
    return (second.data_ptr() - first.data_ptr()) // first.element_size()


def empty_states(like: Series, *sizes: int) -> Tensor:
    """Allocate states (*sizes, channels) in the dtype of accumulation: float64 for float64, else float32."""
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    return torch.empty(*sizes, like.shape[2], dtype=dtype, device=like.device)


def states_before_chunks(
    run: Callable[[Tensor | None, Tensor | None, Tensor], None], division: Division, start: State | None, like: State
) -> Tensor | None:
    """Return the state at the end of each chunk, composed from what `run` returns for each; None for one chunk."""
    if division.chunks == 1:
        return None
    batch, channels = like.shape
    products, ends = (like.new_empty(batch, division.chunks, channels) for _ in range(2))
    run(None, products, ends)
    states, last = torch.empty_like(ends), torch.empty_like(like)
    single = divide_time(
        batch, division.chunks, channels, like.device, CHUNK_MULTIPLE * triton.cdiv(division.chunks, CHUNK_MULTIPLE)
    )
    # Many decays multiplied may overflow, where the states between them need not.
    parts = parts_of(bare_tiles())
    launch(
        _scan, programs(batch, single, channels), like, *strided(products), distance(products, ends), None, start, None,
        None, None, None, states, None, last, division.chunks, channels, *single, CELL=parts.key,
        COEFFICIENTS=parts.coefficients, OUTPUT=parts.output, STATES=False, RESETS=True, REVERSE=False,
    )  # fmt: skip
    return states
