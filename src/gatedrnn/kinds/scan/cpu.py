"""The scan h_t = a_t * h_(t-1) + b_t and its gradient: with a cell's gates, or with its input projection too.

Where sequences and channels are too few for the threads, time is divided into chunks: a first pass computes the map of
each chunk from the state before it to the state after it, a second one runs all chunks at once.

In the backward of a scan with its projection, the gradient of the projections is computed piece by piece, always in the
same memory, and multiplied with weights and inputs there: as a whole it would be the largest tensor of the layer, and
the system is slow to provide memory for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gatedrnn.codegen.row import ADD, Row
from gatedrnn.kernels.cpu.rows import (
    WRITTEN_SOON,
    Site,
    at_channels,
    at_state,
    at_steps,
    dtype_name,
    row_address,
    sites,
)
from gatedrnn.kernels.cpu.scratch import scratch
from gatedrnn.kernels.cpu.threads import parallel_for, threads_for
from gatedrnn.kernels.cpu.views import flags
from gatedrnn.kernels.matmul import add_weight_grad, product, product_into, weight_grad
from gatedrnn.kinds.scan.definition import ScanGradients, ScanInputs, ScanUpstream
from gatedrnn.kinds.scan.loops import NONE, RUN, RUN_BACKWARD, Plan, Rows, Sums
from gatedrnn.kinds.scan.rows import CellProgram, CellRows
from gatedrnn.shapes import Channels, Series, State

BLOCK = 256  # channels of one work item at most: its rows stay in the first-level cache
NARROW = 32  # and at least, where channels are shared out
_WORTH_TWO_PASSES = 3  # threads an item below which computing gates twice, in chunks of time, gains nothing
_PIECE = 1 << 19  # elements of a piece of the projections' gradient for each thread


class Operands(NamedTuple):
    """The tensors that forward and backward read."""

    program: CellProgram
    rows: CellRows
    projections: tuple[Series, ...]
    """One a gate; channels are adjacent in memory."""
    by_channel: tuple[Channels, ...]
    """Biases, one a gate or none, and the diagonal weights after them."""
    starts: State | None
    """The states before the first step, side by side; zeros if None."""
    mask: np.ndarray
    resets: np.ndarray
    """Flags, empty if there are none."""
    reset_states: Tensor
    """(states, channels)."""
    reverse: bool
    wide: torch.dtype
    """The dtype of states and sums."""

    @property
    def sites(self) -> dict[str, Site]:
        """The places of projections, biases and diagonal weights."""
        places = [*map(at_steps, self.projections), *map(at_channels, self.by_channel)]
        return dict(zip(self.rows.inputs, places, strict=True))


def scan(program: CellProgram, inputs: ScanInputs) -> tuple[Series, State, Series | None]:
    """Run a cell, or a bare scan, over a whole sequence: outputs, last states, and the product with `weight`."""
    x, weight = inputs.x, inputs.weight
    series = x if weight is None else _input_product(x, weight)
    projections = _projections(program, series, inputs.drive)
    like, dtype = projections[-1], written(x.dtype)
    # In the layout of the product: the layer above reads this output as it lies.
    like_product = None if weight is None else torch.empty_like(like, memory_format=torch.preserve_format)
    # Kernels write no float16: that goes through float32 and is copied.
    output = like_product if like_product is not None and dtype == x.dtype else torch.empty(like.shape, dtype=dtype)
    forward = Forward(operands_of(program, projections, inputs), output)
    forward.run()
    if like_product is None:
        return output.to(like.dtype), forward.last, None
    return like_product if output is like_product else like_product.copy_(output), forward.last, series


def scan_gradient(program: CellProgram, upstream: ScanUpstream, inputs: ScanInputs) -> ScanGradients:
    """Gradients of `scan`; gates are computed again, and the states too if `output` is None."""
    x, weight, output = inputs.x, inputs.weight, upstream.output
    series = x if weight is None else upstream.projected
    # The backward of a bare scan does not read the drive.
    projections = _projections(program, series, None if inputs.drive is None else x)
    operands = operands_of(program, projections, inputs)
    states = [output] if output is not None else all_states(operands, upstream.grad_output)
    backward = Backward(operands, upstream, states)
    # Not where threads share one sequence's time; nor in float16, which kernels read in a copy.
    if weight is not None and backward.plan.chunks == 1 and written(x.dtype) == x.dtype:
        grad_x, grad_weight = _gradients_by_piece(backward, x, weight, program.gates, upstream.of_x)
        return _gradients(backward, grad_x, None, grad_weight)
    gradient = torch.empty(series.shape, dtype=written(series.dtype))
    of_drive = None if inputs.drive is None else torch.empty_like(gradient)
    parts = _projections(program, gradient, of_drive)
    backward.run(backward.plan, [at_steps(part, written=True) for part in parts])
    gradient = gradient.to(series.dtype)
    if weight is None:
        return _gradients(backward, gradient, None if of_drive is None else of_drive.to(series.dtype), None)
    # In the layout of x, as the fake form announces it.
    grad_x = torch.empty_like(x).copy_(product(gradient, weight.t())) if upstream.of_x else None
    return _gradients(backward, grad_x, None, weight_grad(gradient.flatten(0, 1), x.flatten(0, 1)))


def _input_product(x: Series, weight: Tensor) -> Series:
    """Multiply each step with weight.T, in the order in which steps lie in memory."""
    return product(x, weight) if x.is_contiguous() else product(x.transpose(0, 1), weight).transpose(0, 1)


def _projections(program: CellProgram, series: Series, drive: Series | None) -> tuple[Series, ...]:
    """Split the projections by gate; decay and drive are tensors of their own."""
    return series.split(series.shape[2] // program.gates, 2) if drive is None else (series, drive)


def _gradients(
    backward: "Backward", x: Series | None, drive: Series | None, weight: Tensor | None
) -> ScanGradients:  # fmt: skip
    return ScanGradients(x, drive, weight, backward.grad_by_channel, backward.grad_starts, backward.grad_reset_state)


def _gradients_by_piece(
    backward: "Backward", x: Series, weight: Tensor, gates: int, of_x: bool
) -> tuple[Series | None, Tensor]:  # fmt: skip
    """Return the gradients of x, if it is asked for, and weight, with that of the projections in memory by pieces."""
    grad_x, by_step = torch.empty_like(x) if of_x else None, not x.is_contiguous()
    rows_of_x, rows_of_grad_x = (None if v is None else _rows(v, by_step) for v in (x, grad_x))
    assert rows_of_x is not None
    # Products with the rows of a piece on the right are the fastest: this one is transposed at the end.
    transposed = weight.t().contiguous()
    # Summed over the pieces in float32 at least: in bfloat16 each addition would round.
    grad_transposed = torch.zeros(transposed.shape, dtype=backward.operands.wide)
    # The last piece first: each leaves the gradient of the state before it for the next.
    for piece in reversed(list(_pieces(backward.plan, len(weight), by_step))):
        gradient = scratch(piece.rows.stop - piece.rows.start, len(weight), x.dtype)
        backward.run(piece.plan, _piece_sites(gradient, piece, len(x), by_step, gates))
        if rows_of_grad_x is not None:
            product_into(rows_of_grad_x[piece.rows], gradient, transposed)
        add_weight_grad(grad_transposed, rows_of_x[piece.rows], gradient)
    # Contiguous, as the fake form announces it.
    return grad_x, grad_transposed.t().to(weight.dtype).contiguous()


class Forward:
    """A run that writes a cell's outputs, or every state."""

    def __init__(self, operands: Operands, out: Series) -> None:
        self.operands, self.out = operands, out
        self.plan = plan_for(operands.program, tuple(out.shape), operands.reverse)
        self.states = [
            torch.zeros(len(out), self.plan.chunks, out.shape[2], dtype=operands.wide) for _ in operands.program.states
        ]  # fmt: skip
        if operands.starts is not None:
            for state, start in zip(self.states, operands.starts.split(out.shape[2], 1), strict=True):
                state[:, 0] = start

    @property
    def last(self) -> State:
        """The last states, side by side."""
        return torch.cat([state[:, -1] for state in self.states], 1)

    def run(self, kept: Sequence[Series] = ()) -> None:
        """Write the outputs, or where `kept` is given every state to its series, at masked steps too."""
        plan, rows = self.plan, self.operands.rows
        if not self.out.numel():
            return
        if plan.chunks > 1:
            plan = self._compose(plan)
        by_name = {name: at_state(state) for name, state in zip(self.operands.program.states, self.states, strict=True)}
        if kept:
            names = [f"kept_{name}" for name in self.operands.program.states]
            self._parallel_for(
                plan, rows.states, by_name | {n: at_steps(x, True) for n, x in zip(names, kept, strict=True)}
            )
        else:
            self._parallel_for(plan, rows.forward, by_name | {"output": at_steps(self.out, written=True)})

    def _compose(self, plan: Plan) -> Plan:
        """Find the states before all chunks of time."""
        (state,), row = self.states, self.operands.rows.compose
        assert row is not None
        product, local = torch.ones_like(state), torch.zeros_like(state)
        self._parallel_for(plan, row, {"h": at_state(local), "product": at_state(product)})
        if _compose_chunks(state, product, local, range(plan.chunks)):
            return plan
        self.states = [state[:, :1].contiguous()]
        return plan._replace(chunks=1)

    def _parallel_for(self, plan: Plan, row: Row, by_name: dict[str, Site]) -> None:
        operands = self.operands
        outputs = [row.rows.index(name) for name in row.writes if name not in (*operands.program.states, "product")]
        written = (min(outputs), max(outputs) + 1) if outputs else (0, 0)
        rows = _row_arguments(operands, row, operands.sites | by_name, "h", written)
        # At a masked step the output is 0, but the state goes on.
        hold = row is operands.rows.states
        parallel_for(
            RUN, *_work(plan), plan, rows, operands.mask, operands.resets, operands.reset_states.data_ptr(),
            hold,
        )  # fmt: skip


class Backward:
    """Gradients from those of the output and of the last states; `run` may be called piece by piece, the last first.

    Args:
        states: every state after each step.
    """

    def __init__(self, operands: Operands, upstream: ScanUpstream, states: Sequence[Series]) -> None:
        self.operands, self.grad, self.states = operands, as_input(upstream.grad_output), [as_input(x) for x in states]
        channels, grad_last = states[0].shape[2], upstream.grad_last
        self.plan = plan_for(operands.program, tuple(states[0].shape), operands.reverse)
        starts = torch.zeros_like(grad_last) if operands.starts is None else operands.starts
        self.starts = [start.contiguous() for start in starts.split(channels, 1)]
        self._allocate(grad_last.split(channels, 1), self.plan.chunks)

    def _allocate(self, grad_last: Sequence[State], chunks: int) -> None:
        batch, channels = grad_last[0].shape
        self.carries = [last.new_zeros(batch, chunks, channels) for last in grad_last]
        for carry, last in zip(self.carries, grad_last, strict=True):
            carry[:, -1] = last
        # One row an item, summed in a fixed order afterwards: the result does not depend on the number of threads.
        self._grad_resets, self._grad_by_channel = (
            [torch.zeros_like(self.carries[0]) for _ in of] for of in (self.carries, self.operands.by_channel)
        )

    @property
    def grad_starts(self) -> State:
        """Gradients of the states before the first step, side by side."""
        return torch.cat([carry[:, 0] for carry in self.carries], 1)

    @property
    def grad_by_channel(self) -> Channels:
        """The gradient of the bias and of the diagonal weights after it; empty if there are neither."""
        sums = [gradient.sum((0, 1)) for gradient in self._grad_by_channel]
        return torch.cat(sums) if sums else self.carries[0].new_empty(0)

    @property
    def grad_reset_state(self) -> Channels:
        """The gradient of the first state after a reset, the only one that can be set."""
        return self._grad_resets[0].sum((0, 1))

    def run(self, plan: Plan, gradients: Sequence[Site]) -> None:
        """Write the gradients of the projections."""
        rows, program = self.operands.rows, self.operands.program
        if not self.carries[0].numel() or not plan.steps:
            return
        if plan.chunks > 1:
            plan = self._compose(plan)
        by_name = {f"delta_{name}": at_state(carry) for name, carry in zip(program.states, self.carries, strict=True)}
        of_given = [*gradients, *map(at_state, self._grad_by_channel)]
        by_name |= {f"g{name}": site for name, site in zip(rows.inputs, of_given, strict=True)}
        first = rows.backward.rows.index(f"gx_{program.projections[0]}")
        of_resets = sites([at_state(gradient) for gradient in self._grad_resets])
        self._parallel_for(plan, rows.backward, by_name, (first, first + len(gradients)), of_resets)

    def _compose(self, plan: Plan) -> Plan:
        """Find the gradients of the states after all chunks of time."""
        (carry,), row = self.carries, self.operands.rows.compose_backward
        assert row is not None
        product, local = torch.ones_like(carry), torch.zeros_like(carry)
        by_name = {"delta_h": at_state(local), "product": at_state(product)}
        self._parallel_for(plan, row, by_name, (0, 0), sites([]))
        if _compose_chunks(carry, product, local, range(plan.chunks - 1, -1, -1)):
            return plan
        self._allocate([carry[:, -1].clone()], 1)
        return plan._replace(chunks=1)

    def _parallel_for(
        self, plan: Plan, row: Row, by_name: dict[str, Site], written: tuple[int, int], of_resets: np.ndarray
    ) -> None:  # fmt: skip
        operands = self.operands
        befores = [f"before_{name}" for name in operands.program.states]
        by_name |= {"upstream": at_steps(self.grad)}
        by_name |= {name: at_steps(x) for name, x in zip(befores, self.states, strict=True)}
        wide = dtype_name(operands.wide)
        places = [row.rows.index(name) if name in row.reads else NONE for name in befores]
        parallel_for(
            RUN_BACKWARD, *_work(plan), plan,
            _row_arguments(operands, row, operands.sites | by_name, "delta_h", written),
            Sums(len(row.adds), row_address(ADD, "gatedrnn", (wide, wide)), of_resets), np.array(places, np.int64),
            sites([at_state(start.unsqueeze(1)) for start in self.starts]), operands.mask, operands.resets,
            operands.reset_states.data_ptr(),
        )  # fmt: skip


def all_states(operands: Operands, like: Series) -> list[Series]:
    """The states themselves, at masked steps too, in the dtype of accumulation at least."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    states = [torch.empty(like.shape, dtype=dtype) for _ in operands.program.states]
    Forward(operands, states[0]).run(kept=states)
    return states


def _row_arguments(
    operands: Operands, row: Row, by_name: Mapping[str, Site], state: str, written: tuple[int, int]
) -> Rows:  # fmt: skip
    """The compiled function of a row, and where it reads and writes."""
    program = operands.program
    dtypes = {name: by_name[name].dtype for name in row.rows}
    function = row_address(row, program.word, tuple(dtypes.values()))
    at_start, wide = function, dtypes[state]
    befores = {f"before_{name}": wide for name in program.states if dtypes.get(f"before_{name}", wide) != wide}
    # At the first step and after a reset the state before is read from memory of another dtype.
    if befores:
        at_start = row_address(row, program.word, tuple((dtypes | befores).values()))
    product = row.rows.index("product") if "product" in row.rows else NONE
    return Rows(
        function,
        at_start,
        sites([by_name[name] for name in row.rows]),
        row.rows.index(state),
        len(program.states),
        product,
        *written,
    )


def _compose_chunks(states: Tensor, product: Tensor, local: Tensor, chunks: range) -> bool:
    """Whether the state before each chunk of time was written, from that before the first of them in this order."""
    # Decays above one may overflow where no state did: then time is not divided.
    if not (product.isfinite().all() and local.isfinite().all()):
        return False
    for before, after in pairwise(chunks):
        states[:, after] = product[:, before] * states[:, before] + local[:, before]
    return True


def plan_for(program: CellProgram, shape: tuple[int, ...], reverse: bool) -> Plan:
    """All of (batch, steps, channels), divided for the threads there are.

    Threads that share the channels of a sequence write to the same pages of memory, and wait for each other where the
    system has yet to provide them: a scan that computes next to nothing rather runs through time twice.
    """
    batch, steps, channels = shape
    threads = threads_for(batch * steps * channels)
    block = _block(batch, channels, 1 if program.is_light else threads)
    items = batch * -(-channels // block)
    min_chunks = 2 if program.is_light else _WORTH_TWO_PASSES
    composed = program.plain.compose is not None  # a step that reads its state is no map that composes with others
    chunks = threads // items if composed and items and threads // items >= min_chunks else 1
    return Plan(steps, channels, block, max(1, min(chunks, steps)), reverse, 0, batch, 0, steps)


def _piece_plan(plan: Plan, first: int, sequences: int, low: int, high: int) -> Plan:
    """Some sequences, and steps in the order of the run, of a plan without chunks."""
    block = _block(sequences, plan.channels, threads_for(sequences * (high - low) * plan.channels))
    return plan._replace(block=block, first=first, sequences=sequences, low=low, high=high)


def _block(sequences: int, channels: int, threads: int) -> int:
    blocks = max(-(-channels // BLOCK), min(-(-threads // max(sequences, 1)), -(-channels // NARROW)))
    return max(1, -(-channels // blocks) if blocks else 1)


def _work(plan: Plan) -> tuple[int, int]:
    """Return the number of work items, and of threads for them."""
    items = plan.sequences * -(-plan.channels // plan.block) * plan.chunks
    return items, threads_for(plan.sequences * (plan.high - plan.low) * plan.channels)


def operands_of(program: CellProgram, projections: Sequence[Series], inputs: ScanInputs) -> Operands:
    """Put together what forward and backward read."""
    like, by_channel = projections[-1], inputs.by_channel
    wide = torch.float64 if like.dtype == torch.float64 else torch.float32
    channels = like.shape[2]
    parts = () if by_channel is None else by_channel.contiguous().split(channels)
    rows = program.biased if len(parts) > len(program.diagonals) else program.plain
    reset_states = torch.zeros(len(program.states), channels, dtype=wide)
    # A learned initial state is that of a scan cell, which has one state; others return to zeros.
    if inputs.reset_state is not None:
        reset_states[0] = inputs.reset_state
    return Operands(
        program, rows, tuple(map(as_input, projections)), parts, inputs.starts, flags(inputs.mask),
        flags(inputs.resets), reset_states, inputs.reverse, wide,
    )  # fmt: skip


def as_input(x: Series) -> Series:
    """Return a series as kernels read it: float16 widened, channels adjacent in memory; strides may be zero, as in the
    gradient of a sum, which is one element expanded to the whole shape."""
    if x.dtype == torch.float16:
        x = x.float()
    return x if x.stride(2) == 1 or x.shape[2] == 1 else x.contiguous()


def written(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which a kernel writes results of a caller's dtype: float16 goes through float32."""
    return torch.float32 if dtype == torch.float16 else dtype


class _Piece(NamedTuple):
    rows: slice
    """Its part of all steps of all sequences, as they lie one after another."""
    plan: Plan


def _pieces(plan: Plan, features: int, by_step: bool) -> Iterator[_Piece]:
    """Cut into pieces what lies together and fits, in the order of the run: whole sequences, as many as fit, or steps
    of one; by step, steps of all."""
    steps, batch, threads = plan.steps, plan.sequences, threads_for(plan.sequences * plan.steps * plan.channels)
    rows_per_piece = max(1, _PIECE * threads // max(1, features))  # rows
    if by_step:
        sequences_per_piece, rows_per_piece = batch, max(1, rows_per_piece // batch)
    else:
        sequences_per_piece = max(1, min(batch, rows_per_piece // max(1, steps)))
        # A multiple of the threads: no thread runs a last sequence while the others wait.
        sequences_per_piece -= sequences_per_piece % threads if sequences_per_piece > threads else 0
        rows_per_piece = rows_per_piece if sequences_per_piece == 1 else steps
    for b in range(0, batch, sequences_per_piece):
        sequences = min(sequences_per_piece, batch - b)
        for low in range(0, steps, max(1, rows_per_piece)):
            high = min(low + rows_per_piece, steps)
            start, stop = (steps - high, steps - low) if plan.reverse else (low, high)
            rows = slice(start * batch, stop * batch)
            if not by_step:
                rows = slice(b * steps + start, (b + sequences - 1) * steps + stop)
            yield _Piece(rows, _piece_plan(plan, b, sequences, low, high))


def _rows(x: Series, by_step: bool) -> Tensor:
    """All steps of all sequences, as they lie one after another."""
    return (x.transpose(0, 1) if by_step else x).flatten(0, 1)


def _piece_sites(gradient: Tensor, piece: _Piece, batch: int, by_step: bool, gates: int) -> list[Site]:
    """Return the places of the gates' gradients of a piece: kernels count rows from the first of the whole series."""
    features, size = gradient.shape[1], gradient.dtype.itemsize
    batch_stride, time_stride = (features, batch * features) if by_step else (piece.plan.steps * features, features)
    begin = gradient.data_ptr() - piece.rows.start * features * size
    return [
        Site(
            dtype_name(gradient.dtype), begin + gate * (features // gates) * size, batch_stride * size, 0,
            time_stride * size, size, WRITTEN_SOON,
        )
        for gate in range(gates)
    ]  # fmt: skip
