"""Views of memory that compiled loops read and write: tensors as flat arrays and strides, and rows of them.

Tensors come in through their memory, not their shape. LLVM vectorises a loop over a 1-D view, and does not over three
indices.
"""

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias, get_type_hints

import numba
import numpy as np
import torch
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from torch import Tensor

from gatedrnn.kernels.cpu.compile import INLINED
from gatedrnn.kernels.cpu.functions import ZERO
from gatedrnn.shapes import Flags, Series

_BYTES = ctypes.c_char * (1 << 62)  # an upper bound: each reader states its own size
DTYPES: dict[torch.dtype, Any] = {
    # numpy has no bfloat16: kernels convert its 16 bits themselves.
    torch.float64: np.dtype(np.float64), torch.float32: np.dtype(np.float32), torch.bfloat16: np.dtype(np.uint16),
    torch.int64: np.dtype(np.int64), torch.bool: np.dtype(np.bool_),
}  # fmt: skip
LIKE = {dtype: np.empty(0, DTYPES[dtype]) for dtype in (torch.float64, torch.float32, torch.bfloat16)}
"""Empty arrays that give `at_address` its element type."""
Array: TypeAlias = np.ndarray
"""Flat and contiguous."""


def flat(x: Tensor, size: int | None = None) -> np.ndarray:
    """A contiguous tensor's elements, or the first `size` ones of any in the order of memory; of bfloat16 the bits.

    Not `Tensor.numpy`, after which no storage can be resized: FSDP frees the parameters of a layer by that.
    """
    assert x.is_cpu and (size is not None or x.is_contiguous())
    memory: Any = _BYTES.from_address(x.data_ptr())
    memory.tensor = x  # which lives as long as the array does
    return np.ndarray(x.numel() if size is None else size, DTYPES[x.dtype], memory)


class StridedView(NamedTuple):
    """A series in memory: its elements, and how far apart sequences and steps are in them."""

    elements: np.ndarray
    batch_stride: int
    time_stride: int


def strided(x: Series) -> StridedView:
    """(batch, time, channels) as it lies in memory; copied only if its channels are not adjacent.

    Strides may be zero: the backward of a sum passes one element expanded to the whole shape.
    """
    # The stride of an axis of size 1 means nothing, and torch sets it as it likes.
    if x.stride(2) != 1 and x.shape[2] > 1:
        x = x.contiguous()
    if x.is_contiguous():
        return StridedView(flat(x), x.shape[1] * x.shape[2], x.shape[2])
    # Up to the last element that strides reach: memory behind it may belong to another tensor.
    span = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
    return StridedView(flat(x, span), x.stride(0), x.stride(1))


def flags(x: Flags | None) -> np.ndarray:
    """(batch, time) as a flat array; empty for None."""
    return np.empty(0, np.bool_) if x is None else flat(x.contiguous())


@intrinsic
def at_address(typing: Any, like: Any, address: Any, size: Any) -> Any:
    """The array of `size` elements at an address; the caller keeps it alive."""
    array_type = types.Array(like.dtype, 1, "C")

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(array_type)(context, builder)
        width = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(like.dtype)))
        populate_array(
            array, data=builder.inttoptr(arguments[1], context.get_data_type(like.dtype).as_pointer()),
            shape=[arguments[2]], strides=[width], itemsize=width, meminfo=None,
        )  # fmt: skip
        return array._getvalue()

    return array_type(like, types.int64, types.int64), build


@intrinsic
def borrowed(typing: Any, array: Any) -> Any:
    """Return an array without its reference count: slices of a counted one cost an atomic operation each, and threads
    that share it wait for each other there. The caller keeps the array alive."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(array)(context, builder, arguments[0])
        made.meminfo = cgutils.get_null_value(made.meminfo.type)
        made.parent = cgutils.get_null_value(made.parent.type)
        return made._getvalue()

    return array(array), build


@intrinsic
def keep_alive(typing: Any, arrays: Any) -> Any:
    """A use of an array, or of a tuple of them, after the last use of its `borrowed` views: without it, its memory is
    freed as soon as it is borrowed, and the next array may get it."""
    return types.none(arrays), lambda context, *_: context.get_dummy_value()


@intrinsic
def view(typing: Any, array: Any, start: Any, size: Any) -> Any:
    """array[start : start + size] of a borrowed array, without a slice's checks: they cost as much as a short row."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _view(context, builder, array, *arguments)

    return array(array, types.intp, types.intp), build


def _view(context: Any, builder: Any, array: Any, elements: Any, start: Any, size: Any) -> Any:
    whole, made = context.make_array(array)(context, builder, elements), context.make_array(array)(context, builder)
    populate_array(
        made, data=builder.gep(whole.data, [start]), shape=[size], strides=[whole.itemsize], itemsize=whole.itemsize,
        meminfo=None,
    )  # fmt: skip
    return made._getvalue()


@intrinsic
def block(typing: Any, array: Any, index: Any, size: Any) -> Any:
    """view(array, index * size, size): a gate of a row, a row of a table."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        elements, count, length = arguments
        return _view(context, builder, array, elements, builder.mul(count, length), length)

    return array(array, types.intp, types.intp), build


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


Addresses: TypeAlias = Sequence[int]
"""A list of whole numbers in a record of `words_of`."""


def addresses(tensors: Iterable[Tensor | None]) -> Addresses:
    """Return where tensors begin in memory, 0 for None."""
    return [0 if tensor is None else tensor.data_ptr() for tensor in tensors]


def words_of(record: type[Any]) -> tuple[Callable[[Any], Array], Any]:
    """Return two functions of a named tuple of whole numbers and lists of them (`Addresses`).

    The first packs it into one array: a tuple of arrays would be taken apart one by one at every call, and compiled
    anew for each number of them. The second, for compiled code, gives the same named tuple again, with views for lists.
    """
    hints = get_type_hints(record)
    numbers, lists = ([name for name in hints if (hints[name] == Addresses) is is_list] for is_list in (False, True))
    head = [*(f"record.{name}" for name in numbers), *(f"len(record.{name})" for name in lists)]
    tail = [f"*record.{name}" for name in lists]
    fields = {name: f"words[{i}]" for i, name in enumerate(numbers)} | {name: f"{name}_" for name in lists}
    lines = [f"at = {len(head)}"]
    for i, name in enumerate(lists, len(numbers)):
        lines += [f"{name}_ = view(words, at, words[{i}])", f"at += words[{i}]"]
    source = f"""
def pack(record):
    return array([{", ".join([*head, *tail])}], int64)

def unpack(words):
    {"; ".join(lines)}
    return record({", ".join(fields[name] for name in hints)})
"""
    names: dict[str, Any] = {"array": np.array, "int64": np.int64, "view": view, "record": record}
    exec(source, names)
    return names["pack"], numba.njit(**INLINED)(names["unpack"])
