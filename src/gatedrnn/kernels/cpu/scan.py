"""The scan h_t = a_t * h_(t-1) + b_t and its gradient: with a cell's gates, or with its input projection too.

Where sequences and channels are too few for the threads, time is divided into chunks: a first pass computes the map of
each chunk from the state before it to the state after it, a second one runs all chunks at once.

In the backward of a scan with its projection, the gradient of the projections is computed piece by piece, always in the
same memory, and multiplied with weights and inputs there: as a whole it would be the largest tensor of the layer, and
the system is slow to provide memory for it.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear

from gatedrnn.codegen.elementwise import ADD, Row, ScanProgram, ScanRows
from gatedrnn.kernels.cpu._rows import Site, at_channels, at_state, at_steps, dtype_name, row_address, sites
from gatedrnn.kernels.cpu._scan_loops import NONE, RUN, RUN_BACKWARD, WRITTEN_SOON, Plan, Rows, Sums
from gatedrnn.kernels.cpu._threads import share_out, threads_for
from gatedrnn.kernels.cpu._views import flags
from gatedrnn.shapes import Channels, Flags, Series, State

BLOCK = 256  # channels of one work item at most: its rows stay in the first-level cache
NARROW = 32  # and at least, where channels are shared out
WORTH_TWO_PASSES = 3  # threads an item below which computing gates twice, in chunks of time, gains nothing
PIECE = 1 << 21  # elements of a piece of the projections' gradient for each thread
KEPT = 1 << 26  # bytes of it that a thread keeps at most
_KEPT = threading.local()


class Inputs(NamedTuple):
    """What forward and backward read."""

    program: ScanProgram
    rows: ScanRows
    projections: tuple[Series, ...]
    """One a gate; channels are adjacent in memory."""
    biases: tuple[Channels, ...]
    mask: np.ndarray
    resets: np.ndarray
    """Flags, empty if there are none."""
    reset_state: Channels
    wide: torch.dtype
    """Of states and sums."""

    @property
    def sites(self) -> dict[str, Site]:
        """Where projections and biases lie."""
        names = self.program.projections
        found = {f"x_{name}": at_steps(x) for name, x in zip(names, self.projections, strict=True)}
        return found | {f"b_{name}": at_channels(b) for name, b in zip(names, self.biases, strict=False)}


def gated_scan(
    program: ScanProgram, projected: Series, bias: Channels | None, h0: State | None, mask: Flags | None,
    resets: Flags | None, reset_state: Channels | None, reverse: bool,
) -> tuple[Series, State]:  # fmt: skip
    """A scan cell's outputs and last state from its input projections (batch, time, gates · channels).

    Args:
        bias: added to the projections, in the dtype of accumulation: a product that adds it first writes it out first.
        mask: where False the state stays as it was and the output is 0.
        resets: where True the state before the step is `reset_state`, in the dtype of accumulation; zeros if None.
    """
    channels = projected.shape[2] // program.gates
    return scan(program, projected.split(channels, 2), bias, h0, mask, resets, reset_state, reverse)


def scan(
    program: ScanProgram, projections: Sequence[Series], bias: Channels | None, h0: State | None, mask: Flags | None,
    resets: Flags | None, reset_state: Channels | None, reverse: bool,
) -> tuple[Series, State]:  # fmt: skip
    """`gated_scan` of projections that are tensors of their own."""
    inputs = _inputs(program, projections, bias, mask, resets, reset_state)
    like = projections[-1]
    out = torch.empty(like.shape, dtype=written(like.dtype))
    forward = Forward(inputs, out, h0, reverse)
    forward.run()
    return out.to(like.dtype), forward.last


def gated_scan_gradient(
    program: ScanProgram, grad_output: Series, grad_last: State, projected: Series, bias: Channels | None,
    output: Series | None, h0: State | None, mask: Flags | None, resets: Flags | None, reset_state: Channels | None,
    reverse: bool,
) -> tuple[Series, Channels, State, Channels]:  # fmt: skip
    """Gradients of projections, bias, h0 and reset_state; gates are computed again, and the states too where `output`
    is None."""
    channels = projected.shape[2] // program.gates
    gradient = torch.empty(projected.shape, dtype=written(projected.dtype))
    _, *others = scan_gradient(
        program, grad_output, grad_last, projected.split(channels, 2), bias, output, h0, mask, resets, reset_state,
        reverse, gradient.split(channels, 2),
    )  # fmt: skip
    grad_bias, grad_h0, grad_reset = others
    return gradient.to(projected.dtype), grad_bias, grad_h0, grad_reset


def scan_gradient(
    program: ScanProgram, grad_output: Series, grad_last: State, projections: Sequence[Series], bias: Channels | None,
    output: Series | None, h0: State | None, mask: Flags | None, resets: Flags | None, reset_state: Channels | None,
    reverse: bool, gradients: Sequence[Series],
) -> tuple[Sequence[Series], Channels, State, Channels]:  # fmt: skip
    """`gated_scan_gradient` into the `gradients` of projections that are tensors of their own."""
    inputs = _inputs(program, projections, bias, mask, resets, reset_state)
    states = output if output is not None else all_states(inputs, grad_output, h0, reverse)
    backward = Backward(inputs, grad_output, grad_last, states, h0, reverse)
    backward.run(backward.plan, [at_steps(gradient, written=True) for gradient in gradients], gradients[0].dtype)
    return gradients, backward.grad_bias, backward.grad_h0, backward.grad_reset


def projected_scan(
    program: ScanProgram, x: Series, weight: Tensor, bias: Channels | None, h0: State | None, mask: Flags | None,
    resets: Flags | None, reset_state: Channels | None, reverse: bool,
) -> tuple[Series, State, Series]:  # fmt: skip
    """`gated_scan` of x @ weight.T: outputs, last state, and the product, which the gradient needs.

    In memory x goes sequence by sequence or step by step, without gaps; outputs and product do the same.
    """
    projected = linear(x, weight) if x.is_contiguous() else linear(x.transpose(0, 1), weight).transpose(0, 1)
    channels = len(weight) // program.gates
    output = torch.empty_like(projected[..., :channels], memory_format=torch.preserve_format)
    if written(x.dtype) != x.dtype:
        found, last = gated_scan(program, projected, bias, h0, mask, resets, reset_state, reverse)
        return output.copy_(found), last, projected
    inputs = _inputs(program, projected.split(channels, 2), bias, mask, resets, reset_state)
    forward = Forward(inputs, output, h0, reverse)
    forward.run()
    return output, forward.last, projected


def projected_scan_gradient(
    program: ScanProgram, grad_output: Series, grad_last: State, x: Series, weight: Tensor, projected: Series,
    bias: Channels | None, output: Series | None, h0: State | None, mask: Flags | None, resets: Flags | None,
    reset_state: Channels | None, reverse: bool, of_x: bool,
) -> tuple[Series, Tensor, Channels, State, Channels]:  # fmt: skip
    """Gradients of x (empty unless `of_x`; in memory as x), weight, bias (empty without one), h0 and reset_state.

    The states are computed again where `output` is None.
    """
    channels = len(weight) // program.gates
    inputs = _inputs(program, projected.split(channels, 2), bias, mask, resets, reset_state)
    states = output if output is not None else all_states(inputs, grad_output, h0, reverse)
    backward = Backward(inputs, grad_output, grad_last, states, h0, reverse)
    grad_x = torch.empty_like(x) if of_x else x.new_empty(0)
    # Not where threads share one sequence's time; nor in float16, which kernels read in a copy.
    if backward.plan.chunks > 1 or written(x.dtype) != x.dtype:
        grad, grad_bias, grad_h0, grad_reset = gated_scan_gradient(
            program, grad_output, grad_last, projected, bias, states, h0, mask, resets, reset_state, reverse
        )
        if of_x:
            grad_x.copy_(grad @ weight)
        return grad_x, grad.flatten(0, 1).t() @ x.flatten(0, 1), grad_bias, grad_h0, grad_reset
    by_step = not x.is_contiguous()
    rows_of_x, rows_of_grad_x = (_rows(v, by_step) if v.numel() else v for v in (x, grad_x))
    features = len(weight)
    # Products with the rows of a piece on the right are the fastest: this one is transposed at the end.
    transposed = weight.t().contiguous()
    grad_transposed = torch.zeros(transposed.shape, dtype=grad_last.dtype)
    for piece in reversed(list(_pieces(backward.plan, features, by_step))):
        gradient = _piece_memory(piece.rows.stop - piece.rows.start, features, x.dtype)
        backward.run(piece.plan, _piece_sites(gradient, piece, len(x), by_step, program.gates), x.dtype)
        if of_x:
            torch.mm(gradient, transposed.t(), out=rows_of_grad_x[piece.rows])
        if gradient.dtype == grad_transposed.dtype:
            grad_transposed.addmm_(rows_of_x[piece.rows].t(), gradient)
        else:
            grad_transposed += rows_of_x[piece.rows].t() @ gradient
    grad_weight = grad_transposed.t().to(weight.dtype).contiguous()
    return grad_x, grad_weight, backward.grad_bias, backward.grad_h0, backward.grad_reset


class Forward:
    """A run that writes a cell's outputs to `out`, or with `states` every state, at masked steps too."""

    def __init__(self, inputs: Inputs, out: Series, h0: State | None, reverse: bool, states: bool = False) -> None:
        self.inputs, self.states, self.out = inputs, states, out
        self.plan = plan_for(inputs.program, tuple(out.shape), reverse)
        self.state = torch.zeros(len(out), self.plan.chunks, out.shape[2], dtype=inputs.wide)
        if h0 is not None:
            self.state[:, 0] = h0

    @property
    def last(self) -> State:
        """The last state."""
        return self.state[:, -1].clone()

    def run(self) -> None:
        """Write the outputs."""
        state, plan, rows = self.state, self.plan, self.inputs.rows
        if not state.numel() or not plan.steps:
            return
        if plan.chunks > 1:
            product, local = torch.ones_like(state), torch.zeros_like(state)
            self._share_out(plan, rows.compose, {"h": at_state(local), "product": at_state(product)}, hold=False)
            if _finite(product, local):
                for i in range(1, plan.chunks):
                    state[:, i] = product[:, i - 1] * state[:, i - 1] + local[:, i - 1]
            else:
                plan, self.state = plan._replace(chunks=1), state[:, :1].contiguous()
        there = {"h": at_state(self.state), "output": at_steps(self.out, written=True)}
        self._share_out(plan, rows.states if self.states else rows.forward, there, hold=self.states)

    def _share_out(self, plan: Plan, row: Row, there: dict[str, Site], hold: bool) -> None:
        inputs = self.inputs
        written = row.rows.index("output") if "output" in row.rows else 0
        rows = _rows_of(inputs, row, inputs.sites | there, "h", (written, written + ("output" in row.rows)))
        share_out(
            RUN, plan.items, _threads(plan), plan, rows, inputs.mask, inputs.resets, inputs.reset_state.data_ptr(), hold
        )


class Backward:
    """Gradients from those of the output and of the last state; `run` may be called piece by piece, the last first."""

    def __init__(
        self, inputs: Inputs, grad: Series, grad_last: State, states: Series, h0: State | None, reverse: bool
    ) -> None:
        self.inputs, self.grad, self.states = inputs, readable(grad), readable(states)
        self.plan = plan_for(inputs.program, tuple(states.shape), reverse)
        self.start = torch.zeros_like(grad_last) if h0 is None else h0.contiguous()
        self._allocate(grad_last, self.plan.chunks)

    def _allocate(self, grad_last: State, chunks: int) -> None:
        batch, channels = grad_last.shape
        self.carry = grad_last.new_zeros(batch, chunks, channels)
        self.carry[:, -1] = grad_last
        # One row an item, summed in a fixed order afterwards: the result does not depend on the number of threads.
        self._grad_reset = torch.zeros_like(self.carry)
        self._grad_biases = [torch.zeros_like(self.carry) for _ in self.inputs.biases]

    @property
    def grad_h0(self) -> State:
        """Gradient of the initial state."""
        return self.carry[:, 0].clone()

    @property
    def grad_bias(self) -> Channels:
        """Gradient of the bias; empty without one."""
        sums = [gradient.sum((0, 1)) for gradient in self._grad_biases]
        return torch.cat(sums) if sums else self.carry.new_empty(0)

    @property
    def grad_reset(self) -> Channels:
        """Gradient of the reset state."""
        return self._grad_reset.sum((0, 1))

    def run(self, plan: Plan, gradients: Sequence[Site], dtype: torch.dtype) -> None:
        """Write the gradients of the projections, of that dtype."""
        carry, rows = self.carry, self.inputs.rows
        if not carry.numel() or not plan.steps:
            return
        if plan.chunks > 1:
            product, local = torch.ones_like(carry), torch.zeros_like(carry)
            there = {"delta": at_state(local), "product": at_state(product)}
            self._share_out(plan, rows.compose_backward, there, (0, 0), sums=False)
            if _finite(product, local):
                for i in range(plan.chunks - 1, 0, -1):
                    carry[:, i - 1] = product[:, i] * carry[:, i] + local[:, i]
            else:
                plan = plan._replace(chunks=1)
                self._allocate(carry[:, -1].clone(), 1)
        there = {"delta": at_state(self.carry)}
        names = self.inputs.program.projections
        there |= {f"gx_{name}": site for name, site in zip(names, gradients, strict=True)}
        there |= {f"gb_{name}": at_state(grad) for name, grad in zip(names, self._grad_biases, strict=False)}
        first = rows.backward.rows.index(f"gx_{names[0]}")
        self._share_out(plan, rows.backward, there, (first, first + len(gradients)), sums=True)

    def _share_out(
        self, plan: Plan, row: Row, there: dict[str, Site], written: tuple[int, int], sums: bool
    ) -> None:  # fmt: skip
        inputs = self.inputs
        there |= {"upstream": at_steps(self.grad), "before": at_steps(self.states)}
        wide = dtype_name(inputs.wide)
        add = row_address(ADD, "gatedrnn", (wide, wide))
        rows = _rows_of(inputs, row, inputs.sites | there, "delta", written)
        share_out(
            RUN_BACKWARD, plan.items, _threads(plan), plan, rows,
            Sums(len(row.adds), add, sites([at_state(self._grad_reset)] if sums else [])),
            row.rows.index("before") if "before" in row.reads else NONE, sites([at_state(self.start.unsqueeze(1))]),
            inputs.mask, inputs.resets, inputs.reset_state.data_ptr(),
        )  # fmt: skip


def all_states(inputs: Inputs, like: Series, h0: State | None, reverse: bool) -> Series:
    """The states themselves, at masked steps too, in the dtype of accumulation at least."""
    states = torch.empty(like.shape, dtype=torch.promote_types(like.dtype, torch.float32))
    Forward(inputs, states, h0, reverse, states=True).run()
    return states


def _rows_of(
    inputs: Inputs, row: Row, there: Mapping[str, Site], state: str, written: tuple[int, int]
) -> Rows:  # fmt: skip
    """The compiled function of a row, and where it reads and writes."""
    found = [there[name] for name in row.rows]
    dtypes = {name: there[name].dtype for name in row.rows}
    function = row_address(row, inputs.program.word, tuple(dtypes.values()))
    at_start = function
    if dtypes.get("before", dtypes[state]) != dtypes[state]:
        at_start = row_address(row, inputs.program.word, tuple((dtypes | {"before": dtypes[state]}).values()))
    product = row.rows.index("product") if "product" in row.rows else NONE
    return Rows(function, at_start, sites(found), row.rows.index(state), product, *written)


def _finite(*tensors: Tensor) -> bool:
    """Decays above one may overflow where no state did: then time is not divided."""
    return all(bool(torch.isfinite(x).all()) for x in tensors)


def plan_for(program: ScanProgram, shape: tuple[int, ...], reverse: bool) -> Plan:
    """All of (batch, steps, channels), divided for the threads there are.

    Threads that share the channels of a sequence write to the same pages of memory, and wait for each other where the
    system has yet to provide them: a scan that computes next to nothing rather runs through time twice.
    """
    batch, steps, channels = shape
    threads = threads_for(batch * steps * channels)
    block = _block(batch, channels, 1 if program.is_light else threads)
    items = batch * -(-channels // block)
    worth = 2 if program.is_light else WORTH_TWO_PASSES
    chunks = threads // items if items and threads // items >= worth else 1
    return Plan(steps, channels, block, max(1, min(chunks, steps)), reverse, 0, batch, 0, steps)


def _piece_plan(plan: Plan, first: int, sequences: int, low: int, high: int) -> Plan:
    """Some sequences, and steps in the order of the run, of a plan without chunks."""
    block = _block(sequences, plan.channels, threads_for(sequences * (high - low) * plan.channels))
    return plan._replace(block=block, first=first, sequences=sequences, low=low, high=high)


def _block(sequences: int, channels: int, threads: int) -> int:
    blocks = max(-(-channels // BLOCK), min(-(-threads // max(sequences, 1)), -(-channels // NARROW)))
    return max(1, -(-channels // blocks) if blocks else 1)


def _threads(plan: Plan) -> int:
    return threads_for(plan.sequences * (plan.high - plan.low) * plan.channels)


def _inputs(
    program: ScanProgram, projections: Sequence[Series], bias: Channels | None, mask: Flags | None,
    resets: Flags | None, reset_state: Channels | None,
) -> Inputs:  # fmt: skip
    like = projections[-1]
    wide = torch.float64 if like.dtype == torch.float64 else torch.float32
    channels = like.shape[2]
    biases = () if bias is None else bias.contiguous().split(channels)
    start = torch.zeros(channels, dtype=wide) if reset_state is None else reset_state.contiguous()
    return Inputs(
        program, program.biased if biases else program.plain, tuple(readable(x) for x in projections), biases,
        flags(mask), flags(resets), start, wide,
    )  # fmt: skip


def readable(x: Series) -> Series:
    """As kernels read it: float16 widened, channels adjacent in memory; strides may be zero, as in the gradient of a
    sum, which is one element expanded to the whole shape."""
    if x.dtype == torch.float16:
        x = x.float()
    return x if x.stride(2) == 1 or x.shape[2] == 1 else x.contiguous()


def written(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which a kernel writes results of a caller's dtype: float16 goes through float32."""
    return torch.float32 if dtype == torch.float16 else dtype


class _Piece(NamedTuple):
    rows: slice
    """Of all steps of all sequences, as they lie one after another."""
    plan: Plan


def _pieces(plan: Plan, features: int, by_step: bool) -> Iterator[_Piece]:
    """What lies together and fits into a piece, in the order of the run: whole sequences, as many as fit, or steps of
    one; by step, steps of all."""
    steps, batch, threads = plan.steps, plan.sequences, threads_for(plan.sequences * plan.steps * plan.channels)
    fitting = max(1, PIECE * threads // max(1, features))  # rows
    if by_step:
        together, fitting = batch, max(1, fitting // batch)
    else:
        together = max(1, min(batch, fitting // max(1, steps)))
        together -= together % threads if together > threads else 0
        fitting = fitting if together == 1 else steps
    for b in range(0, batch, together):
        sequences = min(together, batch - b)
        for low in range(0, steps, max(1, fitting)):
            high = min(low + fitting, steps)
            start, stop = (steps - high, steps - low) if plan.reverse else (low, high)
            rows = slice(start * batch, stop * batch)
            if not by_step:
                rows = slice(b * steps + start, (b + sequences - 1) * steps + stop)
            yield _Piece(rows, _piece_plan(plan, b, sequences, low, high))


def _rows(x: Series, by_step: bool) -> Tensor:
    """All steps of all sequences, as they lie one after another."""
    return (x.transpose(0, 1) if by_step else x).flatten(0, 1)


def _piece_memory(rows: int, features: int, dtype: torch.dtype) -> Tensor:
    """Memory for a piece, the same at every call: the system clears memory that was freed before it gives it again."""
    size = rows * features * dtype.itemsize
    if size > KEPT:
        return torch.empty(rows, features, dtype=dtype)
    kept: Tensor | None = getattr(_KEPT, "bytes", None)
    if kept is None or len(kept) < size:
        kept = _KEPT.bytes = torch.empty(size, dtype=torch.uint8)
    return kept[:size].view(dtype).view(rows, features)


def _piece_sites(gradient: Tensor, piece: _Piece, batch: int, by_step: bool, gates: int) -> list[Site]:
    """Where the gates' gradients of a piece lie: kernels count rows from the very first of the whole series."""
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
