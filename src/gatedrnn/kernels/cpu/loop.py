"""Loop cells over a whole sequence, and their gradient: one thread runs some of the sequences through all of time.

Sequences do not wait for each other, so threads never meet; each step reads the recurrent weights once for all of a
thread's sequences. What stands between the products comes from the cell's equations (`codegen.loop`).
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
from torch import Tensor

from gatedrnn.codegen.loop import LoopProgram
from gatedrnn.codegen.row import Row
from gatedrnn.kernels.cpu._compile import FAST, INLINED, compiled
from gatedrnn.kernels.cpu._math import flush_denormals, restore_denormals
from gatedrnn.kernels.cpu._products import add_product, packed, padded
from gatedrnn.kernels.cpu._rows import address_of, call_row, dtype_name, row_address
from gatedrnn.kernels.cpu._threads import Kernel, share_out, threads_for
from gatedrnn.kernels.cpu._views import (
    Array,
    StridedView,
    block,
    clear,
    copy,
    flags,
    flat,
    keep_alive,
    strided,
    view,
    widened,
)
from gatedrnn.shapes import Flags, Series, State, empty_series, time_first

ROWS = 32  # sequences of one work item at most: a matrix that is read once serves them all
PRODUCTS, CANDIDATE, INNER, GRADS, UNPROJECTED = range(1, 6)
"""Where rows lie that are no tensor's: products of the state, of the gated state; the gated state, its gradient, or h
before its projection; gradients of products; that of h before its projection."""
HEAD = 3
"""Words in front of the places of a function's rows: its address, their number, and which of them is h before a step
(-1: none). Then come, each for all places: which of the above, or 0; the address, or how far behind the beginning of
that; how many bytes apart rows of sequences, of a work item's sequences, and of steps are. Last, which places are those
of the carried states before a step."""


class Recurrence(NamedTuple):
    """Parameters that multiply the state of a loop cell; None for those that it does not have."""

    weight_hh: Tensor
    bias_hh: Tensor | None = None
    diagonals: Tensor | None = None
    """The diagonal weights, one after another."""
    weight_hr: Tensor | None = None
    dropout_mask: Tensor | None = None
    """(batch, width): multiplies h where gates read it."""


class LoopStates(NamedTuple):
    """Every state, and the other values that the gradient needs."""

    h: Series
    c: Series
    """The other states side by side; of no size where there are none."""
    kept: Tensor
    """(batch, time, `LoopProgram.kept` · size)."""


class LoopPlan(NamedTuple):
    """Sizes, and the direction in which time runs."""

    batch: int
    steps: int
    size: int
    """Channels of a gate."""
    carried: int
    """Channels of c: of all states but h."""
    width: int
    """Channels of h, which are fewer where it is projected."""
    gates: int
    gated: int
    """As in `LoopProgram`."""
    kept: int
    separate: int
    """Of `LoopProgram.separate`, how many."""
    heads: int
    """Blocks on the diagonal of the recurrent matrices."""
    passes_output: bool
    rows: int
    """Sequences of one work item."""
    reverse: bool
    batch_stride: int
    time_stride: int
    """How far apart sequences and steps lie, in rows, in every series but the input and its gradient's source."""
    recurrent_columns: int
    head_columns: int
    candidate_columns: int
    projection_columns: int
    """Padded columns of the packed matrices, and of one head's; 0 of those that the cell does not have."""


class Parameters(NamedTuple):
    """Parameters that multiply the state, flat; empty arrays for those that a cell does not have.

    Matrices are packed (`_products.packed`): transposed in the forward, as the layer has them in the backward.
    """

    recurrent: np.ndarray
    """Of all gates, or of those before the ones that read the gated state; of several heads one after another."""
    candidate: np.ndarray
    """Of those."""
    bias: np.ndarray
    projection: np.ndarray
    dropout_mask: np.ndarray
    """(batch, width): multiplies h where gates read it."""


def loop_cells(
    program: LoopProgram, projected: Series, recurrence: Recurrence, h0: State, c0: State | None,
    mask: Flags | None, resets: Flags | None, reverse: bool,
) -> tuple[LoopStates, State, State]:  # fmt: skip
    """A loop cell's states from its input projections (batch, time, gates · size), and the last h and c.

    Everything in one dtype, float32 or float64; c0 has all states but h side by side. A masked step leaves
    the states as they were; a reset brings them back to zeros. The series come out in the order in which the
    projections lie in memory.
    """
    projected = projected.contiguous() if projected.stride(2) != 1 else projected
    plan = _plan(program, projected, recurrence, h0.shape[1], reverse, backward=False)
    h = h0.contiguous().clone()
    c = projected.new_empty(0) if c0 is None else c0.contiguous().clone()
    hs = empty_series(projected, plan.width)
    cs = projected.new_empty(0) if c0 is None else empty_series(projected, plan.carried)
    kept = empty_series(projected, plan.kept * plan.size)
    if plan.batch:
        places = _Places(projected, plan)
        places.of_each_step(program.projections, "x_{}", projected)
        places.of_each_step(range(plan.kept), "kept_{}", kept)
        places.of_products(plan, program.projections)
        places.of_diagonals(program.diagonals, recurrence.diagonals)
        places.of_sequences("h", h)
        for i, name in enumerate(program.carried):
            places.of_sequences(name, c, i * plan.size)
        if plan.projection_columns:
            places.of_scratch("h", INNER, plan.size)
        places.of_scratch("gated", INNER, plan.size)
        first, *second = [places.words(program, row) for row in program.forward]
        _share_out(
            RUN, plan, plan, first, *(second or [NOWHERE]), _parameters(plan, recurrence, transposed=True),
            flags(mask), flags(resets), flat(h), flat(c), _rows_of(kept), _rows_of(hs), _rows_of(cs),
        )  # fmt: skip
    return LoopStates(hs, cs, kept), h, c


class LoopGradient(NamedTuple):
    """Gradients of a loop cell over a sequence; those of the weights are products of these with the states."""

    projected: Series
    separate: Series
    """Of the recurrent products of `LoopProgram.separate`; of no size where there are none."""
    gated: Series
    """Not a gradient: what the second product reads; of no size where there is none."""
    h: Series
    """Of every projected h; of no size where h is not projected."""
    inner: Series
    """Not a gradient: h before its projection; of no size too."""
    h0: State
    c0: State
    diagonals: Tensor
    """One after another, or of no size."""


def loop_cells_gradient(
    program: LoopProgram, grad_h: Series, grad_last_h: State, grad_last_c: State | None, states: LoopStates,
    recurrence: Recurrence, h0: State, c0: State | None, mask: Flags | None, resets: Flags | None, reverse: bool,
) -> LoopGradient:  # fmt: skip
    """The backward of `loop_cells`; at a masked step `grad_h` is ignored."""
    kept = states.kept
    size = recurrence.weight_hh.shape[0] // program.gates
    plan = _plan(program, states.h, recurrence, h0.shape[1], reverse, backward=True)
    nothing = kept.new_empty(0)
    delta_h, start_h = grad_last_h.contiguous().clone(), h0.contiguous()
    delta_c, start_c = (nothing if s is None else s.contiguous() for s in (grad_last_c, c0))
    delta_c = delta_c.clone()
    grad_x = empty_series(kept, plan.gates * size)
    separate = empty_series(kept, len(program.separate) * size) if program.separate else nothing
    gated = empty_series(kept, size) if program.gated else nothing
    projects = recurrence.weight_hr is not None
    projected_h, inner = (empty_series(kept, n) if projects else nothing for n in (plan.width, size))
    for series in (projected_h, inner, gated):
        if mask is not None:
            series.zero_()  # a weight's gradient multiplies what no step writes with 0
    diagonals = kept.new_zeros(plan.batch, len(program.diagonals) * size)
    if plan.batch:
        places = _Places(kept, plan)
        places.of_each_step(range(plan.kept), "kept_{}", kept)
        places.of_each_step(program.projections, "gx_{}", grad_x)
        places.of_each_step(["after_h"], "{}", states.h)
        places.of_each_step(program.carried, "after_{}", states.c)
        places.of_each_step(["gated"], "{}", gated)
        places.of_each_step(["inner"], "{}", inner)
        places.of_diagonals(program.diagonals, recurrence.diagonals)
        for i, name in enumerate(program.diagonals):
            places.of_sequences(f"gw_{name}", diagonals, i * size)
        for i, name in enumerate(program.projections):
            places.of_scratch(f"gu_{name}", GRADS, plan.gates * size, i * size)
        places.of_sequences("delta_h", delta_h)
        for i, name in enumerate(program.carried):
            places.of_sequences(f"delta_{name}", delta_c, i * size)
        if projects:
            places.of_scratch("delta_h", UNPROJECTED, plan.projection_columns)
        places.of_scratch("delta_gated", INNER, size)
        for name in ("h", *program.carried):
            places.of_scratch(f"before_{name}", 0, 0)  # these are looked for at every step
        rows = program.backward_projecting if projects else program.backward
        first, *second = [places.words(program, row) for row in rows]
        apart = [program.separate.index(name) if name in program.separate else -1 for name in program.projections]
        _share_out(
            RUN_BACKWARD, plan, plan, first, *(second or [NOWHERE]), strided(grad_h),
            _parameters(plan, recurrence, transposed=False), flags(mask), flags(resets), flat(start_h),
            flat(start_c), _rows_of(states.h), _rows_of(states.c), flat(delta_h), flat(delta_c), _rows_of(grad_x),
            np.array(apart, np.int64), _rows_of(separate), _rows_of(projected_h),
        )  # fmt: skip
    return LoopGradient(grad_x, separate, gated, projected_h, inner, delta_h, delta_c, diagonals.sum(0))


NOWHERE = np.empty(0, np.int64)


class _Places:
    """Where the rows lie that a cell's functions take, by their names, as kernels read it (`WORDS`)."""

    def __init__(self, like: Tensor, plan: LoopPlan) -> None:
        self.dtype, self.bytes, self.size = dtype_name(like.dtype), like.element_size(), plan.size
        self._found: dict[str, tuple[int, ...]] = {}

    def of_each_step(self, names: Iterable[object], title: str, series: Series) -> None:
        """Neighbouring blocks of the channels of a series."""
        if series.dim() == 3:
            between = series.stride(0) * self.bytes, 0, series.stride(1) * self.bytes
            for i, name in enumerate(names):
                self._found[title.format(name)] = 0, series.data_ptr() + i * self.size * self.bytes, *between

    def of_sequences(self, name: str, x: Tensor, offset: int = 0) -> None:
        """(batch, channels), from that channel on."""
        if x.dim() == 2:
            self._found[name] = 0, x.data_ptr() + offset * self.bytes, x.shape[1] * self.bytes, 0, 0

    def of_diagonals(self, names: Iterable[str], weights: Tensor | None) -> None:
        """Weights for all sequences."""
        for i, name in enumerate(names):
            assert weights is not None and weights.is_contiguous()
            self._found[f"w_{name}"] = 0, weights.data_ptr() + i * self.size * self.bytes, 0, 0, 0

    def of_scratch(self, name: str, which: int, width: int, offset: int = 0) -> None:
        """Memory of a thread: rows of that width for the sequences of a work item."""
        self._found[name] = which, offset * self.bytes, 0, width * self.bytes, 0

    def words(self, program: LoopProgram, row: Row) -> np.ndarray:
        """The function of a row, and the places of its rows."""
        address = row_address(row, program.word, (self.dtype,) * len(row.rows))
        before = [f"before_{name}" for name in ("h", *program.carried)]
        h, *carried = (row.rows.index(name) if name in row.rows else -1 for name in before)
        places = zip(*(self._found[name] for name in row.rows), strict=True)
        words = (word for kind in places for word in kind)
        return np.array([address, len(row.rows), h, *words, *carried], np.int64)

    def of_products(self, plan: LoopPlan, projections: Sequence[str]) -> None:
        """Products with the state, of the last projections with the gated state."""
        first = plan.gates - plan.gated
        for i, name in enumerate(projections):
            which, width = (PRODUCTS, plan.recurrent_columns) if i < first else (CANDIDATE, plan.candidate_columns)
            self.of_scratch(f"u_{name}", which, width, (i if i < first else i - first) * self.size)


def _rows_of(x: Series) -> np.ndarray:
    """The elements of what `empty_series` made, or of nothing, in their order in memory."""
    return flat(x.transpose(0, 1) if x.dim() == 3 and time_first(x) else x)


def _plan(
    program: LoopProgram, like: Series, recurrence: Recurrence, width: int, reverse: bool, backward: bool
) -> LoopPlan:  # fmt: skip
    """Of a pass over a series like this one."""
    (batch, steps, _), gates, gated = like.shape, program.gates, program.gated
    size = recurrence.weight_hh.shape[0] // gates
    heads = width // recurrence.weight_hh.shape[1]
    columns = [
        width if backward else (gates - gated) * size,
        0 if heads == 1 else (width if backward else gates * size) // heads,
        (width if backward else gated * size) if gated else 0,
        (size if backward else width) if recurrence.weight_hr is not None else 0,
    ]
    return LoopPlan(
        batch, steps, size, len(program.carried) * size, width, gates, gated, program.kept, len(program.separate),
        heads, program.passes_output, _rows(batch, steps, gates * size), reverse,
        *((1, batch) if time_first(like) else (steps, 1)), *(padded(n, like.element_size()) for n in columns),
    )  # fmt: skip


def _rows(batch: int, steps: int, features: int) -> int:
    """Sequences of a work item: the same number for each thread."""
    threads = min(_threads(batch, steps, features), max(batch, 1))
    items = threads * -(-batch // (threads * ROWS))
    return -(-batch // max(items, 1))


def _threads(batch: int, steps: int, features: int) -> int:
    # A step multiplies every element of a projection by as many weights as the state has channels.
    return threads_for(batch * steps * features * 8)


def _share_out(compiled_kernel: Kernel, plan: LoopPlan, *arguments: object) -> None:
    threads = _threads(plan.batch, plan.steps, plan.gates * plan.size)
    share_out(compiled_kernel, -(-plan.batch // plan.rows), threads, *arguments)


def _parameters(plan: LoopPlan, recurrence: Recurrence, transposed: bool) -> Parameters:
    weight, bias, _, projection, dropout_mask = recurrence
    nothing = flat(weight.new_empty(0))
    first = (plan.gates - plan.gated) * plan.size

    def panels(matrix: Tensor | None) -> np.ndarray:
        return nothing if matrix is None or not len(matrix) else packed(matrix.contiguous(), transposed)

    if plan.heads > 1:
        of_heads = weight.view(plan.gates, plan.heads, -1, weight.shape[1]).transpose(0, 1).flatten(1, 2)
        recurrent = np.concatenate([panels(matrix) for matrix in of_heads])
    else:
        recurrent = panels(weight[:first])
    others = [nothing if v is None else flat(v.contiguous()) for v in (bias, dropout_mask)]
    return Parameters(recurrent, panels(weight[first:]), others[0], panels(projection), others[1])


@numba.njit(**INLINED)
def _time(plan: LoopPlan, k: int) -> int:
    return plan.steps - 1 - k if plan.reverse else k


@numba.njit(**INLINED)
def _index(plan: LoopPlan, b: int, t: int) -> int:
    """The row of a step in a series."""
    return b * plan.batch_stride + t * plan.time_stride


@numba.njit(**INLINED)
def _read(h: Any, dropout_mask: Any, low: int, rows: int, width: int, scratch: Any) -> Any:
    """h as gates read it."""
    if dropout_mask.size == 0:
        return h
    for i in range(rows * width):
        scratch[i] = h[i] * dropout_mask[low * width + i]
    return scratch


@numba.njit(**INLINED)
def _located(words: Any, memory: Any) -> Any:
    """The same places, with the addresses of a thread's own memory."""
    found = words.copy()
    count = words[1] if words.size else 0
    for at in range(HEAD, HEAD + count):
        if words[at]:
            found[at + count] += memory[words[at]]
    return found


@numba.njit(**INLINED)
def _call(words: Any, n: int, b: int, r: int, t: int, before_h: int, before_c: int, apart: int, table: Any) -> None:
    """Call a function of rows for a sequence, the r-th of a work item, at one step; its states lie `apart` bytes."""
    count = words[1]
    bases, of_b = view(words, HEAD + count, count), view(words, HEAD + 2 * count, count)
    of_r, of_t = view(words, HEAD + 3 * count, count), view(words, HEAD + 4 * count, count)
    for i in range(count):
        table[i] = bases[i] + b * of_b[i] + r * of_r[i] + t * of_t[i]
    if words[2] >= 0:
        table[words[2]] = before_h
    for i in range(HEAD + 5 * count, words.size):
        if words[i] >= 0:
            table[words[i]] = before_c + (i - HEAD - 5 * count) * apart
    call_row(words[0], n, address_of(table))


@numba.njit(**INLINED)
def _add_heads(rows: int, plan: LoopPlan, h: Any, panels: Any, of_head: Any, u: Any) -> None:
    """u += the product of h with recurrent matrices of several blocks; `of_head` is memory for that of one."""
    size, columns = plan.width // plan.heads, plan.head_columns
    for head in range(plan.heads):
        clear(of_head)
        read, matrix = view(h, head * size, h.size - head * size), block(panels, head, size * columns)
        add_product(rows, size, read, plan.width, matrix, columns, of_head)
        for r in range(rows):
            for g in range(plan.gates):
                to = view(u, r * plan.recurrent_columns + g * plan.size + head * size, size)
                given = view(of_head, r * columns + g * size, size)
                for i in range(size):
                    to[i] += given[i]


@numba.njit(**INLINED)
def _add_heads_backward(
    rows: int, plan: LoopPlan, grads: Any, panels: Any, of_head: Any, gathered: Any, products: Any
) -> None:
    """products += what goes back to h from the gradients of `_add_heads`; `gathered` is memory for those of one."""
    size, columns, wide = plan.width // plan.heads, plan.head_columns, plan.gates * plan.size
    inner = plan.gates * size
    for head in range(plan.heads):
        clear(of_head)
        for r in range(rows):
            for g in range(plan.gates):
                given = view(grads, r * wide + g * plan.size + head * size, size)
                copy(given, view(gathered, r * inner + g * size, size))
        add_product(rows, inner, gathered, inner, block(panels, head, inner * columns), columns, of_head)
        for r in range(rows):
            to = view(products, r * plan.recurrent_columns + head * size, size)
            given = view(of_head, r * columns, size)
            for i in range(size):
                to[i] += given[i]


@numba.njit(**INLINED)
def _begin(products: Any, rows: int, width: int, bias: Any, first: int, count: int) -> None:
    """Products begin with their bias, so many channels of it from the first one on, or with zeros."""
    for r in range(rows):
        if bias.size:
            copy(view(bias, first, count), view(products, r * width, count))
        else:
            clear(block(products, r, width))


@compiled(**FAST)
def run(
    first: int, last: int, plan: LoopPlan, gates: Array, update: Array, parameters: Parameters, mask: Array,
    resets: Array, h: Array, c: Array, kept: Array, hs: Array, cs: Array,
) -> None:  # fmt: skip
    """Run items from the states h (batch, width) and c, and leave the last states there; every state is written to hs
    and cs. A masked step leaves the states as they were.

    Args:
        gates: function and places of a step's gates, or of those before the product of the gated state.
        update: of what follows that product; empty where there is none.
    """
    exactness = flush_denormals()
    steps, n, width, wide = plan.steps, plan.size, plan.width, plan.gates * plan.size
    early, dtype = wide - plan.gated * n, h.dtype
    u_width, candidate_width, projected_width = plan.recurrent_columns, plan.candidate_columns, plan.projection_columns
    u, candidate = np.zeros(plan.rows * u_width, dtype), np.zeros(plan.rows * candidate_width, dtype)
    projected, read_scratch = np.zeros(plan.rows * projected_width, dtype), np.zeros(plan.rows * width, dtype)
    # `inner` is h before its projection, or the state that a gate has multiplied: no cell has both.
    inner, memory = np.zeros(plan.rows * n, dtype), np.zeros(UNPROJECTED + 1, np.int64)
    of_head = np.zeros(plan.rows * plan.head_columns, dtype)
    table = np.empty(max(gates.size, update.size), np.int64)
    memory[PRODUCTS], memory[CANDIDATE], memory[INNER] = address_of(u), address_of(candidate), address_of(inner)
    gates, update = _located(gates, memory), _located(update, memory)
    for item in range(first, last):
        low = item * plan.rows
        rows = min(plan.rows, plan.batch - low)
        h_rows = view(h, low * width, rows * width)
        for k in range(steps):
            t = _time(plan, k)
            for r in range(rows):
                if resets.size and resets[(low + r) * steps + t]:
                    clear(block(h_rows, r, width))
                    if c.size:
                        clear(block(c, low + r, plan.carried))
            _begin(u, rows, u_width, parameters.bias, 0, early)
            read = _read(h_rows, parameters.dropout_mask, low, rows, width, read_scratch)
            if plan.heads == 1:
                add_product(rows, width, read, width, parameters.recurrent, u_width, u)
            else:
                _add_heads(rows, plan, read, parameters.recurrent, of_head, u)
            for r in range(rows):
                if mask.size == 0 or mask[(low + r) * steps + t]:
                    _call(gates, n, low + r, r, t, 0, 0, 0, table)
                else:
                    clear(block(inner, r, n))
                    clear(block(kept, _index(plan, low + r, t), plan.kept * n))  # the same every time
            if plan.gated:
                _begin(candidate, rows, candidate_width, parameters.bias, early, wide - early)
                read = _read(inner, parameters.dropout_mask, low, rows, width, read_scratch)
                add_product(rows, width, read, width, parameters.candidate, candidate_width, candidate)
                for r in range(rows):
                    if mask.size == 0 or mask[(low + r) * steps + t]:
                        _call(update, n, low + r, r, t, 0, 0, 0, table)
            if parameters.projection.size:
                clear(projected)
                add_product(rows, n, inner, n, parameters.projection, projected_width, projected)
                for r in range(rows):
                    if mask.size == 0 or mask[(low + r) * steps + t]:
                        copy(view(projected, r * projected_width, width), block(h_rows, r, width))
            for r in range(rows):
                index = _index(plan, low + r, t)
                copy(block(h_rows, r, width), block(hs, index, width))
                if c.size:
                    copy(block(c, low + r, plan.carried), block(cs, index, plan.carried))
    keep_alive(u)
    keep_alive(candidate)
    keep_alive(inner)
    keep_alive(table)
    restore_denormals(exactness)


@numba.njit(**INLINED)
def _address_before(
    series: Any, start: Any, zeros: Any, plan: LoopPlan, b: int, k: int, size: int, reset: bool
) -> int:  # fmt: skip
    """Where a state before step k of the run lies."""
    if reset:
        return address_of(zeros)
    if k == 0:
        return address_of(start) + b * size * start.itemsize
    return address_of(series) + _index(plan, b, _time(plan, k - 1)) * size * series.itemsize


@numba.njit(**INLINED)
def _add_read(to: Any, row: Any, dropout_mask: Any, b: int) -> None:
    """Add the gradient of h as gates read it."""
    if dropout_mask.size:
        for i in range(to.size):
            to[i] += row[i] * dropout_mask[b * to.size + i]
    else:
        for i in range(to.size):
            to[i] += row[i]


@compiled(**FAST)
def run_backward(
    first: int, last: int, plan: LoopPlan, gates: Array, update: Array, grad: StridedView, parameters: Parameters,
    mask: Array, resets: Array, h0: Array, c0: Array, hs: Array, cs: Array, delta_h: Array, delta_c: Array,
    grad_x: Array, apart: Array, separate: Array, grad_h: Array,
) -> None:  # fmt: skip
    """Run items backward from the gradients of the last states, and leave those of the initial states there.

    Args:
        gates, update: of the gradient, as in `run`.
        grad_x: gets the gradients of the projections.
        apart: of each projection its place in `separate`, which gets those of the recurrent product where they are
            other ones; or -1.
        grad_h: gets the gradient of every projected h.
    """
    exactness = flush_denormals()
    steps, n, width, wide = plan.steps, plan.size, plan.width, plan.gates * plan.size
    early, dtype = wide - plan.gated * n, delta_h.dtype
    products_width, unprojected_width = plan.recurrent_columns, plan.projection_columns
    grads, inner = np.zeros(plan.rows * wide, dtype), np.zeros(plan.rows * n, dtype)
    products, unprojected = np.zeros(plan.rows * products_width, dtype), np.zeros(plan.rows * unprojected_width, dtype)
    of_head = np.zeros(plan.rows * plan.head_columns, dtype)
    gathered = np.zeros(plan.rows * (wide // plan.heads if plan.heads > 1 else 0), dtype)
    zeros, grad_scratch = np.zeros(max(width, plan.carried), dtype), np.zeros(width, dtype)
    memory, table = np.zeros(UNPROJECTED + 1, np.int64), np.empty(max(gates.size, update.size), np.int64)
    memory[INNER], memory[GRADS], memory[UNPROJECTED] = address_of(inner), address_of(grads), address_of(unprojected)
    gates, update = _located(gates, memory), _located(update, memory)
    before_h, before_c = 0, 0
    for item in range(first, last):
        low = item * plan.rows
        rows = min(plan.rows, plan.batch - low)
        delta_rows = view(delta_h, low * width, rows * width)
        for k in range(steps - 1, -1, -1):
            t = _time(plan, k)
            for r in range(rows):
                b = low + r
                if mask.size and not mask[b * steps + t]:
                    continue
                given = widened(view(grad.elements, b * grad.batch_stride + t * grad.time_stride, width), grad_scratch)
                row = block(delta_rows, r, width)
                for i in range(width):
                    row[i] += given[i]
                if grad_h.size:
                    copy(row, block(grad_h, _index(plan, b, t), width))
            if parameters.projection.size:
                clear(unprojected)
                add_product(rows, width, delta_rows, width, parameters.projection, unprojected_width, unprojected)
            for part in range(1 if plan.gated else 0, -1, -1):
                for r in range(rows):
                    b = low + r
                    if mask.size and not mask[b * steps + t]:
                        clear(block(grads, r, wide))
                        continue
                    reset = resets.size > 0 and resets[b * steps + t]
                    if gates[2] >= 0:
                        before_h = _address_before(hs, h0, zeros, plan, b, k, width, reset)
                    if cs.size:
                        before_c = _address_before(cs, c0, zeros, plan, b, k, plan.carried, reset)
                    _call(update if part else gates, n, b, r, t, before_h, before_c, n * delta_h.itemsize, table)
                    if part == 0 and not plan.passes_output:
                        clear(block(delta_rows, r, width))
                clear(products)
                if part:
                    of_update = view(grads, early, grads.size - early)
                    add_product(rows, wide - early, of_update, wide, parameters.candidate, products_width, products)
                    for r in range(rows):
                        delta = block(inner, r, n)
                        clear(delta)
                        _add_read(delta, block(products, r, products_width), parameters.dropout_mask, low + r)
            if plan.heads == 1:
                add_product(rows, early, grads, wide, parameters.recurrent, products_width, products)
            else:
                _add_heads_backward(rows, plan, grads, parameters.recurrent, of_head, gathered, products)
            for r in range(rows):
                b = low + r
                index = _index(plan, b, t)
                _add_read(block(delta_rows, r, width), block(products, r, products_width), parameters.dropout_mask, b)
                if separate.size == 0:
                    copy(block(grads, r, wide), block(grad_x, index, wide))
                else:
                    real = mask.size == 0 or mask[b * steps + t]
                    for g in range(plan.gates):
                        of_gate, to = view(grads, r * wide + g * n, n), view(grad_x, index * wide + g * n, n)
                        if apart[g] < 0:
                            copy(of_gate, to)
                        else:
                            copy(of_gate, view(separate, (index * plan.separate + apart[g]) * n, n))
                            if not real:
                                clear(to)
                if resets.size and resets[b * steps + t]:
                    clear(block(delta_rows, r, width))
                    if delta_c.size:
                        clear(block(delta_c, low + r, plan.carried))
    keep_alive(grads)
    keep_alive(inner)
    keep_alive(unprojected)
    keep_alive(zeros)
    keep_alive(table)
    restore_denormals(exactness)


RUN = Kernel.of(run)
RUN_BACKWARD = Kernel.of(run_backward)
