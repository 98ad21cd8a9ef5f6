"""One step of a stack of cells, for streams: products, gates and states of all layers in one call.

A step of few rows takes as long as its weights take to be read. They are read in place, once; threads share the
channels of a layer of loop cells.
"""

import os
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from torch import Tensor

from gatedrnn.codegen.elementwise import CellProgram
from gatedrnn.codegen.loop import LoopProgram
from gatedrnn.codegen.row import Row
from gatedrnn.kernels.cpu._compile import FAST, INLINED, REORDERED, compiled
from gatedrnn.kernels.cpu._math import ZERO, flush_denormals, restore_denormals
from gatedrnn.kernels.cpu._rows import address_of, call_row, copy_bytes, dtype_name, row_address
from gatedrnn.kernels.cpu._threads import on_team, recorded_rows, team
from gatedrnn.kernels.cpu._views import LIKE, at_address, block, borrowed, copy, keep_alive, view
from gatedrnn.shapes import Channels, InputStep, State, Step

BLOCK = 32  # channels of a work item
WORTH_A_THREAD = 1 << 17  # weights of a layer below which a second thread costs more than it saves
WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
"""Of a layer, in the order in which `loop_step` takes them; its diagonal weights follow."""


def gated_step(
    program: CellProgram, projected: Step, bias: Channels | None, diagonals: Sequence[Channels], before: State,
    after: State, layer: int,
) -> Step:  # fmt: skip
    """A scan cell's output, in the dtype of `projected`, from the projections of one step (batch, gates · channels).

    Args:
        projected: float64, float32 or bfloat16.
        bias: added to them, in the dtype of accumulation.
        diagonals: the diagonal weights of the layer, likewise.
        before: states of all layers (layers, batch, channels), contiguous, in the dtype of accumulation.
        after: where the next state of `layer` goes; the same of that.
    """
    _, batch, channels = after.shape
    projected, added = projected.contiguous(), None if bias is None else bias.contiguous()
    weights = [weight.contiguous() for weight in diagonals]
    output, offset = projected.new_empty(batch, channels), layer * batch * channels * after.element_size()
    row = _row(program, projected.dtype, added is not None)
    if recorded_rows() is not None:
        return output
    call = [
        batch, channels, program.gates, projected.element_size(), after.element_size(), projected.data_ptr(),
        0 if added is None else added.data_ptr(), output.data_ptr(), before.data_ptr() + offset,
        after.data_ptr() + offset, len(weights), *[weight.data_ptr() for weight in weights], *row,
    ]  # fmt: skip
    _gated(np.array(call, np.int64))
    return output


def stack_step(
    program: CellProgram, x: InputStep, weights: Sequence[Tensor], biases: Sequence[Tensor],
    diagonals: Sequence[Tensor], before: Sequence[State], after: Sequence[State],
) -> Step:  # fmt: skip
    """The top layer's output at one step of a stack, without any other call in between.

    Args:
        x: (batch, features), contiguous, float32 or float64; all tensors are in its dtype.
        weights: of each layer, (gates · channels, its input), contiguous.
        biases: of each layer, or none at all.
        diagonals: the diagonal weights of the first layer, of the second one, …
        before, after: the states of all layers, each as in `gated_step`.
    """
    layers, batch, channels = after[0].shape
    output = x.new_empty(batch, channels)
    x = x.resolve_neg()  # a lazy sign does not show in memory
    row = _row(program, x.dtype, bool(biases))
    if recorded_rows() is not None:
        return output
    # Addresses, for a tuple of arrays would be unpacked one by one, and compiled anew for each number of layers.
    call = [
        program.gates, layers, batch, channels, x.shape[1], len(after), len(biases), len(program.diagonals), len(row),
        *[w.data_ptr() for w in (x, output, *before, *after, *weights, *biases, *diagonals)], *row,
    ]  # fmt: skip
    _stack(LIKE[x.dtype], np.array(call, np.int64))
    return output


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
    known, gates = {"output": OUTPUT}, program.gates
    known |= {name: STATE - s for s, name in enumerate(program.states)}
    for i, name in enumerate(program.projections):
        known |= {f"x_{name}": i, f"b_{name}": gates + i}
    known |= {f"w_{name}": 2 * gates + i for i, name in enumerate(program.diagonals)}
    row = (program.biased if biased else program.plain).forward
    codes, wide = tuple(known[name] for name in row.rows), torch.float64 if dtype == torch.float64 else torch.float32
    return row, tuple(dtype_name(wide if code <= STATE or code >= gates else dtype) for code in codes), codes


@compiled(**FAST)
def _gated(call: Any) -> None:
    batch, channels, gates, size, wide, projected, bias, output, before, after = call[:10]
    exactness = flush_denormals()
    copy_bytes(before, after, batch * channels * wide)
    diagonals, row = call[11 : 11 + call[10]], call[11 + call[10] :]
    _elementwise_step(batch, channels, gates, size, wide, projected, bias, output, call[9:10], diagonals, row)
    restore_denormals(exactness)


@numba.njit(**INLINED)
def _elementwise_step(
    batch: int, channels: int, gates: int, size: int, wide: int, projected: int, bias: int, output: int, states: Any,
    diagonals: Any, row: Any,
) -> None:  # fmt: skip
    """One step of all sequences; addresses, and the sizes of a number of the projections and of a state."""
    memory = np.empty(row.size, np.int64)
    table = borrowed(memory)
    addresses = address_of(table)
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
        call_row(row[0], channels, addresses)
    keep_alive(memory)


@compiled(**FAST)
def _stack(like: Any, call: Any) -> None:
    gates, layers, batch, channels, inputs, count, biases, own, codes = call[:9]
    x_address, output = call[9:11]
    below, width, size = at_address(like, x_address, batch * inputs), gates * channels, like.itemsize
    before, after = call[11 : 11 + count], call[11 + count : 11 + 2 * count]
    weights = call[11 + 2 * count : 11 + 2 * count + layers]
    added = call[11 + 2 * count + layers : 11 + 2 * count + layers + biases]
    diagonals, row = call[11 + 2 * count + layers + biases : call.size - codes], call[call.size - codes :]
    memory, addresses = np.empty(batch * width, like.dtype), np.empty(count, np.int64)
    projected, states = borrowed(memory), borrowed(addresses)
    exactness = flush_denormals()
    for layer in range(layers):
        read, offset = inputs if layer == 0 else channels, layer * batch * channels * size
        _products(batch, read, below, width, at_address(like, weights[layer], width * read), projected)
        for s in range(count):
            states[s] = after[s] + offset
            copy_bytes(before[s] + offset, states[s], batch * channels * size)
        _elementwise_step(
            batch, channels, gates, size, size, address_of(projected), added[layer] if biases else 0, output, states,
            diagonals[layer * own : (layer + 1) * own], row,
        )  # fmt: skip
        below = at_address(like, output, batch * channels)
    keep_alive(memory)
    keep_alive(addresses)
    restore_denormals(exactness)


@compiled(**REORDERED)
def _products(rows: int, inner: int, x: Any, width: int, matrix: Any, out: Any) -> None:
    """out = x @ matrix.T; x (rows, inner), matrix (width, inner), row by row. Reads the matrix once."""
    for j in range(width):
        weights = block(matrix, j, inner)
        for r in range(rows):
            total, row = ZERO * weights[0], block(x, r, inner)
            for k in range(inner):
                total += weights[k] * row[k]
            out[r * width + j] = total


class _Layer(NamedTuple):
    """Sizes of one layer."""

    gates: int
    gated: int
    diagonals: int
    kept: int
    heads: int
    batch: int
    inputs: int
    size: int


def loop_step(
    program: LoopProgram, x: InputStep, weights: Sequence[Tensor | None], before: tuple[State, ...]
) -> tuple[Step, tuple[State, ...]]:  # fmt: skip
    """The top layer's output at one step of a stack, and the states after it.

    Args:
        x: (batch, features), float32 or float64; it and all other tensors are contiguous and of one dtype.
        weights: of each layer those that `WEIGHTS` names, None for those that it does not have, and its diagonals.
        before: each (layers, batch, channels), or of one layer (batch, channels).
    """
    after, size = tuple(torch.empty_like(state) for state in before), before[0].shape[-1]
    output, diagonals = x.new_empty(len(x), size), len(program.diagonals)
    layers = len(weights) // (len(WEIGHTS) + diagonals)
    if recorded_rows() is not None:
        _step_words.__wrapped__(program, x.dtype)
        return output, after
    threads = torch.get_num_threads() if program.gates * size * (x.shape[1] + size) >= WORTH_A_THREAD else 1
    begin = team(os.getpid()) if threads > 1 else None
    # Addresses, for a tuple of arrays would be unpacked one by one, and compiled anew for each number of layers.
    carried, recurrent = len(program.carried), weights[1]
    assert recurrent is not None
    call = [
        layers, len(x), x.shape[1], size, size // recurrent.shape[1], begin or 0, threads if begin else 1, carried,
        x.data_ptr(), output.data_ptr(), before[0].data_ptr(), after[0].data_ptr(), *_step_words(program, x.dtype),
        *[s.data_ptr() for states in (before, after) for s in states[len(states) - carried :]],
        *[0 if w is None else w.data_ptr() for w in weights],
    ]  # fmt: skip
    _loop_stack(LIKE[x.dtype], np.array(call, np.int64))
    return output, after


H, GATED, CARRIED = -1, -2, -3
"""Codes of rows in a loop cell's step; those of the states but h are -3, -4, … Those of input projections, products
with the state, diagonal weights and kept values count from 0."""


@cache
def _step_words(program: LoopProgram, dtype: torch.dtype) -> tuple[int, ...]:
    """What a step knows of a cell: numbers of projections, of those that read a gated state, of diagonal weights and of
    kept values; whether h is a state; the function that shows c, or 0; how long the two parts of the step are; and
    these, each an address and the codes of its rows."""
    counted = [f"{kind}_{name}" for kind in "xu" for name in program.projections]
    counted += [*(f"w_{name}" for name in program.diagonals), *(f"kept_{i}" for i in range(program.kept))]
    codes = {"h": H, "gated": GATED} | {name: code for code, name in enumerate(counted)}
    codes |= {name: CARRIED - i for i, name in enumerate(program.carried)}

    def address(row: Row) -> int:
        return row_address(row, program.word, (dtype_name(dtype),) * len(row.rows))

    gates, *update = [[address(row), *(codes[name] for name in row.rows)] for row in program.forward]
    sizes = program.gates, program.gated, len(program.diagonals), program.kept
    states = "h" in program.states, 0 if program.shown is None else address(program.shown)
    return *sizes, *states, len(gates), sum(map(len, update)), *gates, *(word for row in update for word in row)


@compiled(**FAST)
def _loop_stack(like: Any, call: Any) -> None:
    # Denormals are flushed in the halves alone: threads that start inside here would flush them ever after.
    layers, batch, inputs, size, heads, begin, threads, carried = call[:8]
    x_address, output_address, h_before, h_after = call[8:12]
    count, gated_gates, diagonals, kept, has_h, shown, of_gates, of_update = call[12:20]
    gates, update = call[20 : 20 + of_gates], call[20 + of_gates : 20 + of_gates + of_update]
    rest, each = call[20 + of_gates + of_update :], 4 + diagonals
    c_before, c_after, weights = rest[:carried], rest[carried : 2 * carried], rest[2 * carried :]
    items = (size + BLOCK - 1) // BLOCK
    elements = batch * size
    x, output = at_address(like, x_address, batch * inputs), at_address(like, output_address, elements)
    h0s, hs = at_address(like, h_before, layers * elements), at_address(like, h_after, layers * elements)
    addresses = np.empty(carried, np.int64)
    c = borrowed(addresses)
    memory = np.empty(items * batch * BLOCK * (count + kept) + 3 * elements, like.dtype)
    scratch = borrowed(memory)
    projected = view(scratch, 0, items * batch * BLOCK * count)
    kept_rows = view(scratch, projected.size, items * batch * BLOCK * kept)
    others = view(scratch, projected.size + kept_rows.size, 3 * elements)
    gated, shown_before = block(others, 0, elements), block(others, 1, elements)
    shown_after = block(others, 2, elements)
    for n in range(layers):
        w, layer = block(weights, n, each), _Layer(count, gated_gates, diagonals, kept, heads, batch, inputs, size)
        before, h, offset = block(h0s, n, elements), block(hs, n, elements), n * elements * like.itemsize
        for s in range(carried):
            c[s] = c_after[s] + offset
            copy_bytes(c_before[s] + offset, c[s], elements * like.itemsize)
        if has_h:
            copy(before, h)
        else:  # its state is c, and h the output
            before, h = shown_before, shown_after
            _show(shown, c[0], before)
        if threads > 1:
            on_team(_first_half, begin, items, threads, (layer, gates, w, x, before, h, c, projected, kept_rows, gated))
        else:
            _first_half(0, items, layer, gates, w, x, before, h, c, projected, kept_rows, gated)
        if gated_gates:
            if threads > 1:
                on_team(_second_half, begin, items, threads, (layer, update, w, h, c, projected, kept_rows, gated))
            else:
                _second_half(0, items, layer, update, w, h, c, projected, kept_rows, gated)
        if has_h:
            x = h
        else:
            copy(h, output)
            x = output
        inputs = size
    if has_h:
        copy(x, output)
    keep_alive(memory)
    keep_alive(addresses)


@numba.njit(**INLINED)
def _show(function: int, c: int, h: Any) -> None:
    """The output that follows from a state."""
    memory = np.empty(2, np.int64)
    memory[0], memory[1] = c, address_of(h)
    call_row(function, h.size, address_of(memory))
    keep_alive(memory)


@numba.njit(**INLINED)
def _call(
    row: Any, table: Any, layer: _Layer, low: int, n: int, r: int, h: Any, c: Any, gated: Any, x: Any, u: Any,
    first: int, w: Any, kept: Any,
) -> None:  # fmt: skip
    """Call a function of rows for n channels of a sequence.

    Args:
        c: addresses of the other states.
        x, u, kept: neighbouring rows of n channels; those of u begin with the projection `first`.
        w: addresses of the layer's weights.
    """
    gates, state = layer.gates, r * layer.size + low
    for place in range(row.size - 1):
        code = row[place + 1]
        if code == H:
            table[place] = address_of(h) + state * h.itemsize
        elif code <= CARRIED:
            table[place] = c[CARRIED - code] + state * h.itemsize
        elif code == GATED:
            table[place] = address_of(gated) + state * gated.itemsize
        elif code < gates:
            table[place] = address_of(x) + code * n * x.itemsize
        elif code < 2 * gates:
            table[place] = address_of(u) + (code - gates - first) * n * u.itemsize
        elif code < 2 * gates + layer.diagonals:
            table[place] = w[4 + code - 2 * gates] + low * x.itemsize
        else:
            table[place] = address_of(kept) + (code - 2 * gates - layer.diagonals) * n * kept.itemsize
    call_row(row[0], n, address_of(table))


@compiled(**FAST)
def _first_half(
    first: int, last: int, layer: _Layer, gates: Any, w: Any, x: Any, before: Any, h: Any, c: Any, projected: Any,
    kept_rows: Any, gated: Any,
) -> None:  # fmt: skip
    """A step for blocks of channels; of a cell with a gated state, up to the product with that."""
    exactness = flush_denormals()
    batch, inputs, size, count = layer.batch, layer.inputs, layer.size, layer.gates
    weight_ih = at_address(x, w[0], count * size * inputs)
    own = size // layer.heads
    weight_hh = at_address(x, w[1], count * size * own)
    bias_ih = at_address(x, w[2], count * size if w[2] else 0)
    bias_hh = at_address(x, w[3], count * size if w[3] else 0)
    memory, addresses = np.empty(BLOCK * count * batch, x.dtype), np.empty(gates.size, np.int64)
    scratch, table = borrowed(memory), borrowed(addresses)
    for item in range(first, last):
        low = item * BLOCK
        n = min(BLOCK, size - low)
        wide, kept = count * n, layer.kept * n
        rows, u = view(projected, item * batch * BLOCK * count, batch * wide), view(scratch, 0, batch * wide)
        kept_of_item = view(kept_rows, item * batch * BLOCK * layer.kept, batch * kept)
        for g in range(count):
            _multiply(batch, inputs, x, inputs, weight_ih, bias_ih, g * size + low, n, rows, g * n, wide)
            if g < count - layer.gated:
                begin = low
                while begin < low + n:  # the channels of each head
                    head = begin // own
                    end = min(low + n, (head + 1) * own)
                    read = view(before, head * own, before.size - head * own)
                    at = g * n + begin - low
                    _multiply(batch, own, read, size, weight_hh, bias_hh, g * size + begin, end - begin, u, at, wide)
                    begin = end
        for r in range(batch):
            x_row, u_row, kept_row = block(rows, r, wide), block(u, r, wide), block(kept_of_item, r, kept)
            _call(gates, table, layer, low, n, r, h, c, gated, x_row, u_row, 0, w, kept_row)
    keep_alive(memory)
    keep_alive(addresses)
    restore_denormals(exactness)


@compiled(**FAST)
def _second_half(
    first: int, last: int, layer: _Layer, update: Any, w: Any, h: Any, c: Any, projected: Any, kept_rows: Any,
    gated: Any,
) -> None:  # fmt: skip
    """The rest of the step, from all channels of the gated state."""
    exactness = flush_denormals()
    batch, size, count = layer.batch, layer.size, layer.gates
    weight_hh = at_address(h, w[1], count * size * size)
    bias_hh = at_address(h, w[3], count * size if w[3] else 0)
    memory, addresses = np.empty(BLOCK * layer.gated * batch, h.dtype), np.empty(update.size, np.int64)
    u, table = borrowed(memory), borrowed(addresses)
    early = count - layer.gated
    for item in range(first, last):
        low = item * BLOCK
        n = min(BLOCK, size - low)
        wide, kept, later = count * n, layer.kept * n, layer.gated * n
        for g in range(early, count):
            _multiply(batch, size, gated, size, weight_hh, bias_hh, g * size + low, n, u, (g - early) * n, later)
        for r in range(batch):
            x_row = view(projected, item * batch * BLOCK * count + r * wide, wide)
            kept_row = view(kept_rows, item * batch * BLOCK * layer.kept + r * kept, kept)
            _call(update, table, layer, low, n, r, h, c, gated, x_row, block(u, r, later), early, w, kept_row)
    keep_alive(memory)
    keep_alive(addresses)
    restore_denormals(exactness)


@compiled(**REORDERED)
def _multiply(
    batch: int, inner: int, a: Any, a_width: int, matrix: Any, bias: Any, first: int, count: int, out: Any, begin: int,
    stride: int,
) -> None:  # fmt: skip
    """The products of each row of `a` with `count` rows of the matrix from `first` on, plus their bias; rows of `a` lie
    `a_width` apart.

    Four rows of the matrix at a time: memory delivers several streams faster than one.
    """
    whole = count - count % 4
    for j in range(0, whole, 4):
        offset = (first + j) * inner
        one, two = view(matrix, offset, inner), view(matrix, offset + inner, inner)
        three, four = view(matrix, offset + 2 * inner, inner), view(matrix, offset + 3 * inner, inner)
        for r in range(batch):
            row, to = view(a, r * a_width, inner), view(out, begin + r * stride + j, 4)
            zero = ZERO * one[0]
            p, q, s, t = zero, zero, zero, zero
            for k in range(inner):
                factor = row[k]
                p += one[k] * factor
                q += two[k] * factor
                s += three[k] * factor
                t += four[k] * factor
            to[0], to[1], to[2], to[3] = p, q, s, t
            if bias.size:
                for i in range(4):
                    to[i] += bias[first + j + i]
    for j in range(whole, count):
        weights = view(matrix, (first + j) * inner, inner)
        start = bias[first + j] if bias.size else ZERO * weights[0]
        for r in range(batch):
            total, row = ZERO * start, view(a, r * a_width, inner)
            for k in range(inner):
                total += weights[k] * row[k]
            out[begin + r * stride + j] = total + start
