"""The gates of the scan cells as loops over rows of channels: what `coefficients` of each cell says, and its gradient.

Each is pinned to the cell's own torch form by a test. Rows come in the order of the cell's projections.
"""

from typing import Any

import numba

from gatedrnn.equations import ScanKernel
from gatedrnn.kernels.cpu.compiling import compiled
from gatedrnn.kernels.cpu.numbers import FAST, INFINITE, INLINED, ONE, ZERO, complement, exp, g, g_slope, sigmoid, tanh

(
    LINEAR, MINGRU, MINGRU_IDENTITY, MINLSTM, MINLSTM_IDENTITY, LSTM_INPUT_GATED, LSTM_NORMALIZED, GRU_INPUT_GATED,
    SIGNED_MINGRU,
) = range(9)  # fmt: skip
BRANCHES = {
    ("replace", "g"): MINGRU, ("replace", "identity"): MINGRU_IDENTITY, ("share", "g"): MINLSTM,
    ("share", "identity"): MINLSTM_IDENTITY, ("free", "tanh"): LSTM_INPUT_GATED, ("share", "tanh"): LSTM_NORMALIZED,
    ("keep", "tanh"): GRU_INPUT_GATED, ("signed", "identity"): SIGNED_MINGRU,
}  # fmt: skip
"""By decay and activation."""


def code_of(record: ScanKernel) -> int:
    """The branch below that computes these gates.

    Raises:
        ValueError: there is none.
    """
    try:
        return BRANCHES[record.decay, record.activation]
    except KeyError:
        raise ValueError(
            f"no CPU kernel computes decay {record.decay!r} with activation {record.activation!r}"
        ) from None


@compiled(**FAST)
def coefficients(kind: int, first: Any, second: Any, third: Any, decay: Any, drive: Any) -> None:
    """a and b of h_t = a_t h_(t-1) + b_t, for one row."""
    if kind == MINGRU or kind == MINGRU_IDENTITY:
        identity = kind == MINGRU_IDENTITY
        for i in range(first.size):
            e = exp(-second[i])
            z = ONE / (ONE + e)
            decay[i] = complement(e, z)
            drive[i] = z * (first[i] if identity else g(first[i]))
    elif kind == MINLSTM or kind == MINLSTM_IDENTITY:
        identity = kind == MINLSTM_IDENTITY
        for i in range(first.size):
            both, only_i, only_f = _shares(second[i], third[i])
            inverse = ONE / (both + only_i + both + only_f)
            decay[i] = (both + only_i) * inverse
            drive[i] = (both + only_f) * inverse * (first[i] if identity else g(first[i]))
    elif kind == LSTM_INPUT_GATED:
        for i in range(first.size):
            decay[i] = sigmoid(second[i])
            drive[i] = sigmoid(first[i]) * tanh(third[i])
    elif kind == LSTM_NORMALIZED:
        for i in range(first.size):
            both, only_i, only_f = _shares(second[i], first[i])
            inverse = ONE / (both + only_i + both + only_f)
            decay[i] = (both + only_i) * inverse
            drive[i] = (both + only_f) * inverse * tanh(third[i])
    elif kind == SIGNED_MINGRU:
        for i in range(first.size):
            a = _clamped(second[i])
            decay[i] = a
            drive[i] = (ONE - abs(a)) * first[i]
    else:
        for i in range(first.size):
            e = exp(-first[i])
            z = ONE / (ONE + e)
            decay[i] = z
            drive[i] = complement(e, z) * tanh(second[i])


@compiled(**FAST)
def gradients(
    kind: int, first: Any, second: Any, third: Any, previous: Any, delta: Any,
    grad_first: Any, grad_second: Any, grad_third: Any,
) -> None:  # fmt: skip
    """From delta, the gradient of h_t: those of the projections, and in delta's place a_t delta, that of h_(t-1).

    The gradient of b is delta, that of a is delta h_(t-1). LINEAR is the bare scan, whose rows are a and b themselves.
    """
    if kind == LINEAR:
        for i in range(delta.size):
            d = delta[i]
            delta[i] = d * first[i]
            grad_first[i] = d * previous[i]
            grad_second[i] = d
    elif kind == MINGRU or kind == MINGRU_IDENTITY:
        identity = kind == MINGRU_IDENTITY
        for i in range(delta.size):
            e = exp(-second[i])
            z = ONE / (ONE + e)
            a = complement(e, z)
            candidate, slope = (first[i], ONE) if identity else (g(first[i]), g_slope(first[i]))
            d = delta[i]
            delta[i] = d * a
            grad_first[i] = d * z * slope
            grad_second[i] = d * (candidate - previous[i]) * a * z
    elif kind == MINLSTM or kind == MINLSTM_IDENTITY:
        identity = kind == MINLSTM_IDENTITY
        for i in range(delta.size):
            both, only_i, only_f = _shares(second[i], third[i])
            inverse = ONE / (both + only_i + both + only_f)
            candidate, slope = (first[i], ONE) if identity else (g(first[i]), g_slope(first[i]))
            d = delta[i]
            share = d * (previous[i] - candidate) * inverse * inverse
            delta[i] = d * (both + only_i) * inverse
            grad_first[i] = d * (both + only_f) * inverse * slope
            grad_second[i] = share * (both + only_i) * only_f
            grad_third[i] = -share * (both + only_f) * only_i
    elif kind == LSTM_INPUT_GATED:
        for i in range(delta.size):
            i_t, f, g_t = sigmoid(first[i]), sigmoid(second[i]), tanh(third[i])
            d = delta[i]
            delta[i] = d * f
            grad_first[i] = d * g_t * i_t * (ONE - i_t)
            grad_second[i] = d * previous[i] * f * (ONE - f)
            grad_third[i] = d * i_t * (ONE - g_t * g_t)
    elif kind == LSTM_NORMALIZED:
        for i in range(delta.size):
            both, only_i, only_f = _shares(second[i], first[i])
            inverse = ONE / (both + only_i + both + only_f)
            g_t = tanh(third[i])
            d = delta[i]
            share = d * (previous[i] - g_t) * inverse * inverse
            delta[i] = d * (both + only_i) * inverse
            grad_first[i] = -share * (both + only_f) * only_i
            grad_second[i] = share * (both + only_i) * only_f
            grad_third[i] = d * (both + only_f) * inverse * (ONE - g_t * g_t)
    elif kind == SIGNED_MINGRU:
        for i in range(delta.size):
            a, d = _clamped(second[i]), delta[i]
            sign = ONE if a > ZERO else (-ONE if a < ZERO else ZERO)
            delta[i] = d * a
            grad_first[i] = d * (ONE - abs(a))
            grad_second[i] = d * (previous[i] - sign * first[i]) if abs(second[i]) <= ONE else ZERO
    else:
        for i in range(delta.size):
            e = exp(-first[i])
            z = ONE / (ONE + e)
            n = tanh(second[i])
            d = delta[i]
            delta[i] = d * z
            shut = e == INFINITE
            grad_first[i] = ZERO if shut else d * (previous[i] - n) * e * z * z
            grad_second[i] = (d if shut else d * e * z) * (ONE - n * n)


@numba.njit(**INLINED)
def _clamped(x: Any) -> Any:
    """Between -1 and 1; comparisons, for min and max lose a NaN."""
    return -ONE if x < -ONE else ONE if x > ONE else x


@numba.njit(**INLINED)
def _shares(f: Any, i: Any) -> tuple[Any, Any, Any]:
    """1, e^-i and e^-f, all times one factor that keeps the largest at 1.

    With them sigmoid(f) / (sigmoid(f) + sigmoid(i)) = (1 + e^-i) / (2 + e^-i + e^-f), and nothing overflows or vanishes
    where both gates are shut.
    """
    shut = i if i < f else f
    p = exp(-abs(shut))
    d = exp(ZERO if f == i and f > ZERO else -abs(f - i))  # both gates wide open; both shut for good are 0 / 0
    nearer = ONE if shut < ZERO else p
    farther = nearer * d
    both = p if shut < ZERO else ONE
    return (both, nearer, farther) if i < f else (both, farther, nearer)
