"""Operations of a program on one tile of TIME steps x CHANNELS channels: addresses, the scan within it, functions.

A program runs through time for one sequence, one chunk of steps and one block of channels. `row` counts steps in the
order of the run, t is their index in memory; the two go in opposite directions when REVERSE. Rows past the end are the
identity: decay 1, drive 0. Functions are compiled into the kernels that call them.

Functions of numbers neither overflow nor cancel; generated gates call them.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
# Triton's compiler reads annotations and knows only its own.

import triton
import triton.language as tl

_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def after(first_decay, first_drive, decay, drive):
    """The step h -> decay * h + drive after the first one, as one step."""
    return first_decay * decay, first_drive * decay + drive


@triton.jit
def times(x, y):
    """x * y, where zero times anything is zero, an overflow included."""
    return tl.where((x == 0) | (y == 0), 0.0, x * y)


@triton.jit
def after_reset(first_decay, first_drive, decay, drive):
    """`after`, where a decay of zero lets nothing through; it costs twice as much as all the rest of a bare scan."""
    return times(first_decay, decay), times(first_drive, decay) + drive


@triton.jit
def scanned(decay, drive, RESETS: tl.constexpr):
    """Every row's step after all rows before it, as one step. RESETS: there may be resets among them."""
    if RESETS:
        return tl.associative_scan((decay, drive), 0, after_reset)
    else:
        return tl.associative_scan((decay, drive), 0, after)


@triton.jit
def applied(decay, drive, state, RESETS: tl.constexpr):
    """The states after the steps that `scanned` gave, from the one before the tile."""
    if RESETS:
        return times(decay, state[None, :]) + drive
    else:
        return decay * state[None, :] + drive


@triton.jit
def last_row(x, TIME: tl.constexpr):
    """The row of the tile's last step."""
    # Triton cannot index a row of a tile; a masked sum reduces it.
    at_end = tl.arange(0, TIME) == TIME - 1
    return tl.sum(tl.where(at_end[:, None], x, 0.0), axis=0)


@triton.jit
def program(channels, chunks, CHANNELS: tl.constexpr):
    """(sequence, chunk, channels) of this program; the factors of strides are 64 bits wide."""
    blocks = tl.cdiv(channels, CHANNELS)
    index = tl.program_id(0)
    # Offsets of a large tensor pass 2^31 elements, where 32 bits overflow.
    sequence = (index // blocks // chunks).to(tl.int64)
    channel = (index % blocks * CHANNELS + tl.arange(0, CHANNELS)).to(tl.int64)
    return sequence, index // blocks % chunks, channel


@triton.jit
def time_of(row, steps, REVERSE: tl.constexpr):
    """The index in memory of a row of the run."""
    if REVERSE:
        t = steps - 1 - row
    else:
        t = row
    return t.to(tl.int64)


@triton.jit
def offsets(t, t_stride, channel, channel_stride):
    """Elements of a tile, counted from the start of its sequence."""
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
        # The first chunk has none before it: its address would lie before the array.
        later = tl.load(before, mask=within & (chunk > 0), other=0.0)
        state = tl.where(chunk > 0, later, state)
    return state


@triton.jit
def store_end(products, product, ends, state, sequence, chunk, chunks, channel,
              channels):  # fmt: skip
    """Store the end of a program's run.

    In the first of two passes, where `products` is given, every chunk's product of decays and its last state, both
    (batch, chunks, channels); else the last state of the last chunk, (batch, channels).
    """
    within = channel < channels
    if products is not None:
        at = (sequence * chunks + chunk) * channels + channel
        tl.store(products + at, product, mask=within)
        tl.store(ends + at, state, mask=within)
    else:
        tl.store(ends + sequence * channels + channel, state, mask=within & (chunk == chunks - 1))


@triton.jit
def shrinking(x):
    """exp(-abs(x)), by way of exp2: the hardware's, which alone flushes what is below the normal numbers."""
    return tl.exp2(tl.abs(x) * -_LOG2_E)


@triton.jit
def tanh(x):
    """Compute tanh from exp; near zero, where that would cancel, from Lambert's continued fraction, whose terms to 13
    serve float64."""
    size = tl.abs(x)
    shrunk = shrinking(2.0 * x)
    y = tl.minimum(x * x, 1.0)
    over = size * (135135.0 + y * (17325.0 + y * (378.0 + y)))
    under = 135135.0 + y * (62370.0 + y * (3150.0 + y * 28.0))
    near = size < 0.5
    unsigned = tl.where(near, over, 1.0 - shrunk) / tl.where(near, under, 1.0 + shrunk)
    return tl.where(x < 0, -unsigned, unsigned)


@triton.jit
def expm1(x):
    """e^x - 1, from tanh(x / 2), which keeps its digits near zero; further away as it is."""
    half = tanh(0.5 * x)
    return tl.where(tl.abs(x) < 1.0, 2.0 * half / (1.0 - half), tl.exp(x) - 1.0)


@triton.jit
def log1p(x):
    """log(1 + x); the rounding of the sum is made good where x is small."""
    total = 1.0 + x
    # Both branches are computed: where 1 + x rounds to 1 the second one is 0 / 0.
    return tl.where(total == 1.0, x, tl.log(total) * (x / (total - 1.0)))


@triton.jit
def sign(x):
    """-1, 0 or 1."""
    return tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, 0.0))


@triton.jit
def minimum(x, y):
    """The smaller, or NaN where x is that."""
    return tl.where((x < y) | (x != x), x, y)


@triton.jit
def maximum(x, y):
    """The larger, or NaN where x is that."""
    return tl.where((x > y) | (x != x), x, y)


@triton.jit
def projection(projected, offset, index: tl.constexpr, gate, inside, like, bias, channel, channels):
    """A tile of one projection, in the dtype of `like`; `gate` is the stride from one projection to the next."""
    tile = tl.load(projected + index * gate + offset, mask=inside, other=0.0).to(like.dtype)
    if bias is not None:
        tile += tl.load(bias + index * channels + channel, mask=channel < channels, other=0.0)[None, :]
    return tile
