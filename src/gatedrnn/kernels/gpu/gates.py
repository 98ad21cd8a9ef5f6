"""The equations of the scan cells once more, as a kernel computes them: a = keep, b = take * activation(candidate).

`first` and `second` are pre-activations of the gates; a cell with one gate hands it in twice. The torch forms stand in
`gatedrnn.cells`. Nothing here overflows, and no share of 1 is found by subtracting the other from it.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
# Triton's compiler reads annotations and knows only its own.

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


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
    """The share of the state that stays and the share of the candidate that comes in."""
    if DECAY == "share":
        # Of f / (f + i) a common factor is taken out, the larger of exp(min(first, 0)) and exp(min(second, 0)): where
        # both gates are shut, f and i underflow and their ratio does not.
        gap = tl.minimum(first, 0.0) - tl.minimum(second, 0.0)
        shrunk = shrinking(gap)
        forget = tl.where(gap >= 0, 1.0, shrunk) * (1.0 + shrinking(second))
        come_in = tl.where(gap >= 0, shrunk, 1.0) * (1.0 + shrinking(first))
        part = 1.0 / (forget + come_in)
        return forget * part, come_in * part
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
def through_gates(grad_keep, grad_take, keep, take, first, second,
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
def through_activation(grad, x, value, ACTIVATION: tl.constexpr):
    """The gradient of x from that of `value`, the candidate that came of it."""
    if ACTIVATION == "g":
        return tl.where(x >= 0, grad, grad * value * (1.0 - value))
    elif ACTIVATION == "tanh":
        return grad * (1.0 - value * value)
    else:
        return grad
