"""One step of a stack of loop cells, for streams: products, gates and states of all layers in one call.

A step of few rows takes as long as its weights take to be read. They are read in place, once; threads share the
channels of a layer.
"""

import os
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
from gatedrnn.kernels.cpu.threads import on_team, recorded_rows, team
from gatedrnn.kernels.cpu.views import (
    LIKE,
    Addresses,
    addresses,
    at_address,
    block,
    borrowed,
    copy,
    keep_alive,
    view,
    words_of,
)
from gatedrnn.kinds.loop.rows import LoopProgram
from gatedrnn.shapes import InputStep, State, Step

BLOCK = 32  # channels of a work item
WORTH_A_THREAD = 1 << 17  # weights of a layer below which a second thread costs more than it saves
WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
"""The weights of a layer, in the order in which `loop_step` takes them; its diagonal weights follow."""


class LoopStack(NamedTuple):
    """A step of all layers from the input; addresses of all tensors."""

    layers: int
    batch: int
    inputs: int
    size: int
    begin: int
    """The address of the function that starts work on a team of threads, or 0."""
    threads: int
    x: int
    output: int
    h_before: int
    h_after: int
    gates: int
    gated: int
    """Projections that read a gated state."""
    diagonals: int
    kept: int
    has_h: int
    """Whether h is a state."""
    shown: int
    """The address of the function that shows c, or 0."""
    first: Addresses
    """The function of the first part of a step, its address and the codes of its rows."""
    second: Addresses
    """The function of the second part; empty if there is none."""
    before: Addresses
    """The states but h."""
    after: Addresses
    weights: Addresses
    """The weights of each layer that `WEIGHTS` names, 0 for those that it does not have, and its diagonals."""


_pack, _step_of = words_of(LoopStack)


class _Layer(NamedTuple):
    """The sizes of one layer."""

    gates: int
    gated: int
    diagonals: int
    kept: int
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
        # Not cached: while sources are recorded, every address is 0.
        _step_program.__wrapped__(program, x.dtype)
        return output, after
    threads = torch.get_num_threads() if program.gates * size * (x.shape[1] + size) >= WORTH_A_THREAD else 1
    # By process: after a fork torch's threads are gone.
    begin = team(os.getpid()) if threads > 1 else None
    carried = len(program.carried)
    step = LoopStack._make((
        layers, len(x), x.shape[1], size, begin or 0, threads if begin else 1, x.data_ptr(), output.data_ptr(),
        before[0].data_ptr(), after[0].data_ptr(), *_step_program(program, x.dtype),
        addresses(before[len(before) - carried :]), addresses(after[len(after) - carried :]), addresses(weights),
    ))  # fmt: skip
    _loop_stack(LIKE[x.dtype], _pack(step))
    return output, after


H, GATED, CARRIED = -1, -2, -3
"""Codes of rows in a loop cell's step; those of the states but h are -3, -4, … Those of input projections, products
with the state, diagonal weights and kept values count from 0."""


@cache
def _step_program(program: LoopProgram, dtype: torch.dtype) -> tuple[Any, ...]:
    """Return what a step knows of a cell: the fields of `LoopStack` from `gates` to `second`."""
    counted = [f"{letter}_{name}" for letter in "xu" for name in program.projections]
    counted += [*(f"w_{name}" for name in program.diagonals), *(f"kept_{i}" for i in range(program.kept))]
    codes = {"h": H, "gated": GATED} | {name: code for code, name in enumerate(counted)}
    codes |= {name: CARRIED - i for i, name in enumerate(program.carried)}

    def address(row: Row) -> int:
        return row_address(row, program.word, (dtype_name(dtype),) * len(row.rows))

    first, *second = [[address(row), *(codes[name] for name in row.rows)] for row in program.forward]
    shown = 0 if program.shown is None else address(program.shown)
    sizes = program.gates, program.gated, len(program.diagonals), program.kept
    return *sizes, "h" in program.states, shown, first, second[0] if second else []


@compiled(**FAST)
def _loop_stack(like: Any, words: Any) -> None:
    # Denormals are flushed in the halves alone: threads that start inside here would flush them ever after.
    step = _step_of(borrowed(words))
    batch, size, inputs = step.batch, step.size, step.inputs
    items = (size + BLOCK - 1) // BLOCK
    elements = batch * size
    x, output = at_address(like, step.x, batch * inputs), at_address(like, step.output, elements)
    h0s, hs = (
        at_address(like, step.h_before, step.layers * elements),
        at_address(like, step.h_after, step.layers * elements),
    )
    pointers = np.empty(step.after.size, np.int64)
    c = borrowed(pointers)
    memory = np.empty(items * batch * BLOCK * (step.gates + step.kept) + 3 * elements, like.dtype)
    scratch = borrowed(memory)
    projected = view(scratch, 0, items * batch * BLOCK * step.gates)
    kept_rows = view(scratch, projected.size, items * batch * BLOCK * step.kept)
    others = view(scratch, projected.size + kept_rows.size, 3 * elements)
    gated, shown_before = block(others, 0, elements), block(others, 1, elements)
    shown_after = block(others, 2, elements)
    for n in range(step.layers):
        w = block(step.weights, n, len(WEIGHTS) + step.diagonals)
        layer = _Layer(step.gates, step.gated, step.diagonals, step.kept, batch, inputs, size)
        before, h, offset = block(h0s, n, elements), block(hs, n, elements), n * elements * like.itemsize
        for s in range(c.size):
            c[s] = step.after[s] + offset
            # Functions of rows change states in place; the caller's stay as they are.
            copy_bytes(step.before[s] + offset, c[s], elements * like.itemsize)
        if step.has_h:
            copy(before, h)
        else:  # its state is c, and h the output
            before, h = shown_before, shown_after
            _write_output(step.shown, c[0], before)
        first, second = step.first, step.second
        if step.threads > 1:
            on_team(
                _first_half, step.begin, items, step.threads,
                (layer, first, w, x, before, h, c, projected, kept_rows, gated),
            )  # fmt: skip
        else:
            _first_half(0, items, layer, first, w, x, before, h, c, projected, kept_rows, gated)
        # A second call, after all of the first: its products read the gated state of every channel.
        if step.gated:
            if step.threads > 1:
                on_team(
                    _second_half, step.begin, items, step.threads, (layer, second, w, h, c, projected, kept_rows, gated)
                )
            else:
                _second_half(0, items, layer, second, w, h, c, projected, kept_rows, gated)
        if step.has_h:
            x = h
        else:
            copy(h, output)
            x = output
        inputs = size
    if step.has_h:
        copy(x, output)
    keep_alive((memory, pointers))


@numba.njit(**INLINED)
def _write_output(function: int, c: int, h: Any) -> None:
    """The output that follows from a state."""
    memory = np.empty(2, np.int64)
    memory[0], memory[1] = c, address_of(h)
    call_row(function, h.size, address_of(memory))
    keep_alive(memory)


@numba.njit(**INLINED)
def _call_row(
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
    weight_hh = at_address(x, w[1], count * size * size)
    bias_ih = at_address(x, w[2], count * size if w[2] else 0)
    bias_hh = at_address(x, w[3], count * size if w[3] else 0)
    memory, pointers = np.empty(BLOCK * count * batch, x.dtype), np.empty(gates.size, np.int64)
    scratch, table = borrowed(memory), borrowed(pointers)
    for item in range(first, last):
        low = item * BLOCK
        n = min(BLOCK, size - low)
        wide, kept = count * n, layer.kept * n
        rows, u = view(projected, item * batch * BLOCK * count, batch * wide), view(scratch, 0, batch * wide)
        kept_of_item = view(kept_rows, item * batch * BLOCK * layer.kept, batch * kept)
        for g in range(count):
            _multiply(batch, inputs, x, inputs, weight_ih, bias_ih, g * size + low, n, rows, g * n, wide)
            if g < count - layer.gated:
                _multiply(batch, size, before, size, weight_hh, bias_hh, g * size + low, n, u, g * n, wide)
        for r in range(batch):
            x_row, u_row, kept_row = block(rows, r, wide), block(u, r, wide), block(kept_of_item, r, kept)
            _call_row(gates, table, layer, low, n, r, h, c, gated, x_row, u_row, 0, w, kept_row)
    keep_alive((memory, pointers))
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
    memory, pointers = np.empty(BLOCK * layer.gated * batch, h.dtype), np.empty(update.size, np.int64)
    u, table = borrowed(memory), borrowed(pointers)
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
            _call_row(update, table, layer, low, n, r, h, c, gated, x_row, block(u, r, later), early, w, kept_row)
    keep_alive((memory, pointers))
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
    in_fours = count - count % 4
    for j in range(0, in_fours, 4):
        offset = (first + j) * inner
        one, two = view(matrix, offset, inner), view(matrix, offset + inner, inner)
        three, four = view(matrix, offset + 2 * inner, inner), view(matrix, offset + 3 * inner, inner)
        for r in range(batch):
            row, to = view(a, r * a_width, inner), view(out, begin + r * stride + j, 4)
            # In the dtype of the weights: a Python 0.0 would turn the sums into float64.
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
    for j in range(in_fours, count):
        weights = view(matrix, (first + j) * inner, inner)
        start = bias[first + j] if bias.size else ZERO * weights[0]
        for r in range(batch):
            total, row = ZERO * start, view(a, r * a_width, inner)
            for k in range(inner):
                total += weights[k] * row[k]
            out[begin + r * stride + j] = total + start
