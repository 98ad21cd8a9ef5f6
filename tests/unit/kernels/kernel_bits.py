"""Sums over the bits that kernels give, compiled for one processor whatever this one is.

`python tests/unit/kernels/kernel_bits.py --write` keeps those of all kernels in bits.json, beside those of other LLVMs.
Another rounding is a decision: say in the commit why.

Left out is what is not ours: in float64 kernels with elementary functions, which are the C library's there, blocks that
turn by its sine and cosine, and sums that torch takes over more than two numbers.
"""

import hashlib
import json
import math
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import llvmlite.binding
import numpy as np
import torch

from gatedrnn.codegen.graph import COSTLY
from gatedrnn.equations import BlockScanEquations, ElementwiseLoopEquations, LoopEquations, ScanEquations
from gatedrnn.kernels.cpu import products
from gatedrnn.kernels.cpu.compile import folders
from gatedrnn.kernels.cpu.products import add_product, packed, padded
from gatedrnn.kernels.cpu.views import flat
from gatedrnn.kinds import kernel_of
from gatedrnn.kinds.block.cpu import block_scan, block_scan_gradient, block_step
from gatedrnn.kinds.block.op import BlockInputs, BlockUpstream
from gatedrnn.kinds.loop.cpu import loop_backward, loop_cells
from gatedrnn.kinds.loop.op import LoopInputs, LoopUpstream
from gatedrnn.kinds.loop.step import loop_step
from gatedrnn.kinds.scan.cpu import scan, scan_gradient
from gatedrnn.kinds.scan.definition import ScanInputs, ScanUpstream
from gatedrnn.kinds.scan.rows import bare_scan
from gatedrnn.kinds.scan.step import stack_step
from gatedrnn.registry import CELLS

KEPT = Path(__file__).with_name("bits.json")
LLVM = f"LLVM {llvmlite.binding.llvm_version_info[0]}"
"""The products and sums that are fused differ from one to the other."""
FEATURES = "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe,+cx16"
TARGET = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": FEATURES, "NUMBA_DISABLE_INTEL_SVML": "1"}
FLOATS = {"float32": torch.float32, "float64": torch.float64}


class Numbers:
    """Numbers that are the same everywhere: whole ones over a power of two, from the raw bits of PCG64."""

    def __init__(self, dtype):
        self.dtype, self._bits = FLOATS[dtype], np.random.PCG64(0)

    def __call__(self, *shape, spread=2.0):
        whole = (self._bits.random_raw(math.prod(shape)) >> np.uint64(43)).astype(np.float64) - 2**20
        return torch.from_numpy(spread * whole / 2**20).to(self.dtype).view(shape)

    def flags(self, there, *shape, share):
        """True for that share of them; None where there are none."""
        return self(*shape, spread=1.0) < 2 * share - 1 if there else None

    def resets(self, shape, channels):
        return self.flags(shape.cut, *shape[:2], share=0.125), self(channels) if shape.cut else None


class Shape(NamedTuple):
    batch: int
    steps: int
    channels: int
    masked: bool = False
    cut: bool = False
    reverse: bool = False
    threads: int = 1

    def __str__(self) -> str:
        words = [name for name in ("masked", "cut", "reverse") if getattr(self, name)]
        return " ".join(["x".join(map(str, self[:3])), *words, *(["in chunks"] if self.threads > 1 else [])])


ONE, FLAGGED, LONG = Shape(1, 1, 1), Shape(2, 7, 5, masked=True, cut=True), Shape(1, 2000, 20, cut=True)
WHOLE = (ONE, FLAGGED, Shape(2, 70, 300, reverse=True), LONG)
"""Sizes of cells whose steps cannot be taken in chunks."""
SCANS = (*WHOLE[:3], LONG._replace(threads=8))
LOOPS = (ONE, FLAGGED, Shape(2, 3, 300, reverse=True), Shape(37, 4, 34, masked=True))
"""One sequence more than a work item has, and more channels than a block of a product is deep."""
SIZES = (ONE, Shape(5, 3, 37), Shape(23, 300, 70), Shape(9, 513, 257))
"""Sizes of a product: rows, inner, columns."""


def of_scan(cell, new, shape):
    program, (batch, steps, channels, *_) = kernel_of(cell).program, shape
    rows = shape.masked * program.gates + len(program.diagonals)
    x, by_channel = new(batch, steps, program.gates * channels), new(rows * channels) if rows else None
    h0, mask = new(batch, channels), new.flags(shape.masked, batch, steps, share=0.75)
    resets, reset_state = new.resets(shape, channels)
    given = ScanInputs(x, None, None, by_channel, h0, mask, resets, reset_state, reverse=shape.reverse)
    output, last, _ = scan(program, given)
    states = output if program.output_is_state and not shape.masked else None
    upstream = ScanUpstream(new(batch, steps, channels), new(batch, channels), x, states, True)
    gradients = scan_gradient(program, upstream, given)
    yield from (output, last, gradients.x, gradients.by_channel, gradients.starts, gradients.reset_state)


def of_linear_scan(new, shape):
    batch, steps, channels, *_ = shape
    decay, drive = new(batch, steps, channels, spread=1.0), new(batch, steps, channels)
    h0, (resets, reset_state) = new(batch, channels), new.resets(shape, channels)
    given = ScanInputs(decay, drive, None, None, h0, None, resets, reset_state, reverse=shape.reverse)
    h, last, _ = scan(bare_scan(), given)
    gradients = scan_gradient(bare_scan(), ScanUpstream(new(*drive.shape), new(*last.shape), drive, h, True), given)
    yield from (h, last, gradients.x, gradients.drive, gradients.starts, gradients.reset_state)


def of_block_scan(size, new, shape):
    batch, steps, blocks, *_ = shape
    transition, drive = new(batch, steps, size, size, blocks, spread=0.5), new(batch, steps, size * blocks)
    h0, (resets, reset_state) = new(batch, size * blocks), new.resets(shape, size * blocks)
    given = BlockInputs(transition, drive, h0, resets, reset_state, shape.reverse)
    h, last = block_scan(given)
    yield from (h, last)
    yield from block_scan_gradient(BlockUpstream(new(*drive.shape), new(*last.shape), h), given)


def of_elementwise_loop(cell, new, shape):
    program, (batch, steps, channels, *_) = kernel_of(cell).program, shape
    x, starts = new(batch, steps, program.gates * channels), [new(batch, channels) for _ in program.states]
    by_channel = new((shape.masked * program.gates + len(program.diagonals)) * channels)
    mask, resets = (new.flags(there, batch, steps, share=0.75) for there in (shape.masked, shape.cut))
    given = ScanInputs(x, None, None, by_channel, torch.cat(starts, 1), mask, resets, reverse=shape.reverse)
    output, last, _ = scan(program, given)
    grad_output, grad_last = new(batch, steps, channels), torch.cat([new(batch, channels) for _ in program.states], 1)
    states = output if program.output_is_state and not shape.masked else None
    gradients = scan_gradient(program, ScanUpstream(grad_output, grad_last, x, states, True), given)
    of_states = (each for joined in (last, gradients.starts) for each in joined.split(channels, 1))
    ends = [each.contiguous() for each in of_states]
    count = len(program.states)
    yield from (output, *ends[:count], gradients.x, gradients.by_channel, *ends[count:])


def of_loop_cell(cell, new, shape):
    program, (batch, steps, channels, *_) = kernel_of(cell).program, shape
    size = channels * cell.block_size
    width, carried = 2 if cell.projects_state and shape.masked else size, len(program.carried)
    small = 2.0 ** -math.ceil(math.log2(size) / 2)
    weights = (
        new(program.gates * size, width, spread=small),
        new(program.gates * size) if cell.recurrent_bias else None,
        new(len(cell.diagonals) * size) if cell.diagonals else None,
        new(width, size, spread=small) if width != size else None,
        new(batch, width) if shape.masked else None,
    )
    c0, of_c = (new(batch, carried * size) if carried else None for _ in range(2))
    mask, resets = new.flags(shape.masked, batch, steps, share=0.75), new.flags(shape.cut, batch, steps, share=0.125)
    h0, x = new(batch, width), new(batch, steps, program.gates * size)
    given = LoopInputs(x, h0, c0, mask, resets, *weights, cell.word, shape.reverse)
    h, *last, c, kept = loop_cells(program, given)
    upstream = LoopUpstream(new(batch, steps, width), new(batch, width), of_c, h, c, kept)
    found = loop_backward(program, upstream, given)
    yield from (h, c, kept, *last, *(found if batch <= 2 else found[:-1]))


def of_stack(cell, new, shape):
    """Sizes of two layers, whose inputs are as wide as the state."""
    batch, channels, layers = shape.batch, shape.channels * cell.block_size, 2
    gates, small = len(cell.projections) * channels, 2.0 ** -math.ceil(math.log2(channels * cell.block_size) / 2)
    x, before = new(batch, channels), tuple(new(layers, batch, channels) for _ in cell.states)
    matrices = [new(gates, channels, spread=small) for _ in range(layers)]
    biases = [new(gates) for _ in range(layers)]
    diagonals = [[new(channels) for _ in cell.diagonals] for _ in range(layers)]
    if isinstance(cell, LoopEquations):
        weights = []
        for matrix, bias, own in zip(matrices, biases, diagonals, strict=True):
            second = new(gates, channels, spread=small), bias, bias if cell.recurrent_bias else None
            weights += [matrix, *second, *own]
        output, after = loop_step(kernel_of(cell).program, x, weights, before)
    else:
        weights = [
            each for matrix, bias, own in zip(matrices, biases, diagonals, strict=True) for each in (matrix, bias, *own)
        ]
        output, after = stack_step(kernel_of(cell).program, x, layers, weights, True, before)
    yield from (output, *after)


def of_block_step(cell, new, shape):
    batch, channels = shape.batch, shape.channels * cell.block_size
    before, after = new(batch, channels), torch.zeros(batch, channels, dtype=new.dtype)
    projected, output = new(batch, len(cell.projections) * channels), torch.zeros_like(after)
    block_step(cell.kernel, cell.block_size, projected, [], before, after, output)
    yield from (after, output)


def of_product(new, shape):
    rows, inner, columns, *_ = shape
    a, matrix = new(rows, inner), new(inner, columns)
    wide = padded(columns, matrix.element_size())
    out = torch.zeros(rows, wide, dtype=new.dtype)
    add_product(rows, inner, flat(a), inner, packed(matrix), wide, flat(out))
    yield out[:, :columns]


def kernels():
    """All of them, each for one cell if it has cells: name, what runs it, shapes, and types if not both."""
    yield "linear scan", of_linear_scan, SCANS
    yield "product", of_product, SIZES
    for size in (2, 3, 4):
        yield f"block scan of {size}", partial(of_block_scan, size), SCANS
    for cell in (record.equations(**options) for record in CELLS.values() for options in ({}, *record.variants)):
        if CELLS[cell.name].layer.wrapper(cell).blocks > 1:  # which no kernel sees: it reads the whole matrix
            continue
        if isinstance(cell, BlockScanEquations) and cell.word.startswith("block-orthogonal:"):
            yield f"step of {cell.word}", partial(of_block_step, cell), SIZES
        if isinstance(cell, ScanEquations):
            yield f"scan of {cell.word}", partial(of_scan, cell), SCANS, _floats(cell)
        elif isinstance(cell, ElementwiseLoopEquations):
            yield f"loop of {cell.word}", partial(of_elementwise_loop, cell), WHOLE, ("float32",)
        elif isinstance(cell, LoopEquations) and kernel_of(cell).program is not None:
            yield f"loop of {cell.word}", partial(of_loop_cell, cell), LOOPS, ("float32",)
        else:
            continue
        yield f"steps of {cell.word}", partial(of_stack, cell), SIZES, ("float32",)


def _floats(cell):
    """float64 too where no function is the C library's."""
    row = kernel_of(cell).program.plain.forward
    used = {row.graph.nodes[value].operation for value in row.graph.needed(row.writes.values())}
    return tuple(FLOATS) if used.isdisjoint(COSTLY - {"div", "sqrt"}) else ("float32",)


def computed(names):
    """The sums of the kernels of these names, or of all, by kernel and type, and by shape."""
    return {
        f"{name}, {dtype}": {str(shape): _sum_of(run, dtype, shape) for shape in shapes}
        for name, run, shapes, *floats in kernels()
        if name in names or not names
        for dtype in (floats[0] if floats else FLOATS)
    }


def _sum_of(run, dtype, shape):
    torch.set_num_threads(shape.threads)
    results = (x for x in run(Numbers(dtype), shape) if x is not None)
    bits = [repr((x.dtype, tuple(x.shape))).encode() + x.contiguous().numpy().tobytes() for x in results]
    return hashlib.sha256(b"".join(bits)).hexdigest()[:12]


def found(*names):
    """`computed`, in a process that compiles for the one processor, and finds again what it has compiled."""
    folder = folders()[0] / f"panels-{products._VECTOR_BYTES}"  # as wide as this processor's vectors
    env = {**os.environ, **TARGET, "OMP_NUM_THREADS": "1", "NUMBA_CACHE_DIR": str(folder)}
    return json.loads(subprocess.check_output([sys.executable, __file__, *names], env=env, text=True))


def kept():
    return json.loads(KEPT.read_text())


def write():
    tables = []
    for llvm, sums in sorted({**kept(), LLVM: found()}.items()):
        lines = ",\n".join(f" {json.dumps(kernel)}: {json.dumps(of_shapes)}" for kernel, of_shapes in sums.items())
        tables.append(f"{json.dumps(llvm)}: {{\n{lines}\n}}")
    KEPT.write_text("{" + ",\n".join(tables) + "}\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        json.dump(computed(sys.argv[1:]), sys.stdout)
