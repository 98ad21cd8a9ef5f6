"""One step of a stack of loop cells, for streams: products, gates and states of all layers in one call.

A step of few rows takes as long as its weights take to be read. They are read where they are, once, and threads share
the channels of each layer.
"""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gatedrnn.equations import LoopKernel
from gatedrnn.kernels.cpu import loop_gates as gates
from gatedrnn.kernels.cpu.compiling import compiled
from gatedrnn.kernels.cpu.denormals import flush_denormals, restore_denormals
from gatedrnn.kernels.cpu.loop_gates import CODES, GRU, LSTM, NO_OUTPUT_GATE
from gatedrnn.kernels.cpu.numbers import FAST, ZERO, borrowed, keep_alive, part, tanh
from gatedrnn.kernels.cpu.stepping import SUMMED, at_address
from gatedrnn.kernels.cpu.team import on_team
from gatedrnn.kernels.cpu.threads import team
from gatedrnn.shapes import State, Step

BLOCK = 32  # channels of a work item
WORTH_A_THREAD = 1 << 17  # weights of a layer below which handing work to a thread costs more than it saves
WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_ci", "weight_cf", "weight_co")
"""Of a layer, in the order in which `loop_step` takes them."""
_LIKE = {torch.float32: np.empty(0, np.float32), torch.float64: np.empty(0, np.float64)}


class _Layer(NamedTuple):
    """Sizes and addresses of one layer; 0 for what it does not have."""

    kind: int
    gates: int
    kept: int
    halved: int
    batch: int
    inputs: int
    size: int
    weight_ih: int
    weight_hh: int
    bias_ih: int
    bias_hh: int
    weight_ci: int
    weight_cf: int
    weight_co: int


def loop_step(
    record: LoopKernel, x: Step, weights: Sequence[Tensor | None], before: tuple[State, ...]
) -> tuple[Step, tuple[State, ...]]:  # fmt: skip
    """The top layer's output at one step of a stack, and the states after it.

    Args:
        x: (batch, features), float32 or float64; it and all other tensors are contiguous and of one dtype.
        weights: of each layer those that `WEIGHTS` names; None for what it does not have.
        before: each (layers, batch, channels), or of one layer (batch, channels).
    """
    after, size = tuple(torch.empty_like(state) for state in before), before[0].shape[-1]
    output = x.new_empty(len(x), size)
    layers, count = len(weights) // len(WEIGHTS), record.gates
    threads = torch.get_num_threads() if count * size * (x.shape[1] + size) >= WORTH_A_THREAD else 1
    begin = team(os.getpid()) if threads > 1 else None
    # Addresses, for a tuple of arrays would be unpacked one by one, and compiled anew for each number of layers.
    call = [
        CODES[record.form], count, record.saved, record.gated_state, layers, len(x), x.shape[1], size, begin or 0,
        threads if begin else 1, x.data_ptr(), output.data_ptr(), before[0].data_ptr(), before[-1].data_ptr(),
        after[0].data_ptr(), after[-1].data_ptr(), *[0 if w is None else w.data_ptr() for w in weights],
    ]  # fmt: skip
    _stack(_LIKE[x.dtype], np.array(call, np.int64))
    return output, after


@compiled(**FAST)
def _stack(like: Any, call: Any) -> None:
    exactness = flush_denormals()
    kind, count, kept, halved, layers, batch, inputs, size, begin, parts = call[:10]
    items = (size + BLOCK - 1) // BLOCK
    numbers = batch * size
    x, output = at_address(like, call[10], batch * inputs), at_address(like, call[11], numbers)
    h0, c0 = at_address(like, call[12], layers * numbers), at_address(like, call[13], layers * numbers)
    hs, cs = at_address(like, call[14], layers * numbers), at_address(like, call[15], layers * numbers)
    scratch = np.empty(items * batch * BLOCK * (count + kept) + 2 * numbers, like.dtype)
    own = borrowed(scratch)
    projected = part(own, 0, items * batch * BLOCK * count)
    held = part(own, projected.size, items * batch * BLOCK * kept)
    between = part(own, projected.size + held.size, numbers)
    shown = part(own, projected.size + held.size + numbers, numbers)
    for n in range(layers):
        w = call[16 + 7 * n : 23 + 7 * n]
        layer = _Layer(kind, count, kept, halved, batch, inputs, size, w[0], w[1], w[2], w[3], w[4], w[5], w[6])
        before, h, c = part(h0, n * numbers, numbers), part(hs, n * numbers, numbers), part(cs, n * numbers, numbers)
        c_before = part(c0, n * numbers, numbers)
        if kind == LSTM or kind == NO_OUTPUT_GATE:
            for i in range(numbers):
                c[i] = c_before[i]
        else:
            for i in range(numbers):
                h[i] = before[i]
        if kind == NO_OUTPUT_GATE:  # its state is c, and h the output
            for i in range(numbers):
                between[i] = tanh(c_before[i])
            before, h = between, shown
        if parts > 1:
            on_team(_begin_channels, begin, items, parts, (layer, x, before, h, c, projected, held, between))
        else:
            _begin_channels(0, items, layer, x, before, h, c, projected, held, between)
        if halved:
            if parts > 1:
                on_team(_end_channels, begin, items, parts, (layer, h, projected, held, between))
            else:
                _end_channels(0, items, layer, h, projected, held, between)
        if kind == NO_OUTPUT_GATE:
            for i in range(numbers):
                output[i] = h[i]
            x = output
        else:
            x = h
        inputs = size
    if kind != NO_OUTPUT_GATE:
        for i in range(numbers):
            output[i] = x[i]
    keep_alive(scratch)
    restore_denormals(exactness)


@compiled(**FAST)
def _begin_channels(
    first: int, last: int, layer: _Layer, x: Any, before: Any, h: Any, c: Any, projected: Any, held: Any, between: Any
) -> None:
    """A step of blocks of channels; of a cell with two products in a row, up to the second one."""
    batch, inputs, size, count = layer.batch, layer.inputs, layer.size, layer.gates
    weight_ih = at_address(x, layer.weight_ih, count * size * inputs)
    weight_hh = at_address(x, layer.weight_hh, count * size * size)
    bias_ih = at_address(x, layer.bias_ih, count * size if layer.bias_ih else 0)
    bias_hh = at_address(x, layer.bias_hh, count * size if layer.bias_hh else 0)
    peeped = layer.weight_ci != 0
    w_i, w_f, w_o = (
        at_address(x, layer.weight_ci, size),
        at_address(x, layer.weight_cf, size),
        at_address(x, layer.weight_co, size),
    )
    own = np.empty(BLOCK * (count * batch + 3), x.dtype)
    scratch = borrowed(own)
    for item in range(first, last):
        low = item * BLOCK
        n = min(BLOCK, size - low)
        wide = count * n
        rows, u = part(projected, item * batch * BLOCK * count, batch * wide), part(scratch, 0, batch * wide)
        kept = part(held, item * batch * BLOCK * layer.kept, batch * layer.kept * n)
        for g in range(count):
            _multiply(batch, inputs, x, weight_ih, bias_ih, g * size + low, n, rows, g * n, wide)
            if g < count - layer.halved:
                _multiply(batch, size, before, weight_hh, bias_hh, g * size + low, n, u, g * n, wide)
        peepholes = part(scratch, batch * wide, 3 * n if peeped else 0)
        if peeped:
            for i in range(n):
                peepholes[i], peepholes[n + i], peepholes[2 * n + i] = w_i[low + i], w_f[low + i], w_o[low + i]
        for r in range(batch):
            x_row, u_row, k_row = (
                part(rows, r * wide, wide),
                part(u, r * wide, wide),
                part(kept, r * layer.kept * n, layer.kept * n),
            )
            h_row, c_row = part(h, r * size + low, n), part(c, r * size + low, n)
            if layer.kind == LSTM:
                gates.lstm(x_row, u_row, c_row, peepholes, h_row, k_row)
            elif layer.kind == NO_OUTPUT_GATE:
                gates.no_output_gate(x_row, u_row, c_row, h_row, k_row)
            elif layer.kind == GRU:
                gates.gru(x_row, u_row, h_row, k_row)
            elif layer.halved:
                gates.gate_the_state(layer.kind, x_row, u_row, h_row, k_row, part(between, r * size + low, n))
            else:
                gates.no_reset_gate(x_row, u_row, h_row, k_row)
    keep_alive(own)


@compiled(**FAST)
def _end_channels(first: int, last: int, layer: _Layer, h: Any, projected: Any, held: Any, between: Any) -> None:
    """The rest of the step, from the state that a gate has multiplied, all channels of it."""
    batch, size, count = layer.batch, layer.size, layer.gates
    weight_hh = at_address(h, layer.weight_hh, count * size * size)
    bias_hh = at_address(h, layer.bias_hh, count * size if layer.bias_hh else 0)
    own = np.empty(BLOCK * batch, h.dtype)
    u = borrowed(own)
    for item in range(first, last):
        low = item * BLOCK
        n = min(BLOCK, size - low)
        wide, kept = count * n, layer.kept * n
        _multiply(batch, size, between, weight_hh, bias_hh, (count - 1) * size + low, n, u, 0, n)
        for r in range(batch):
            x_row = part(projected, item * batch * BLOCK * count + r * wide, wide)
            k_row = part(held, item * batch * BLOCK * layer.kept + r * kept, kept)
            gates.renew_the_state(layer.kind, x_row, part(u, r * n, n), part(h, r * size + low, n), k_row)
    keep_alive(own)


@compiled(**SUMMED)
def _multiply(
    batch: int, inner: int, a: Any, matrix: Any, bias: Any, first: int, count: int, out: Any, begin: int, apart: int
) -> None:
    """The products of each row of `a` with `count` rows of the matrix from `first` on, plus their bias.

    Four rows of the matrix at a time: memory delivers several streams faster than one.
    """
    whole = count - count % 4
    for j in range(0, whole, 4):
        place = (first + j) * inner
        one, two = part(matrix, place, inner), part(matrix, place + inner, inner)
        three, four = part(matrix, place + 2 * inner, inner), part(matrix, place + 3 * inner, inner)
        for r in range(batch):
            row, to = part(a, r * inner, inner), part(out, begin + r * apart + j, 4)
            zero = ZERO * one[0]
            p, q, s, t = zero, zero, zero, zero
            for k in range(inner):
                number = row[k]
                p += one[k] * number
                q += two[k] * number
                s += three[k] * number
                t += four[k] * number
            to[0], to[1], to[2], to[3] = p, q, s, t
            if bias.size:
                for i in range(4):
                    to[i] += bias[first + j + i]
    for j in range(whole, count):
        weights = part(matrix, (first + j) * inner, inner)
        start = bias[first + j] if bias.size else ZERO * weights[0]
        for r in range(batch):
            total, row = ZERO * start, part(a, r * inner, inner)
            for k in range(inner):
                total += weights[k] * row[k]
            out[begin + r * apart + j] = total + start
