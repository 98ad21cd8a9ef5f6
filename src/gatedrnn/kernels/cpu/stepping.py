"""One step of a stack of scan cells, for streams: products, gates and states of all layers in one call."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numba.core import types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from torch import Tensor

from gatedrnn.equations import ScanKernel
from gatedrnn.kernels.cpu.compiling import compiled
from gatedrnn.kernels.cpu.gates import code_of
from gatedrnn.kernels.cpu.loops import walk
from gatedrnn.kernels.cpu.memory import DTYPES, Memory
from gatedrnn.kernels.cpu.numbers import FAST, ZERO, block, borrowed, copy
from gatedrnn.kernels.cpu.rows import Plan, Reading
from gatedrnn.shapes import Channels, State, Step

SUMMED = FAST | {"fastmath": {"contract", "reassoc", "nsz"}}  # the order of a sum is free
LIKE = {dtype: np.empty(0, DTYPES[dtype]) for dtype in (torch.float64, torch.float32, torch.bfloat16)}
"""What says of which type the numbers at an address are."""


def gated_step(
    record: ScanKernel, projected: Step, bias: Channels | None, before: State, after: State, layer: int
) -> Step:
    """A scan cell's output, in the dtype of `projected`, from the projections of one step (batch, gates · channels).

    Args:
        projected: float64, float32 or bfloat16.
        bias: added to them, in the dtype of accumulation.
        before: states of all layers (layers, batch, channels), contiguous, in the dtype of accumulation.
        after: where the next state of `layer` goes; the same of that.
    """
    _, batch, channels = after.shape
    projected, added, code = projected.contiguous(), None if bias is None else bias.contiguous(), code_of(record)
    output = projected.new_empty(batch, channels)
    places = [x.data_ptr() for x in (projected, before, after, output)] + [0 if added is None else added.data_ptr()]
    _gated(
        code, record.gates, batch, channels, layer, len(after), record.squash, LIKE[projected.dtype],
        LIKE[after.dtype], np.array(places, np.int64),
    )  # fmt: skip
    return output


def stack_step(
    record: ScanKernel, x: Step, weights: Sequence[Tensor], biases: Sequence[Tensor], before: State, after: State
) -> Step:
    """The top layer's output at one step of a stack, without any other call in between.

    Args:
        x: (batch, features), contiguous, float32 or float64; all tensors are in its dtype.
        weights: of each layer, (gates · channels, its input), contiguous.
        biases: of each layer, or none at all.
        before, after: states of all layers, as in `gated_step`.
    """
    layers, batch, channels = after.shape
    output, code = x.new_empty(batch, channels), code_of(record)
    x = x.resolve_neg()  # a lazy sign is nothing that memory shows
    # Addresses, for a tuple of arrays would be unpacked one by one, and compiled anew for each number of layers.
    places = np.array([w.data_ptr() for w in (x, before, after, output, *weights, *biases)], np.int64)
    _stack(code, record.gates, layers, batch, channels, x.shape[1], record.squash, LIKE[x.dtype], places)
    return output


@intrinsic
def at_address(typing: Any, like: Any, address: Any, size: Any) -> Any:
    """The array of `size` numbers at an address; somebody else keeps it alive."""
    found = types.Array(like.dtype, 1, "C")

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(found)(context, builder)
        width = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(like.dtype)))
        populate_array(
            made, data=builder.inttoptr(arguments[1], context.get_data_type(like.dtype).as_pointer()),
            shape=[arguments[2]], strides=[width], itemsize=width, meminfo=None,
        )  # fmt: skip
        return made._getvalue()

    return found(like, types.int64, types.int64), build


@compiled(**FAST)
def _gated(
    kind: int, gates: int, batch: int, channels: int, layer: int, layers: int, squashed: bool, like: Any, wide: Any,
    places: Any,
) -> None:  # fmt: skip
    projected = at_address(like, places[0], batch * gates * channels)
    before = at_address(wide, places[1], layers * batch * channels)
    after = at_address(wide, places[2], layers * batch * channels)
    output = at_address(like, places[3], batch * channels)
    bias = at_address(wide, places[4], gates * channels if places[4] else 0)
    _step(kind, gates, batch, channels, layer, projected, bias, squashed, before, after, output)


@compiled(**FAST)
def _stack(
    kind: int, gates: int, layers: int, batch: int, channels: int, inputs: int, squashed: bool, like: Any, places: Any
) -> None:
    below = at_address(like, places[0], batch * inputs)
    before = at_address(like, places[1], layers * batch * channels)
    after = at_address(like, places[2], layers * batch * channels)
    output = at_address(like, places[3], batch * channels)
    weights, biases = places[4 : 4 + layers], places[4 + layers :]
    width = gates * channels
    projected, bias = np.empty(batch * width, like.dtype), at_address(like, 0, 0)
    for layer in range(layers):
        read = inputs if layer == 0 else channels
        _products(batch, read, below, width, at_address(like, weights[layer], width * read), borrowed(projected))
        if biases.size:
            bias = at_address(like, biases[layer], width)
        _step(kind, gates, batch, channels, layer, borrowed(projected), bias, squashed, before, after, output)
        below = output


@compiled(**SUMMED)
def _products(rows: int, inner: int, x: Any, width: int, matrix: Any, out: Any) -> None:
    """out = x @ matrix.T; x (rows, inner), matrix (width, inner), row by row. Reads the matrix once."""
    for j in range(width):
        weights = block(matrix, j, inner)
        for r in range(rows):
            total, row = ZERO * weights[0], block(x, r, inner)
            for k in range(inner):
                total += weights[k] * row[k]
            out[r * width + j] = total


@compiled(**FAST)
def _step(
    kind: int, gates: int, batch: int, channels: int, layer: int, projected: Any, bias: Any, squashed: bool,
    before: Any, after: Any, output: Any,
) -> None:  # fmt: skip
    none, nothing, width = np.empty(0, np.bool_), np.zeros(0, after.dtype), gates * channels
    third = Memory(projected, width, width, 2 * channels) if gates == 3 else Memory(projected[:0], 0, 0, 0)
    given = Reading(
        kind, Memory(projected, width, width, 0), Memory(projected, width, width, channels), third, bias, none, none,
        nothing,
    )  # fmt: skip
    state = block(after, layer, batch * channels)
    copy(block(before, layer, batch * channels), state)
    plan = Plan(1, channels, channels, 1, False, 0, batch, 0, 1)
    walk(0, batch, plan, given, state, squashed, False, Memory(output, channels, channels, 0))
