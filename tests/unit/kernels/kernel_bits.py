"""Sums over the bits that kernels give, compiled for one processor whatever this one is.

`python tests/unit/kernels/kernel_bits.py --write` keeps those of all kernels in bits.json, beside those of other LLVMs.
Another rounding is a decision: say in the commit why.

Left out is what is not ours: in float64 kernels with elementary functions, which are the C library's there, the losses
of `cross_entropy`, which take its logarithm, blocks that turn by its sine and cosine, and sums that torch takes over
more than two numbers.
"""

import hashlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import llvmlite.binding
import numpy as np
import torch

from gatedrnn.codegen.graph import COSTLY
from gatedrnn.equations import BlockScanEquations, ElementwiseLoopEquations, LoopEquations, ScanEquations
from gatedrnn.kernels import cpu
from gatedrnn.kernels.cpu import _compile, _products
from gatedrnn.kernels.cpu._products import add_product, packed, padded
from gatedrnn.kernels.cpu._views import flat
from gatedrnn.ops.cells import cell_program, known, loop_program
from gatedrnn.registry import CELLS

Sums: TypeAlias = dict[str, dict[str, str]]
"""By kernel and type, and by shape."""
KEPT = Path(__file__).with_name("bits.json")
LLVM = f"LLVM {llvmlite.binding.llvm_version_info[0]}"
"""Which products and sums are fused differs from one to the other."""
FEATURES = "sse3 ssse3 sse4.1 sse4.2 popcnt avx avx2 fma f16c bmi bmi2 lzcnt movbe cx16"
TARGET = {
    "NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ",".join(f"+{name}" for name in FEATURES.split()),
    "NUMBA_DISABLE_INTEL_SVML": "1", "OMP_NUM_THREADS": "1",
}  # fmt: skip
FLOATS = {"float32": torch.float32, "float64": torch.float64}


class Numbers:
    """Numbers that are the same everywhere: whole ones over a power of two, from the raw bits of PCG64."""

    def __init__(self, dtype: str) -> None:
        self.dtype, self._bits = FLOATS[dtype], np.random.PCG64(0)

    def __call__(self, *shape: int, spread: float = 2.0) -> torch.Tensor:
        """Between -spread and spread, a power of two."""
        whole = (self._bits.random_raw(math.prod(shape)) >> np.uint64(43)).astype(np.float64) - 2**20
        return torch.from_numpy(spread * whole / 2**20).to(self.dtype).view(shape)

    def flags(self, there: bool, *shape: int, share: float) -> torch.Tensor | None:
        """True for that share of them; None where there are none."""
        return self(*shape, spread=1.0) < 2 * share - 1 if there else None


class Shape(NamedTuple):
    """Of a series, and what else a call is given."""

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


SCANS = (
    Shape(1, 1, 1), Shape(2, 7, 5, masked=True, cut=True), Shape(2, 70, 300, reverse=True),
    Shape(1, 2000, 20, cut=True, threads=8),
)  # fmt: skip
WHOLE = (*SCANS[:3], Shape(1, 2000, 20, cut=True))
"""Of cells whose steps cannot be taken in chunks."""
LOOPS = (
    Shape(1, 1, 1), Shape(2, 7, 5, masked=True, cut=True), Shape(2, 3, 300, reverse=True), Shape(37, 4, 34, masked=True)
)  # fmt: skip
"""One sequence more than a work item has, and more channels than a block of a product is deep."""
SIZES = (Shape(1, 1, 1), Shape(5, 3, 37), Shape(23, 300, 70), Shape(9, 513, 257))
"""Of a product: rows, inner, columns."""
Results = Iterator[torch.Tensor | None]


def of_scan(cell: ScanEquations, new: Numbers, shape: Shape) -> Results:
    program, (batch, steps, channels, *_) = cell_program(known(cell)), shape
    rows = shape.masked * program.gates + len(program.diagonals)
    given = {
        "projected": new(batch, steps, program.gates * channels), "bias": new(rows * channels) if rows else None,
        "h0": new(batch, channels), "mask": new.flags(shape.masked, batch, steps, share=0.75),
        "resets": new.flags(shape.cut, batch, steps, share=0.125), "reset_state": new(channels) if shape.cut else None,
    }  # fmt: skip
    output, last = cpu.gated_scan(program, **given, reverse=shape.reverse)
    projected, bias = given.pop("projected"), given.pop("bias")
    states = output if program.output_is_state and not shape.masked else None
    yield from (output, last)
    yield from cpu.gated_scan_gradient(
        program, new(batch, steps, channels), new(batch, channels), projected, bias, states, **given,
        reverse=shape.reverse,
    )  # fmt: skip


def of_linear_scan(new: Numbers, shape: Shape) -> Results:
    batch, steps, channels, *_ = shape
    decay, drive, h0 = new(batch, steps, channels, spread=1.0), new(batch, steps, channels), new(batch, channels)
    others = h0, new.flags(shape.cut, batch, steps, share=0.125), new(channels) if shape.cut else None, shape.reverse
    h, last = cpu.scan(decay, drive, *others)
    yield from (h, last)
    yield from cpu.scan_gradient(new(batch, steps, channels), new(batch, channels), decay, h, *others)


def of_elementwise_loop(cell: ElementwiseLoopEquations, new: Numbers, shape: Shape) -> Results:
    program, (batch, steps, channels, *_) = cell_program(known(cell)), shape
    projected, starts = new(batch, steps, program.gates * channels), [new(batch, channels) for _ in program.states]
    bias = new((shape.masked * program.gates + len(program.diagonals)) * channels)
    mask, resets = (new.flags(there, batch, steps, share=0.75) for there in (shape.masked, shape.cut))
    output, last = cpu.elementwise_loop(program, projected, bias, starts, mask, resets, shape.reverse)
    grads = new(batch, steps, channels), [new(batch, channels) for _ in program.states]
    states = output if program.output_is_state and not shape.masked else None
    of_projected, of_bias, of_starts = cpu.elementwise_loop_gradient(
        program, *grads, projected, bias, states, starts, mask, resets, shape.reverse
    )
    yield from (output, *last, of_projected, of_bias, *of_starts)


def of_loop_cell(cell: LoopEquations, new: Numbers, shape: Shape) -> Results:
    program, (batch, steps, channels, *_) = loop_program(known(cell)), shape
    size = channels * cell.block_size
    width, carried = 2 if cell.projects_state and shape.masked else size, len(program.carried)
    small = 2.0 ** -math.ceil(math.log2(size) / 2)
    recurrence = cpu.Recurrence(
        new(program.gates * size, width // cell.heads, spread=small),
        new(program.gates * size) if cell.recurrent_bias else None,
        new(len(cell.diagonals) * size) if cell.diagonals else None,
        new(width, size, spread=small) if width != size else None,
        new(batch, width) if shape.masked else None,
    )
    c0, of_c = (new(batch, carried * size) if carried else None for _ in range(2))
    mask, resets = new.flags(shape.masked, batch, steps, share=0.75), new.flags(shape.cut, batch, steps, share=0.125)
    h0, others = new(batch, width), (mask, resets, shape.reverse)
    states, *last = cpu.loop_cells(program, new(batch, steps, program.gates * size), recurrence, h0, c0, *others)
    grads = new(batch, steps, width), new(batch, width), of_c
    found = cpu.loop_cells_gradient(program, *grads, states, recurrence, h0, c0, *others)
    yield from (*states, *last, *(found if batch <= 2 else found[:-1]))


def of_block_scan(size: int, new: Numbers, shape: Shape) -> Results:
    batch, steps, blocks, *_ = shape
    channels = size * blocks
    transition, drive = new(batch, steps, size, size, blocks, spread=0.5), new(batch, steps, channels)
    others = (
        new(batch, channels), new.flags(shape.cut, batch, steps, share=0.125), new(channels) if shape.cut else None,
        shape.reverse,
    )  # fmt: skip
    h, last = cpu.block_scan(transition, drive, *others)
    yield from (h, last)
    yield from cpu.block_scan_gradient(new(batch, steps, channels), new(batch, channels), transition, h, *others)


def of_stack(cell: Any, new: Numbers, shape: Shape) -> Results:
    """Of a stack of two layers, whose inputs are as wide as the state."""
    batch, channels, layers = shape.batch, shape.channels * cell.block_size, 2
    gates, small = len(cell.projections) * channels, 2.0 ** -math.ceil(math.log2(channels * cell.block_size) / 2)
    x, before = new(batch, channels), tuple(new(layers, batch, channels) for _ in cell.states)
    matrices, biases = [
        [new(gates, channels, spread=small) for _ in range(layers)],
        [new(gates) for _ in range(layers)],
    ]
    diagonals = [[new(channels) for _ in cell.diagonals] for _ in range(layers)]
    if isinstance(cell, LoopEquations):
        weights = list[torch.Tensor | None]()
        for matrix, bias, own in zip(matrices, biases, diagonals, strict=True):
            recurrent = new(gates, channels // cell.heads, spread=small), bias if cell.recurrent_bias else None
            weights += [matrix, recurrent[0], bias, recurrent[1], *own]
        output, after = cpu.loop_step(loop_program(known(cell)), x, weights, before)
    else:
        after, program = tuple(torch.empty_like(s) for s in before), cell_program(known(cell))
        own = [weight for layer in diagonals for weight in layer]
        output = cpu.stack_step(program, x, matrices, biases, own, before, after)
    yield from (output, *after)


def of_block_step(cell: BlockScanEquations, new: Numbers, shape: Shape) -> Results:
    batch, channels = shape.batch, shape.channels * cell.block_size
    before, after = new(batch, channels), torch.zeros(batch, channels, dtype=new.dtype)
    projected, output = new(batch, len(cell.projections) * channels), torch.zeros_like(after)
    cpu.block_step(cell.kernel, cell.block_size, projected, [], before, after, output)
    yield from (after, output)


def of_product(new: Numbers, shape: Shape) -> Results:
    rows, inner, columns, *_ = shape
    a, matrix = new(rows, inner), new(inner, columns)
    wide = padded(columns, matrix.element_size())
    out = torch.zeros(rows, wide, dtype=new.dtype)
    add_product(rows, inner, flat(a), inner, packed(matrix), wide, flat(out))
    yield out[:, :columns]


def of_masked_max(new: Numbers, shape: Shape) -> Results:
    batch, steps, channels, *_ = shape
    x, mask = new(batch, steps, channels), new.flags(shape.masked, batch, steps, share=0.75)
    largest, count = cpu.masked_max(x, mask)
    yield from (largest, count, cpu.masked_max_gradient(new(batch, channels), x, mask, largest, count))


def of_cross_entropy(new: Numbers, shape: Shape) -> Results:
    rows, _, classes, *_ = shape
    scores, labels = new(rows, classes, spread=8.0), torch.arange(rows) % classes
    labels[rows // 2] = -100
    cpu.cross_entropy(scores, labels, 0.5)
    yield scores


def of_dropout(new: Numbers, shape: Shape) -> Results:
    mask, generator = torch.zeros(shape[:3], dtype=new.dtype), torch.Generator().manual_seed(1)
    cpu.fill_dropout_mask(mask, 0.7, torch.full((), 1.5, dtype=new.dtype), generator)
    yield from (mask, generator.get_state())


class Kernel(NamedTuple):
    """A kernel, for one cell if it has cells."""

    name: str
    run: Callable[[Numbers, Shape], Results]
    shapes: tuple[Shape, ...]
    floats: tuple[str, ...] = tuple(FLOATS)


def kernels() -> Iterator[Kernel]:
    """All of them."""
    yield Kernel("linear scan", of_linear_scan, SCANS)
    yield Kernel("product", of_product, SIZES)
    yield Kernel("masked max", of_masked_max, SCANS)
    yield Kernel("cross-entropy", of_cross_entropy, SIZES, ("float32",))
    yield Kernel("dropout", of_dropout, SIZES)
    for size in (2, 3, 4):
        yield Kernel(f"block scan of {size}", partial(of_block_scan, size), SCANS)
    for cell in (record.equations(**options) for record in CELLS.values() for options in ({}, *record.variants)):
        if isinstance(cell, BlockScanEquations) and cell.kernel is not None and cell.kernel.form == "reflections":
            yield Kernel(f"step of {cell.word}", partial(of_block_step, cell), SIZES)
        if isinstance(cell, ScanEquations):
            yield Kernel(f"scan of {cell.word}", partial(of_scan, cell), SCANS, _floats(cell))
        elif isinstance(cell, ElementwiseLoopEquations):
            yield Kernel(f"loop of {cell.word}", partial(of_elementwise_loop, cell), WHOLE, ("float32",))
        elif isinstance(cell, LoopEquations) and loop_program(known(cell)) is not None:
            yield Kernel(f"loop of {cell.word}", partial(of_loop_cell, cell), LOOPS, ("float32",))
        else:
            continue
        yield Kernel(f"steps of {cell.word}", partial(of_stack, cell), SIZES, ("float32",))


def _floats(cell: ScanEquations) -> tuple[str, ...]:
    """float64 too where no function is the C library's."""
    row = cell_program(known(cell)).plain.forward
    used = {row.graph.nodes[value].operation for value in row.graph.needed(row.writes.values())}
    return tuple(FLOATS) if used.isdisjoint(COSTLY - {"div", "sqrt"}) else ("float32",)


def computed(names: Sequence[str]) -> Sums:
    """The sums of the kernels of these names, or of all."""
    found: Sums = {}
    for kernel in kernels():
        for dtype in kernel.floats if kernel.name in names or not names else ():
            of_shapes = found[f"{kernel.name}, {dtype}"] = {}
            for shape in kernel.shapes:
                torch.set_num_threads(shape.threads)
                of_shapes[str(shape)] = _sum_of(kernel.run(Numbers(dtype), shape))
    return found


def _sum_of(results: Results) -> str:
    found = hashlib.sha256()
    for x in results:
        if x is not None:
            found.update(repr((x.dtype, tuple(x.shape))).encode() + x.contiguous().numpy().tobytes())
    return found.hexdigest()[:12]


def found(*names: str) -> Sums:
    """`computed`, in a process that compiles for the one processor, and finds again what it has compiled."""
    folder = _compile.folders()[0] / f"panels-{_products._VECTOR_BYTES}"  # as wide as this processor's vectors
    run = subprocess.run(
        [sys.executable, __file__, *names], env={**os.environ, **TARGET, "NUMBA_CACHE_DIR": str(folder)},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    sums: Sums = json.loads(run.stdout)
    return sums


def kept() -> dict[str, Sums]:
    """What was written, by LLVM."""
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def write() -> None:
    """Keep the sums of all kernels, a line for each."""
    of_llvms = {**kept(), LLVM: found()}
    tables = [
        f"{json.dumps(llvm)}: {{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in sums.items()) + "\n}"
        for llvm, sums in sorted(of_llvms.items())
    ]
    KEPT.write_text("{" + ",\n".join(tables) + "}\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        json.dump(computed(sys.argv[1:]), sys.stdout)
