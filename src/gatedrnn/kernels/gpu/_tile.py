"""Operations of a program on one tile of TIME steps x CHANNELS channels: addresses, the scan within it, and the gates.

A program runs through time for one sequence, one chunk of steps and one block of channels. `row` counts steps in the
order of the run, t is their index in memory; the two go in opposite directions when REVERSE. Rows past the end are the
identity: decay 1, drive 0. Functions are compiled into the kernels that call them.

The gates are those of `gatedrnn.cells` as a kernel computes them: a = keep, b = take * activation(candidate). `first`
and `second` are pre-activations of the gates; for a cell with one gate both are that gate. Nothing here overflows, and
no share of 1 is computed by subtracting the other from it.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
# Triton's compiler reads annotations and knows only its own.

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


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
    at_end = tl.arange(0, TIME) == TIME - 1
    return tl.sum(tl.where(at_end[:, None], x, 0.0), axis=0)


@triton.jit
def program(channels, chunks, CHANNELS: tl.constexpr):
    """(sequence, chunk, channels) of this program; the factors of strides are 64 bits wide."""
    blocks = tl.cdiv(channels, CHANNELS)
    index = tl.program_id(0)
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
    return tl.exp2(tl.abs(x) * -LOG2_E)


@triton.jit
def sigmoids(x):
    """sigmoid(x) and sigmoid(-x)."""
    shrunk = shrinking(x)
    more = 1.0 / (1.0 + shrunk)
    less = shrunk * more
    return tl.where(x >= 0, more, less), tl.where(x >= 0, less, more)


@triton.jit
def tanh(x):
    """From exp; near zero, where that would cancel, from Lambert's continued fraction: to its 13 it serves float64."""
    size = tl.abs(x)
    shrunk = shrinking(2.0 * x)
    y = tl.minimum(x * x, 1.0)
    over = size * (135135.0 + y * (17325.0 + y * (378.0 + y)))
    under = 135135.0 + y * (62370.0 + y * (3150.0 + y * 28.0))
    near = size < 0.5
    unsigned = tl.where(near, over, 1.0 - shrunk) / tl.where(near, under, 1.0 + shrunk)
    return tl.where(x < 0, -unsigned, unsigned)


@triton.jit
def keep_and_take(first, second, DECAY: tl.constexpr):
    """The share of the state that stays and the share of the candidate that enters."""
    if DECAY == "share":
        # Of f / (f + i) a common factor is taken out, the larger of exp(min(first, 0)) and exp(min(second, 0)): where
        # both gates are shut, f and i underflow and their ratio does not.
        gap = tl.minimum(first, 0.0) - tl.minimum(second, 0.0)
        shrunk = shrinking(gap)
        forget = tl.where(gap >= 0, 1.0, shrunk) * (1.0 + shrinking(second))
        enter = tl.where(gap >= 0, shrunk, 1.0) * (1.0 + shrinking(first))
        share = 1.0 / (forget + enter)
        return forget * share, enter * share
    elif DECAY == "signed":
        keep = tl.where(first < -1.0, -1.0, tl.where(first > 1.0, 1.0, first))
        return keep, 1.0 - tl.abs(keep)
    else:
        open_first, shut_first = sigmoids(first)
        if DECAY == "replace":
            return shut_first, open_first
        elif DECAY == "keep":
            return open_first, shut_first
        else:
            open_second, _ = sigmoids(second)
            return open_first, open_second


@triton.jit
def gates_backward(grad_keep, grad_take, keep, take, first, second,
                  DECAY: tl.constexpr):  # fmt: skip
    """The gradients of `first` and `second` from those of keep and take; of one gate the whole gradient, twice."""
    if DECAY == "signed":
        sign = tl.where(keep > 0, 1.0, tl.where(keep < 0, -1.0, 0.0))
        inside = tl.where(tl.abs(first) <= 1.0, grad_keep - sign * grad_take, 0.0)
        return inside, inside
    both = keep * take * (grad_keep - grad_take)
    if DECAY == "replace":
        return -both, -both
    elif DECAY == "keep":
        return both, both
    else:
        _, shut_first = sigmoids(first)
        _, shut_second = sigmoids(second)
        if DECAY == "share":
            return both * shut_first, -both * shut_second
        else:
            return grad_keep * keep * shut_first, grad_take * take * shut_second


@triton.jit
def activated(x, ACTIVATION: tl.constexpr):
    """The candidate."""
    if ACTIVATION == "g":
        shrunk = shrinking(x)
        return tl.where(x >= 0, x + 0.5, shrunk / (1.0 + shrunk))
    elif ACTIVATION == "tanh":
        return tanh(x)
    else:
        return x


@triton.jit
def activation_backward(grad, x, value, ACTIVATION: tl.constexpr):
    """The gradient of x from that of `value`, its activation."""
    if ACTIVATION == "g":
        return tl.where(x >= 0, grad, grad * value * (1.0 - value))
    elif ACTIVATION == "tanh":
        return grad * (1.0 - value * value)
    else:
        return grad
