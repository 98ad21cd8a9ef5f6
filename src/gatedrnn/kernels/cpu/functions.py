"""Elementary functions that LLVM vectorises inside a loop over a row, and the treatment of denormal numbers.

float32 goes through polynomials, accurate to about 1e-7 of the value; float64 through the C library. A NaN stays one.
"""

import math
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from gatedrnn.kernels.cpu.compile import INLINED

# Typed, for a Python number would turn a row of float32 into float64; in float64 the same numbers are exact.
ZERO, HALF, ONE, TWO = (np.float32(x) for x in (0.0, 0.5, 1.0, 2.0))
INFINITE, NOT_A_NUMBER = np.float32(math.inf), np.float32(math.nan)
MIN_EXPONENT, MAX_EXPONENT = np.float32(-87.3), np.float32(88.3)  # e to these is near the ends of float32
_TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561
"""2 / pi, 256 bits behind the binary point."""


def _reduction_table() -> tuple[tuple[float, float, float, float], ...]:
    """Units, powers of two, and 2 / pi of them less multiples of 4, in three parts, of which the first two have 25
    bits."""
    rows = []
    for exponent in (0, 24, 48, 72, 96):
        rest, parts = (_TWO_OVER_PI << exponent) % (4 << 256), list[float]()
        for _ in range(2):
            low = max(rest.bit_length() - 25, 0)
            parts.append(math.ldexp(rest >> low, low - 256))
            rest %= 1 << low
        rows.append((2.0**exponent, parts[0], parts[1], math.ldexp(rest, -256)))
    return tuple(rows)


_REDUCTION_TABLE = _reduction_table()
ON_X86 = llvmlite.binding.get_process_triple().startswith(("x86_64", "i386", "i686", "amd64"))
_MXCSR_FLUSH = 0x8040  # of the SSE control register: results and operands that are denormal are zero


@intrinsic
def float_of_bits(typing: Any, bits: Any) -> Any:
    """The float32 with these bits."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.float32))

    return types.float32(types.int32), build


@intrinsic
def bits_of_float(typing: Any, number: Any) -> Any:
    """The bits of a float32."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.int32))

    return types.int32(types.float32), build


def _by_width(float64: Callable[[Any], Any], float32: Callable[[Any], Any]) -> Any:
    """A function of one number for compiled code: another formula for each width."""

    def function(x: Any) -> Any:
        raise NotImplementedError("called from compiled code only")

    # Not strict: a formula in a lambda has no annotations to compare.
    overload(function, jit_options=INLINED, strict=False)(lambda x: float32 if x == types.float32 else float64)
    return function


def _exp_float32(x: Any) -> Any:
    # Comparisons, not min and max: those lose a NaN.
    result = _exp_in_range(MIN_EXPONENT if x < MIN_EXPONENT else MAX_EXPONENT if x > MAX_EXPONENT else x)
    return ZERO if x < MIN_EXPONENT else INFINITE if x > MAX_EXPONENT else result


exp = _by_width(lambda x: math.exp(x), _exp_float32)
"""e^x; in float32 infinity above MAX_EXPONENT and 0 below MIN_EXPONENT, where denormals would begin."""


@numba.njit(**INLINED)
def _exp_in_range(x: Any) -> Any:
    """e^x of a float32 between MIN_EXPONENT and MAX_EXPONENT."""
    # e^x = 2^k e^r with |r| <= log(2) / 2. The sum with 1.5 * 2^23 has the whole number k in its last bits, which go
    # into the exponent's. e^r is the polynomial of degree 6 with the smallest largest relative error (3e-9).
    shifted = x * np.float32(1.44269504) + np.float32(12582912.0)
    k = shifted - np.float32(12582912.0)
    # log(2) in two parts (Cody and Waite): k times the first is exact, so that r loses no digits.
    r = (x - k * np.float32(0.693359375)) - k * np.float32(-2.12194440e-4)
    p = np.float32(1.4061241e-3)
    p = p * r + np.float32(8.3790114e-3)
    p = p * r + np.float32(4.1664775e-2)
    p = p * r + np.float32(1.6666366e-1)
    p = p * r + np.float32(5.0000006e-1)
    p = p * r + np.float32(1.0)
    p = p * r + np.float32(1.0)
    return p * float_of_bits((bits_of_float(shifted) << np.int32(23)) + np.int32(0x3F800000))


def _shrinking_float32(x: Any) -> Any:
    size = abs(x)
    # Beyond MIN_EXPONENT the shift of k would reach into the sign bit.
    return ZERO if size == INFINITE else _exp_in_range(MIN_EXPONENT if size > -MIN_EXPONENT else -size)


shrinking = _by_width(lambda x: math.exp(-abs(x)), _shrinking_float32)
"""e^-|x|; 0 at the infinities."""


def _tanh_float32(x: Any) -> Any:
    # Near zero an odd polynomial (Cephes): 1 - 2 / (e^2x + 1) would lose every digit there.
    square = x * x
    p = np.float32(-5.70498872745e-3)
    p = p * square + np.float32(2.06390887954e-2)
    p = p * square + np.float32(-5.37397155531e-2)
    p = p * square + np.float32(1.33314422036e-1)
    p = p * square + np.float32(-3.33332819422e-1)
    small = p * square * x + x
    # e^-2|x| cannot overflow, as e^2x would for large x.
    shrunk = shrinking(TWO * x)
    large = (ONE - shrunk) / (ONE + shrunk)
    large = -large if x < ZERO else large
    # 0.625 is where Cephes' tanhf changes formulas.
    return small if abs(x) < np.float32(0.625) else large


tanh = _by_width(lambda x: math.tanh(x), _tanh_float32)
"""The hyperbolic tangent."""


def _sin_float32(x: Any) -> Any:
    return _reduced_sine(x, 0.0)


sin = _by_width(lambda x: math.sin(x) if abs(x) < math.inf else math.nan, _sin_float32)
"""The sine; NaN at the infinities."""


def _cos_float32(x: Any) -> Any:
    return _reduced_sine(x, 1.0)


cos = _by_width(lambda x: math.cos(x) if abs(x) < math.inf else math.nan, _cos_float32)
"""The cosine; NaN at the infinities."""


@numba.njit(**INLINED)
def _reduced_sine(x: Any, quarters: Any) -> Any:
    """The sine of a float32 and so many quarter turns, of any size."""
    # x * 2 / pi, less whole turns of four quarters, in float64. A float32 of 2^23 units is a whole number of them, so
    # that multiples of 4 can be left out of what a unit is. It has 24 bits, so that products with 25 bits are exact.
    size = np.float64(abs(x))
    unit, a, b, c = _REDUCTION_TABLE[0]
    for i in range(1, 5):
        row = _REDUCTION_TABLE[i]
        is_larger = size >= 8388608.0 * row[0]
        unit, a = row[0] if is_larger else unit, row[1] if is_larger else a
        b, c = row[2] if is_larger else b, row[3] if is_larger else c
    y = np.float64(x) / unit
    first, second = y * a, y * b
    total = (first - 4.0 * _nearest_integer(0.25 * first)) + (second - 4.0 * _nearest_integer(0.25 * second)) + y * c
    k = _nearest_integer(total)
    r = np.float32((total - k) * 1.5707963267948966)
    turns = k + quarters
    quarter = turns - 4.0 * _nearest_integer(0.25 * turns)  # from -2 to 2
    square = r * r
    # The polynomials of Cephes, for |r| <= pi / 4.
    p = np.float32(-1.9515295891e-4) * square + np.float32(8.3321608736e-3)
    sine = (p * square - np.float32(1.6666654611e-1)) * square * r + r
    p = np.float32(2.443315711809948e-5) * square - np.float32(1.388731625493765e-3)
    cosine = (p * square + np.float32(4.166664568298827e-2)) * square * square - HALF * square + ONE
    result = cosine if abs(abs(quarter) - 1.0) < 0.5 else sine
    return -result if (quarter < -0.5) | (quarter > 1.5) else result


@numba.njit(**INLINED)
def _nearest_integer(x: Any) -> Any:
    """The nearest whole number of a float64 below 2^51."""
    return (x + 6755399441055744.0) - 6755399441055744.0


def _log_float32(x: Any) -> Any:
    # x = 2^k m with m in [sqrt(1/2), sqrt(2)); the polynomial of log m is that of Cephes.
    bits = bits_of_float(x)
    k = (bits >> np.int32(23)) - np.int32(126)
    m = float_of_bits((bits & np.int32(0x007FFFFF)) | np.int32(0x3F000000))
    low = m < np.float32(0.70710678)
    m = (m + m if low else m) - ONE
    e = np.float32(k - np.int32(1) if low else k)
    square = m * m
    p = np.float32(7.0376836292e-2)
    p = p * m - np.float32(1.1514610310e-1)
    p = p * m + np.float32(1.1676998740e-1)
    p = p * m - np.float32(1.2420140846e-1)
    p = p * m + np.float32(1.4249322787e-1)
    p = p * m - np.float32(1.6668057665e-1)
    p = p * m + np.float32(2.0000714765e-1)
    p = p * m - np.float32(2.4999993993e-1)
    p = p * m + np.float32(3.3333331174e-1)
    result = m * square * p - np.float32(2.12194440e-4) * e - HALF * square + m + np.float32(0.693359375) * e
    result = INFINITE if x == INFINITE else result
    return result if x > ZERO else (-INFINITE if x == ZERO else NOT_A_NUMBER)


log = _by_width(lambda x: math.log(x) if x > 0.0 else (-math.inf if x == 0.0 else math.nan), _log_float32)
"""The natural logarithm; -infinity at 0, NaN below."""


@numba.njit(**INLINED)
def log1p(x: Any) -> Any:
    """log(1 + x), without the digits that the sum has lost."""
    # log(w) x / (w - 1) with w = 1 + x rounded: both factors err alike (Goldberg 1991, theorem 4).
    total = ONE + x
    recovered = total - ONE
    result = log(total) * (x / recovered)
    result = x if recovered == ZERO else result
    return x if x == INFINITE else result


def _expm1_float32(x: Any) -> Any:
    # Taylor's terms to x^8 leave less than 1e-8 for |x| < 1/2, where e^x - 1 would cancel.
    p = np.float32(1 / 40320) * x + np.float32(1 / 5040)
    p = p * x + np.float32(1 / 720)
    p = p * x + np.float32(1 / 120)
    p = p * x + np.float32(1 / 24)
    p = p * x + np.float32(1 / 6)
    p = p * x + HALF
    small = p * (x * x) + x
    return small if abs(x) < HALF else exp(x) - ONE


expm1 = _by_width(lambda x: math.expm1(x), _expm1_float32)
"""e^x - 1."""


@numba.njit(**INLINED)
def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y; both are computed."""
    return x if condition else y


@numba.njit(**INLINED)
def maximum(x: Any, y: Any) -> Any:
    """The larger one, or NaN if one of them is."""
    # `|` computes both comparisons: the branch of an `or` hinders vectorisation.
    return x if (x > y) | (x != x) else y


@numba.njit(**INLINED)
def minimum(x: Any, y: Any) -> Any:
    """The smaller one, or NaN if one of them is."""
    return x if (x < y) | (x != x) else y


@numba.njit(**INLINED)
def sign(x: Any) -> Any:
    """1, -1, or 0, of a NaN too."""
    return ONE if x > ZERO else (-ONE if x < ZERO else ZERO)


@numba.njit(**INLINED)
def rounded_to_bfloat16(x: Any) -> Any:
    """The upper half of a float32's bits, rounded to the nearest, ties to even."""
    b = np.uint32(bits_of_float(x))
    rounded = b + np.uint32(0x7FFF) + ((b >> np.uint32(16)) & np.uint32(1))
    # Rounding up could turn a NaN into an infinity: a quiet NaN keeps its upper half instead.
    is_number = (b & np.uint32(0x7FFFFFFF)) <= np.uint32(0x7F800000)
    return np.uint16((rounded if is_number else b | np.uint32(0x00400000)) >> np.uint32(16))


@intrinsic
def flush_denormals(typing: Any) -> Any:
    """Take denormal numbers for zero from here on, in this thread; returns what `restore_denormals` takes.

    A gradient that enters at the last step alone shrinks by every decay on its way to the first, below 1e-38 within a
    few hundred steps; an operation on such a number takes a hundred times as long, and its result is negligible. On
    other processors than x86 nothing happens.
    """

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if not ON_X86:
            return cgutils.int32_t(0)
        address = cgutils.alloca_once(builder, cgutils.int32_t)
        _call_mxcsr(builder, "stmxcsr", address)
        before = builder.load(address)
        builder.store(builder.or_(before, cgutils.int32_t(_MXCSR_FLUSH)), address)
        _call_mxcsr(builder, "ldmxcsr", address)
        return before

    return types.int32(), build


@intrinsic
def restore_denormals(typing: Any, before: Any) -> Any:
    """Treat denormal numbers as before `flush_denormals`, for the next user of the thread."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if ON_X86:
            address = cgutils.alloca_once(builder, cgutils.int32_t)
            builder.store(arguments[0], address)
            _call_mxcsr(builder, "ldmxcsr", address)
        return context.get_dummy_value()

    return types.none(types.int32), build


def _call_mxcsr(builder: Any, name: str, address: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.sse.{name}")
    builder.call(function, [builder.bitcast(address, cgutils.voidptr_t)])
