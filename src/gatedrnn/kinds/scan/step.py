"""One step of a stack of cells without products in time, for streams: products, gates and states in one call.

A step of few rows takes as long as its weights take to be read. They are read in place, once.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from torch import Tensor

from gatedrnn.codegen.row import Row
from gatedrnn.kernels.cpu.compile import FAST, INLINED, REORDERED, compiled
from gatedrnn.kernels.cpu.functions import ZERO, flush_denormals, restore_denormals
from gatedrnn.kernels.cpu.rows import address_of, call_row, copy_bytes, dtype_name, row_address
from gatedrnn.kernels.cpu.threads import recorded_rows
from gatedrnn.kernels.cpu.views import (
    LIKE,
    Addresses,
    addresses,
    at_address,
    block,
    borrowed,
    keep_alive,
    view,
    words_of,
)
from gatedrnn.kinds.scan.rows import CellProgram
from gatedrnn.shapes import Channels, InputStep, State, Step


class Gated(NamedTuple):
    """A step of one layer from its projections; addresses, and the sizes of a number of them and of a state."""

    batch: int
    channels: int
    gates: int
    size: int
    wide: int
    projected: int
    bias: int
    output: int
    before: int
    after: int
    diagonals: Addresses
    row: Addresses
    """The address of the function, and the codes of its rows."""


class Stack(NamedTuple):
    """A step of all layers from the input; addresses of all tensors, the lists one for each layer or state."""

    gates: int
    layers: int
    batch: int
    channels: int
    inputs: int
    """Features of the input."""
    biased: int
    x: int
    output: int
    before: Addresses
    after: Addresses
    weights: Addresses
    """The matrix of each layer, its bias if `biased`, and its diagonal weights."""
    row: Addresses
    """The function and its rows, as in `Gated`."""


_pack_gated, _gated_of = words_of(Gated)
_pack_stack, _stack_of = words_of(Stack)


def gated_step(
    program: CellProgram, projected: Step, bias: Channels | None, diagonals: Sequence[Channels], before: State,
    after: State, layer: int,
) -> Step:  # fmt: skip
    """A scan cell's output, in the dtype of `projected`, from the projections of one step (batch, gates · channels).

    Args:
        projected: float64, float32 or bfloat16.
        bias: added to them, in the dtype of accumulation.
        diagonals: the diagonal weights of the layer, likewise.
        before: states of all layers (layers, batch, channels), contiguous, in the dtype of accumulation; of one layer
            also (batch, channels).
        after: where the next state of `layer` goes; the same of that.
    """
    batch, channels = after.shape[-2:]
    projected, added = projected.contiguous(), None if bias is None else bias.contiguous()
    weights = [weight.contiguous() for weight in diagonals]
    output, offset = projected.new_empty(batch, channels), layer * batch * channels * after.element_size()
    # Before the test below: finding the row is what records its source.
    row = _row(program, projected.dtype, added is not None)
    if recorded_rows() is not None:
        return output
    step = Gated(
        batch, channels, program.gates, projected.element_size(), after.element_size(), projected.data_ptr(),
        0 if added is None else added.data_ptr(), output.data_ptr(), before.data_ptr() + offset,
        after.data_ptr() + offset, addresses(weights), row,
    )  # fmt: skip
    _gated(_pack_gated(step))
    return output


def stack_step(
    program: CellProgram, x: InputStep, layers: int, weights: Sequence[Tensor | None], biased: bool,
    before: tuple[State, ...],
) -> tuple[Step, tuple[State, ...]]:  # fmt: skip
    """The top layer's output at one step of a stack, and the states after it, without any other call in between.

    Args:
        x: (batch, features), contiguous, float32 or float64; all tensors are in its dtype.
        weights: of each layer its matrix (gates · channels, its input), its bias if `biased`, and its diagonal weights,
            all contiguous.
        before: the states of all layers, each as in `gated_step`.
    """
    after, (batch, channels) = tuple(torch.empty_like(state) for state in before), before[0].shape[-2:]
    output = x.new_empty(batch, channels)
    x = x.resolve_neg()  # a lazy sign does not show in memory
    row = _row(program, x.dtype, biased)
    if recorded_rows() is not None:
        return output, after
    step = Stack(
        program.gates, layers, batch, channels, x.shape[1], biased, x.data_ptr(), output.data_ptr(), addresses(before),
        addresses(after), addresses(weights), row,
    )  # fmt: skip
    _stack(LIKE[x.dtype], _pack_stack(step))
    return output, after


OUTPUT, STATE = -1, -2
"""Codes of rows; -2 and -3 are those of the states. Those of projections, of their biases, and of diagonal weights
count from 0."""


def _row(program: CellProgram, dtype: torch.dtype, biased: bool) -> tuple[int, ...]:
    """The address of the function of a forward step, and the codes of its rows."""
    row, dtypes, codes = _row_of(program, dtype, biased)
    return row_address(row, program.word, dtypes), *codes


@cache
def _row_of(program: CellProgram, dtype: torch.dtype, biased: bool) -> tuple[Row, tuple[str, ...], tuple[int, ...]]:
    """The function of a forward step, and the dtypes and codes of its rows."""
    code_of, gates = {"output": OUTPUT}, program.gates
    code_of |= {name: STATE - s for s, name in enumerate(program.states)}
    for i, name in enumerate(program.projections):
        code_of |= {f"x_{name}": i, f"b_{name}": gates + i}
    code_of |= {f"w_{name}": 2 * gates + i for i, name in enumerate(program.diagonals)}
    row = (program.biased if biased else program.plain).forward
    codes, wide = tuple(code_of[name] for name in row.rows), torch.float64 if dtype == torch.float64 else torch.float32
    return row, tuple(dtype_name(wide if code <= STATE or code >= gates else dtype) for code in codes), codes


@compiled(**FAST)
def _gated(words: Any) -> None:
    step = _gated_of(borrowed(words))
    memory = np.empty(1, np.int64)
    states = borrowed(memory)
    states[0] = step.after
    exactness = flush_denormals()
    # The function of rows changes states in place; the caller's stay as they are.
    copy_bytes(step.before, step.after, step.batch * step.channels * step.wide)
    _elementwise_step(
        step.batch, step.channels, step.gates, step.size, step.wide, step.projected, step.bias, step.output, states,
        step.diagonals, step.row,
    )  # fmt: skip
    keep_alive(memory)
    restore_denormals(exactness)


@numba.njit(**INLINED)
def _elementwise_step(
    batch: int, channels: int, gates: int, size: int, wide: int, projected: int, bias: int, output: int, states: Any,
    diagonals: Any, row: Any,
) -> None:  # fmt: skip
    """One step of all sequences; addresses, and the sizes of a number of the projections and of a state."""
    memory = np.empty(row.size, np.int64)
    table = borrowed(memory)
    row_table = address_of(table)
    for r in range(batch):
        for place in range(row.size - 1):
            code = row[place + 1]
            if code <= STATE:
                table[place] = states[STATE - code] + r * channels * wide
            elif code == OUTPUT:
                table[place] = output + r * channels * size
            elif code < gates:
                table[place] = projected + (r * gates + code) * channels * size
            elif code < 2 * gates:
                table[place] = bias + (code - gates) * channels * wide
            else:
                table[place] = diagonals[code - 2 * gates]
        call_row(row[0], channels, row_table)
    keep_alive(memory)


@compiled(**FAST)
def _stack(like: Any, words: Any) -> None:
    step = _stack_of(borrowed(words))
    batch, channels, size = step.batch, step.channels, like.itemsize
    below, width = at_address(like, step.x, batch * step.inputs), step.gates * channels
    count, others = step.after.size, 1 + step.biased
    memory, pointers = np.empty(batch * width, like.dtype), np.empty(count, np.int64)
    projected, states = borrowed(memory), borrowed(pointers)
    exactness = flush_denormals()
    for layer in range(step.layers):
        read, offset = step.inputs if layer == 0 else channels, layer * batch * channels * size
        weights = block(step.weights, layer, step.weights.size // step.layers)
        _products(batch, read, below, width, at_address(like, weights[0], width * read), projected)
        for s in range(count):
            states[s] = step.after[s] + offset
            copy_bytes(step.before[s] + offset, states[s], batch * channels * size)
        _elementwise_step(
            batch, channels, step.gates, size, size, address_of(projected),
            weights[1] if step.biased else 0, step.output, states, view(weights, others, weights.size - others),
            step.row,
        )  # fmt: skip
        # The next layer multiplies this output before it writes its own to the same place.
        below = at_address(like, step.output, batch * channels)
    keep_alive((memory, pointers))
    restore_denormals(exactness)


@compiled(**REORDERED)
def _products(rows: int, inner: int, x: Any, width: int, matrix: Any, out: Any) -> None:
    """out = x @ matrix.T; x (rows, inner), matrix (width, inner), row by row. Reads the matrix once."""
    for j in range(width):
        weights = block(matrix, j, inner)
        for r in range(rows):
            # In the dtype of the weights: a Python 0.0 would turn the sum into float64.
            total, row = ZERO * weights[0], block(x, r, inner)
            for k in range(inner):
                total += weights[k] * row[k]
            out[r * width + j] = total
