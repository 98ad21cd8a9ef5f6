"""Products of a few rows with a matrix that every step reads: packed once into panels, then multiplied in tiles.

A tile of the result stays in registers while a whole block of the inner axis goes by. Panels of a block lie one after
another in memory, so that a step reads the matrix from its beginning to its end. An element of the result is summed in
the same order however many rows there are: a sequence's values do not depend on its neighbours in the batch.
"""

from typing import Any

import llvmlite.binding
import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from torch import Tensor

from gatedrnn.kernels.cpu.compile import FAST, INLINED, compiled
from gatedrnn.kernels.cpu.threads import Kernel, parallel_for, threads_for
from gatedrnn.kernels.cpu.views import clear, flat

_FEATURES = llvmlite.binding.get_host_cpu_features()
_VECTOR_BYTES = 64 if _FEATURES.get("avx512f") else 32 if _FEATURES.get("avx") else 16
_VECTORS = 2  # of a panel's row
_ROWS = 8 if _FEATURES.get("avx512f") else 4  # of a tile: two vectors each fill about half the registers
_BLOCK_DEPTH = 256  # of the inner axis at a time: a panel's block and a few rows' stay in the first-level cache
_PACK_COLUMNS = 8  # columns that packing reads side by side


def padded(columns: int, itemsize: int) -> int:
    """Columns of whole panels: how far apart rows of a result lie."""
    panel = _VECTORS * _VECTOR_BYTES // itemsize
    return -(-columns // panel) * panel


def packed(matrix: Tensor, transposed: bool = False) -> Any:
    """The matrix (inner, columns), or its transpose, in panels as `add_product` takes it; flat.

    Args:
        matrix: contiguous, float32 or float64.
        transposed: `matrix` is (columns, inner).
    """
    columns, inner = matrix.shape if transposed else reversed(matrix.shape)
    wide = padded(columns, matrix.element_size())
    panels = matrix.new_empty(inner * wide)
    items = wide // padded(1, matrix.element_size())
    parallel_for(_PACK, items, threads_for(matrix.numel()), flat(matrix), flat(panels), inner, columns, transposed)
    return flat(panels)


@compiled(**FAST)
def _pack(first: int, last: int, matrix: Any, panels: Any, inner: int, columns: int, transposed: bool) -> None:
    panel = _VECTORS * _VECTOR_BYTES // matrix.itemsize
    wide = -(-columns // panel) * panel
    for item in range(first, last):
        low = item * panel
        width = min(panel, columns - low)
        for start in range(0, inner, _BLOCK_DEPTH):
            depth = min(_BLOCK_DEPTH, inner - start)
            offset = start * wide + item * depth * panel
            to = panels[offset : offset + depth * panel]
            # Columns beyond the last are multiplied too: what memory happens to hold there may be denormal and slow.
            if width < panel:
                clear(to)
            if not transposed:
                for k in range(depth):
                    row = matrix[(start + k) * columns + low : (start + k) * columns + low + width]
                    for j in range(width):
                        to[k * panel + j] = row[j]
                continue
            full = width - width % _PACK_COLUMNS
            for j in range(0, full, _PACK_COLUMNS):
                # One pass for several columns: each line of the panel is written in a few strokes.
                rows = matrix[(low + j) * inner + start : (low + j + _PACK_COLUMNS) * inner]
                for k in range(depth):
                    for i in range(_PACK_COLUMNS):
                        to[k * panel + j + i] = rows[i * inner + k]
            for j in range(full, width):
                row = matrix[(low + j) * inner + start : (low + j) * inner + start + depth]
                for k in range(depth):
                    to[k * panel + j] = row[k]


_PACK = Kernel.of(_pack)


def _few_rows(rows: int, beside: int) -> Any:
    """Return the function that multiplies so many rows with all panels of a block, as many panels at once as `beside`
    says, and the last ones one by one."""

    @numba.njit(**INLINED)
    def add_product_of_few_rows(
        depth: int, a: Any, a_at: int, a_width: int, panels: Any, at: int, out: Any, out_at: int, wide: int
    ) -> None:
        panel = _VECTORS * _VECTOR_BYTES // a.itemsize
        count, apart = wide // panel, depth * panel
        full = count - count % beside
        for p in range(0, full, beside):
            _tile(rows, beside, depth, a, a_at, a_width, panels, at + p * apart, apart, out, out_at + p * panel, wide)
        for p in range(full, count):
            _tile(rows, 1, depth, a, a_at, a_width, panels, at + p * apart, apart, out, out_at + p * panel, wide)

    return add_product_of_few_rows


# Fewer rows than a tile has multiply as many panels at once as keep its registers full.
_FOUR_ROWS, _TWO_ROWS, _ONE_ROW = _few_rows(4, _ROWS // 4), _few_rows(2, _ROWS // 2), _few_rows(1, _ROWS)


@compiled(**FAST)
def add_product(rows: int, inner: int, a: Any, a_width: int, panels: Any, wide: int, out: Any) -> None:
    """out += a @ matrix for `rows` rows; a (rows, inner) and out (rows, wide) row by row in flat arrays.

    `panels` is the packed matrix and `wide` its padded width; rows of `a` lie `a_width` apart.
    """
    panel = _VECTORS * _VECTOR_BYTES // a.itemsize
    count, full = wide // panel, rows - rows % _ROWS
    for start in range(0, inner, _BLOCK_DEPTH):
        depth = min(_BLOCK_DEPTH, inner - start)
        at, apart, r = start * wide, depth * panel, full
        # Panels outside, rows inside: a panel's block is in the cache while all rows pass over it.
        for p in range(count):
            for row in range(0, full, _ROWS):
                x, y = row * a_width + start, row * wide + p * panel
                _tile(_ROWS, 1, depth, a, x, a_width, panels, at + p * apart, apart, out, y, wide)
        if rows - r >= 4:
            _FOUR_ROWS(depth, a, r * a_width + start, a_width, panels, at, out, r * wide, wide)
            r += 4
        if rows - r >= 2:
            _TWO_ROWS(depth, a, r * a_width + start, a_width, panels, at, out, r * wide, wide)
            r += 2
        if rows > r:
            _ONE_ROW(depth, a, r * a_width + start, a_width, panels, at, out, r * wide, wide)


@intrinsic(prefer_literal=True)
def _tile(
    typing: Any, rows: Any, beside: Any, depth: Any, a: Any, a_at: Any, a_width: Any, panels: Any, at: Any, apart: Any,
    out: Any, out_at: Any, out_width: Any,
) -> Any:  # fmt: skip
    """Add to a tile of the result, `rows` rows of as many panels `beside` each other (both literals), what a block of
    the inner axis, `depth` long, gives. Arrays are flat; the tile's parts begin at `a_at`, `at` and `out_at`."""
    count, columns = rows.literal_value, _VECTORS * beside.literal_value

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, _, depth, a, a_at, a_width, panels, at, apart, out, out_at, out_width = arguments
        element = context.get_data_type(signature.args[3].dtype)
        size = context.get_abi_sizeof(element)
        lanes = _VECTOR_BYTES // size
        vector = ir.VectorType(element, lanes)
        a, panels, out = (
            context.make_array(signature.args[n])(context, builder, array).data
            for n, array in ((3, a), (6, panels), (9, out))
        )

        def address(base: Any, start: Any, times: Any, n: int, more: int = 0) -> Any:
            """The address of base[start + n · times + more]."""
            index = builder.add(start, builder.mul(times, times.type(n)))
            return builder.gep(base, [builder.add(index, index.type(more))])

        def line(pointer: Any) -> Any:
            return builder.bitcast(pointer, vector.as_pointer())

        # Allocations of fixed size: LLVM turns them into registers.
        zeros = ir.Constant(vector, [ir.Constant(element, 0.0)] * lanes)
        sums = [[cgutils.alloca_once_value(builder, zeros) for _ in range(columns)] for _ in range(count)]
        a_rows = [address(a, a_at, a_width, n) for n in range(count)]
        begins = [address(panels, at, apart, n) for n in range(beside.literal_value)]
        # LLVM's idiom for a broadcast: insert into lane 0, then shuffle it to all lanes.
        lane_zero = ir.Constant(ir.VectorType(cgutils.int32_t, lanes), [0] * lanes)
        undefined = ir.Constant(vector, ir.Undefined)
        fused = {"flags": ("contract",)}
        with cgutils.for_range(builder, depth) as loop:
            k = loop.index
            read = []
            for n in range(columns):
                begin = begins[n // _VECTORS]
                read.append(builder.load(line(address(begin, k.type(n % _VECTORS * lanes), k, _VECTORS * lanes))))
                # Vectors are aligned as their elements are: LLVM assumes the vector's own alignment, which would fault.
                read[-1].align = size
            for n in range(count):
                one = builder.insert_element(undefined, builder.load(builder.gep(a_rows[n], [k])), cgutils.int32_t(0))
                factor = builder.shuffle_vector(one, undefined, lane_zero)
                for values, total in zip(read, sums[n], strict=True):
                    product = builder.fmul(factor, values, **fused)
                    builder.store(builder.fadd(builder.load(total), product, **fused), total)
        for n in range(count):
            for m in range(columns):
                target = line(address(out, out_at, out_width, n, m * lanes))
                before = builder.load(target)
                before.align = size
                builder.store(builder.fadd(before, builder.load(sums[n][m])), target).align = size
        return context.get_dummy_value()

    int64 = types.int64
    arrays = (int64, a, int64, int64, panels, int64, int64, out, int64, int64)
    return types.none(rows, beside, *arrays), build
