"""What a program does with one tile of TIME steps x CHANNELS channels, in the order of its walk.

A program walks time for one sequence, one chunk of steps and one block of channels. `row` counts steps along the walk,
t is the place in memory; the two run against each other when REVERSE. Rows past the end are the identity: decay 1,
drive 0. Functions are compiled into the kernels that call them.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
# Triton's compiler reads annotations and knows only its own.

import triton
import triton.language as tl


@triton.jit
def after(first_decay, first_drive, decay, drive):
    """The step h -> decay * h + drive after the first one, as one step."""
    return first_decay * decay, first_drive * decay + drive


@triton.jit
def times(x, y):
    """x * y, where zero times anything is zero, what overflowed too."""
    return tl.where((x == 0) | (y == 0), 0.0, x * y)


@triton.jit
def after_cut(first_decay, first_drive, decay, drive):
    """`after`, where a decay of zero lets nothing through; it costs twice as much as all the rest of a bare scan."""
    return times(first_decay, decay), times(first_drive, decay) + drive


@triton.jit
def scanned(decay, drive, CUTS: tl.constexpr):
    """Every row's step after all rows before it, as one step. CUTS: there may be resets among them."""
    if CUTS:
        return tl.associative_scan((decay, drive), 0, after_cut)
    else:
        return tl.associative_scan((decay, drive), 0, after)


@triton.jit
def applied(decay, drive, state, CUTS: tl.constexpr):
    """The states after the steps that `scanned` gave, from the one before the tile."""
    if CUTS:
        return times(decay, state[None, :]) + drive
    else:
        return decay * state[None, :] + drive


@triton.jit
def last_row(x, TIME: tl.constexpr):
    """The row of the tile's last step."""
    at_end = tl.arange(0, TIME) == TIME - 1
    return tl.sum(tl.where(at_end[:, None], x, 0.0), axis=0)


@triton.jit
def place(channels, chunks, CHANNELS: tl.constexpr):
    """(sequence, chunk, channels) of this program; what is multiplied with a stride is 64 bits wide."""
    blocks = tl.cdiv(channels, CHANNELS)
    program = tl.program_id(0)
    sequence = (program // blocks // chunks).to(tl.int64)
    channel = (program % blocks * CHANNELS + tl.arange(0, CHANNELS)).to(tl.int64)
    return sequence, program // blocks % chunks, channel


@triton.jit
def time_of(row, steps, REVERSE: tl.constexpr):
    """The place in memory of a row of the walk."""
    if REVERSE:
        t = steps - 1 - row
    else:
        t = row
    return t.to(tl.int64)


@triton.jit
def offsets(t, t_stride, channel, channel_stride):
    """Of a tile from the start of its sequence."""
    return t[:, None] * t_stride + (channel * channel_stride)[None, :]


@triton.jit
def flagged(flags, sequence, t, steps, inside):
    """A column of (batch, time) flags stored as bytes; False outside."""
    return (tl.load(flags + sequence * steps + t, mask=inside, other=0) != 0)[:, None]


@triton.jit
def state_before(start, starts, sequence, chunk, chunks, channel, channels,
                 like):  # fmt: skip
    """The state before a chunk, in the dtype that `like` points to.

    Zeros; `start` (batch, channels) if given; from the second chunk on what `starts` (batch, chunks, channels) holds
    for the end of the chunk before, if given.
    """
    within = channel < channels
    state = tl.zeros_like(channel).to(like.dtype.element_ty)
    if start is not None:
        state = tl.load(start + sequence * channels + channel, mask=within, other=0.0).to(like.dtype.element_ty)
    if starts is not None:
        before = starts + (sequence * chunks + chunk - 1) * channels + channel
        later = tl.load(before, mask=within & (chunk > 0), other=0.0)
        state = tl.where(chunk > 0, later, state)
    return state


@triton.jit
def store_end(products, product, ends, state, sequence, chunk, chunks, channel,
              channels):  # fmt: skip
    """The end of a program's walk.

    In the first of two passes, where `products` is given, every chunk's product of decays and its end, both
    (batch, chunks, channels); else the last chunk's end, (batch, channels).
    """
    within = channel < channels
    if products is not None:
        at = (sequence * chunks + chunk) * channels + channel
        tl.store(products + at, product, mask=within)
        tl.store(ends + at, state, mask=within)
    else:
        tl.store(ends + sequence * channels + channel, state, mask=within & (chunk == chunks - 1))
