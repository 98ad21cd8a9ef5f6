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

from gatedrnn.kernels.cpu._compile import INLINED

# Typed, for a Python number would turn a row of float32 into float64; in float64 the same numbers are exact.
ZERO, HALF, ONE, TWO = (np.float32(x) for x in (0.0, 0.5, 1.0, 2.0))
INFINITE = np.float32(math.inf)
LIMIT = np.float32(87.0)  # e^87 and e^-87 are near the ends of float32
ON_X86 = llvmlite.binding.get_process_triple().startswith(("x86_64", "i386", "i686", "amd64"))
FLUSH = 0x8040  # of the SSE control register: results and operands that are denormal are zero


@intrinsic
def _float_of_bits(typing: Any, bits: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.float32))

    return types.float32(types.int32), build


@intrinsic
def _bits_of_float(typing: Any, number: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.int32))

    return types.int32(types.float32), build


def exp(x: Any) -> Any:
    """e^x, a finite argument held within what the type can represent; 0 and infinity at the infinities."""
    raise NotImplementedError("called from compiled code only")


@overload(exp, jit_options=INLINED)
def _exp(x: Any) -> Callable[[Any], Any]:
    return _exp_float32 if x == types.float32 else _exp_float64


def _exp_float64(x: Any) -> Any:
    if x == INFINITE or x == -INFINITE:
        return math.exp(x)
    return math.exp(-700.0 if x < -700.0 else 700.0 if x > 700.0 else x)


def _exp_float32(x: Any) -> Any:
    # e^x = 2^k e^r with |r| <= log(2) / 2. The sum with 1.5 * 2^23 has the whole number k in its last bits, which go
    # into the exponent's. e^r is the polynomial of degree 6 with the smallest largest relative error (3e-9).
    # Comparisons, not min and max: those lose a NaN.
    given = x
    x = -LIMIT if x < -LIMIT else LIMIT if x > LIMIT else x
    whole = x * np.float32(1.44269504) + np.float32(12582912.0)
    k = whole - np.float32(12582912.0)
    r = (x - k * np.float32(0.693359375)) - k * np.float32(-2.12194440e-4)
    p = np.float32(1.4061241e-3)
    p = p * r + np.float32(8.3790114e-3)
    p = p * r + np.float32(4.1664775e-2)
    p = p * r + np.float32(1.6666366e-1)
    p = p * r + np.float32(5.0000006e-1)
    p = p * r + np.float32(1.0)
    p = p * r + np.float32(1.0)
    p *= _float_of_bits((_bits_of_float(whole) << np.int32(23)) + np.int32(0x3F800000))
    # A gate that is exactly 0 makes NaN of an infinite state, as in torch; one that is nearly 0 would keep it infinite.
    return ZERO if given == -INFINITE else INFINITE if given == INFINITE else p


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    raise NotImplementedError("called from compiled code only")


@overload(tanh, jit_options=INLINED)
def _tanh(x: Any) -> Callable[[Any], Any]:
    return _tanh_float32 if x == types.float32 else _tanh_float64


def _tanh_float64(x: Any) -> Any:
    return math.tanh(x)


def _tanh_float32(x: Any) -> Any:
    # Near zero an odd polynomial (Cephes): 1 - 2 / (e^2x + 1) would lose every digit there.
    square = x * x
    p = np.float32(-5.70498872745e-3)
    p = p * square + np.float32(2.06390887954e-2)
    p = p * square + np.float32(-5.37397155531e-2)
    p = p * square + np.float32(1.33314422036e-1)
    p = p * square + np.float32(-3.33332819422e-1)
    small = p * square * x + x
    large = ONE - TWO / (exp(TWO * x) + ONE)
    return small if abs(x) < np.float32(0.625) else large


@numba.njit(**INLINED)
def sigmoid(x: Any) -> Any:
    """1 / (1 + e^-x)."""
    return ONE / (ONE + exp(-x))


@numba.njit(**INLINED)
def complement(e: Any, z: Any) -> Any:
    """1 - z without cancellation, for z = 1 / (1 + e)."""
    return ONE if e == INFINITE else e * z


@numba.njit(**INLINED)
def g(x: Any) -> Any:
    """x + 1/2 from 0 on, sigmoid below (see `gatedrnn.cells.activations.g`)."""
    return x + HALF if x >= ZERO else sigmoid(x)


@numba.njit(**INLINED)
def g_slope(x: Any) -> Any:
    """The derivative of `g`."""
    s = sigmoid(x)
    return ONE if x >= ZERO else s * (ONE - s)


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
        _control(builder, "stmxcsr", address)
        before = builder.load(address)
        builder.store(builder.or_(before, cgutils.int32_t(FLUSH)), address)
        _control(builder, "ldmxcsr", address)
        return before

    return types.int32(), build


@intrinsic
def restore_denormals(typing: Any, before: Any) -> Any:
    """Treat denormal numbers as before `flush_denormals`, for the next user of the thread."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if ON_X86:
            address = cgutils.alloca_once(builder, cgutils.int32_t)
            builder.store(arguments[0], address)
            _control(builder, "ldmxcsr", address)
        return context.get_dummy_value()

    return types.none(types.int32), build


def _control(builder: Any, name: str, address: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.sse.{name}")
    builder.call(function, [builder.bitcast(address, cgutils.voidptr_t)])
