"""Elementary functions that LLVM vectorises inside a loop over a row, and rows of bfloat16.

float32 goes through polynomials, accurate to about 1e-7 of the value; float64 through the C library. A NaN stays one.
"""

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload
from numba.np.arrayobj import populate_array

# Typed, for a Python number would turn a row of float32 into float64; in float64 the same numbers are exact.
ZERO, HALF, ONE, TWO = (np.float32(x) for x in (0.0, 0.5, 1.0, 2.0))
NEAREST_CACHE, IS_DATA = 3, 1  # what llvm.prefetch calls them
INFINITE = np.float32(math.inf)
LIMIT = np.float32(87.0)  # e^87 and e^-87 are near the ends of float32
FAST = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}, "no_cfunc_wrapper": True}
"""Options of every kernel: no lock held, no branch on a division, products and sums may be fused."""

INNER = FAST | {"no_cpython_wrapper": True}
"""Options of what only compiled code calls."""
INLINED = {
    "error_model": "numpy", "fastmath": {"contract"}, "forceinline": True, "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}  # fmt: skip
"""Options of what stands in the inner loops: a call that is left in a loop keeps it from being vectorised."""


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


@intrinsic
def borrowed(typing: Any, array: Any) -> Any:
    """The same array without a count of its users: slices of a counted one cost an atomic operation each, and threads
    that share it wait for each other there. The caller keeps the array alive."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(array)(context, builder, arguments[0])
        made.meminfo = cgutils.get_null_value(made.meminfo.type)
        made.parent = cgutils.get_null_value(made.parent.type)
        return made._getvalue()

    return array(array), build


@intrinsic
def keep_alive(typing: Any, array: Any) -> Any:
    """A use of an array of one's own, after the last one of what is `borrowed` of it: without it, its memory is given
    back as soon as it is borrowed, and the next array may get it."""
    return types.none(array), lambda context, *_: context.get_dummy_value()


@intrinsic
def part(typing: Any, array: Any, start: Any, size: Any) -> Any:
    """array[start : start + size] of a borrowed array, without a slice's checks: they cost as much as a short row."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _part(context, builder, array, *arguments)

    return array(array, types.intp, types.intp), build


def _part(context: Any, builder: Any, array: Any, numbers: Any, start: Any, size: Any) -> Any:
    whole, made = context.make_array(array)(context, builder, numbers), context.make_array(array)(context, builder)
    populate_array(
        made, data=builder.gep(whole.data, [start]), shape=[size], strides=[whole.itemsize], itemsize=whole.itemsize,
        meminfo=None,
    )  # fmt: skip
    return made._getvalue()


@intrinsic
def block(typing: Any, array: Any, number: Any, size: Any) -> Any:
    """The part of `size` numbers that has so many of its size before it: a gate of a row, a row of a table."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers, count, length = arguments
        return _part(context, builder, array, numbers, builder.mul(count, length), length)

    return array(array, types.intp, types.intp), build


@intrinsic
def prefetch(typing: Any, array: Any, place: Any) -> Any:
    """Ask for the line of memory that holds this number, before it is read."""
    return types.none(array, types.intp), _asking(for_writing=0)


@intrinsic
def prefetch_to_write(typing: Any, array: Any, place: Any) -> Any:
    """The same, before it is written."""
    return types.none(array, types.intp), _asking(for_writing=1)


def _asking(for_writing: int) -> Callable[[Any, Any, Any, Any], Any]:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(numbers.data, [arguments[1]]), cgutils.voidptr_t)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, *(cgutils.int32_t,) * 3])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, *(cgutils.int32_t(n) for n in (for_writing, NEAREST_CACHE, IS_DATA))])
        return context.get_dummy_value()

    return build


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
def copy(row: Any, to: Any) -> None:
    """to[:] = row, without a comparison of their sizes: to compile its message takes two seconds."""
    for i in range(to.size):
        to[i] = row[i]


@numba.njit(**INLINED)
def clear(row: Any) -> None:
    """row[:] = 0, as quickly compiled."""
    for i in range(row.size):
        row[i] = ZERO


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


def widened(row: Any, room: Any) -> Any:
    """A row as it is read: itself, or, if it holds the bits of bfloat16, its numbers, written into `room`."""
    raise NotImplementedError("called from compiled code only")


@overload(widened, jit_options=INLINED)
def _widened(row: Any, room: Any) -> Callable[[Any, Any], Any]:
    return _itself if isinstance(row.dtype, types.Float) else _float_of_bfloat16


def _itself(row: Any, room: Any) -> Any:
    return row


def _float_of_bfloat16(row: Any, room: Any) -> Any:
    wide = part(room, 0, row.size)
    bits = wide.view(np.uint32)
    for i in range(row.size):
        bits[i] = np.uint32(row[i]) << np.uint32(16)
    return wide


def shifted(row: Any, bias: Any, room: Any) -> Any:
    """The same with a bias added, in `room`; without one if there is none."""
    raise NotImplementedError("called from compiled code only")


@overload(shifted, jit_options=INLINED)
def _shifted(row: Any, bias: Any, room: Any) -> Callable[[Any, Any, Any], Any]:
    return _sum_of_floats if isinstance(row.dtype, types.Float) else _sum_with_bfloat16


def _sum_of_floats(row: Any, bias: Any, room: Any) -> Any:
    if not bias.size:
        return row
    wide = part(room, 0, row.size)
    for i in range(row.size):
        wide[i] = row[i] + bias[i]
    return wide


def _sum_with_bfloat16(row: Any, bias: Any, room: Any) -> Any:
    wide = widened(row, room)
    if bias.size:
        for i in range(row.size):
            wide[i] += bias[i]
    return wide


def place_for(row: Any, room: Any) -> Any:
    """Where numbers for `row` are put together: in it, or, if it is to hold bfloat16, in `room`."""
    raise NotImplementedError("called from compiled code only")


@overload(place_for, jit_options=INLINED)
def _place_for(row: Any, room: Any) -> Callable[[Any, Any], Any]:
    return _itself if isinstance(row.dtype, types.Float) else _room_of_a_row


def _room_of_a_row(row: Any, room: Any) -> Any:
    return part(room, 0, row.size)


def store(place: Any, row: Any) -> Any:
    """Bring what `place_for` gave out into its row, rounded to the nearest, ties to even."""
    raise NotImplementedError("called from compiled code only")


@overload(store, jit_options=INLINED)
def _store(place: Any, row: Any) -> Callable[[Any, Any], Any]:
    return _is_stored if isinstance(row.dtype, types.Float) else _bfloat16_of_float


def _is_stored(place: Any, row: Any) -> Any:
    return None


def _bfloat16_of_float(place: Any, row: Any) -> Any:
    bits = place.view(np.uint32)
    for i in range(row.size):
        b = bits[i]
        rounded = b + np.uint32(0x7FFF) + ((b >> np.uint32(16)) & np.uint32(1))
        # Rounding up could turn a NaN into an infinity: a quiet NaN keeps its upper half instead.
        number = (b & np.uint32(0x7FFFFFFF)) <= np.uint32(0x7F800000)
        row[i] = np.uint16((rounded if number else b | np.uint32(0x00400000)) >> np.uint32(16))
