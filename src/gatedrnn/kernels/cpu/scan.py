"""The scan h_t = a_t * h_(t-1) + b_t and its gradient: bare, with a cell's gates, or with its input projection too.

Where sequences and channels are too few for the threads, time is divided into chunks: a first pass computes the map of
each chunk from the state before it to the state after it, a second one runs all chunks at once.

In the backward of a scan with its projection, the gradient of the projections is computed piece by piece, always in the
same memory, and multiplied with weights and inputs there: as a whole it would be the largest tensor of the layer, and
the system is slow to provide memory for it.
"""

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear

from gatedrnn.equations import ScanKernel
from gatedrnn.kernels.cpu._gates import LINEAR, branch_of
from gatedrnn.kernels.cpu._scan_loops import COMPOSE, COMPOSE_BACKWARD, RUN, RUN_BACKWARD, Inputs, Plan
from gatedrnn.kernels.cpu._threads import Kernel, share_out, threads_for
from gatedrnn.kernels.cpu._views import StridedView, flags, flat, strided
from gatedrnn.shapes import Channels, Flags, Series, State

BLOCK = 256  # channels of one work item at most: its rows stay in the first-level cache
NARROW = 32  # and at least, where channels are shared out
WORTH_TWO_PASSES = 3  # threads an item below which computing gates twice, in chunks of time, gains nothing
PIECE = 1 << 21  # elements of a piece of the projections' gradient for each thread
KEPT = 1 << 26  # bytes of it that a thread keeps at most
_KEPT = threading.local()
Rows = tuple[StridedView, StridedView, StridedView]
"""x, y and z of `Inputs`, or their gradients."""


def scan(
    decay: Series, drive: Series, h0: State | None, resets: Flags | None, reset_state: Channels | None, reverse: bool
) -> tuple[Series, State]:
    """All states, in the dtype of `drive`, and the last one, in the dtype of accumulation."""
    inputs = _inputs(LINEAR, _two(strided(decay), strided(drive)), (0, 1, 2), None, None, resets, reset_state, drive)
    return _forward(inputs, drive, drive.shape[2], h0, reverse, squash=False)


def scan_gradient(
    grad_h: Series, grad_last: State, decay: Series, h: Series, h0: State | None,
    resets: Flags | None, reset_state: Channels | None, reverse: bool,
) -> tuple[Series, Series, State, Channels]:  # fmt: skip
    """Gradients of decay, drive, h0 and reset_state, in one backward pass."""
    rows = strided(decay)  # the backward does not read the drive
    inputs = _inputs(LINEAR, _two(rows, rows), (0, 1, 2), None, None, resets, reset_state, h)
    grad_decay, grad_drive = (torch.empty(h.shape, dtype=written(h.dtype)) for _ in range(2))
    backward = Backward(inputs, grad_h, grad_last, h, h0, reverse, squash=False)
    backward.run(backward.plan, _two(strided(grad_decay), strided(grad_drive)))
    return grad_decay.to(h.dtype), grad_drive.to(h.dtype), backward.grad_h0, backward.grad_reset


def gated_scan(
    kernel: ScanKernel, projected: Series, bias: Channels | None, h0: State | None, mask: Flags | None,
    resets: Flags | None, reset_state: Channels | None, reverse: bool,
) -> tuple[Series, State]:  # fmt: skip
    """A scan cell's outputs and last state from its input projections (batch, time, gates · channels).

    Args:
        bias: added to the projections, in the dtype of accumulation: a product that adds it first writes it out first.
        mask: where False the state stays as it was and the output is 0.
        resets: where True the state before the step is `reset_state`, in the dtype of accumulation; zeros if None.

    Raises:
        ValueError: no kernel computes these gates, see `supports`.
    """
    inputs = gate_inputs(kernel, projected, bias, mask, resets, reset_state)
    return _forward(inputs, projected, projected.shape[2] // kernel.gates, h0, reverse, kernel.squash)


def gated_scan_gradient(
    kernel: ScanKernel, grad_output: Series, grad_last: State, projected: Series, bias: Channels | None,
    output: Series | None, h0: State | None, mask: Flags | None, resets: Flags | None, reset_state: Channels | None,
    reverse: bool,
) -> tuple[Series, Channels, State, Channels]:  # fmt: skip
    """Gradients of projections, bias, h0 and reset_state; gates are computed again, and the states too where `output`
    is None."""
    inputs = gate_inputs(kernel, projected, bias, mask, resets, reset_state)
    states = output if output is not None else all_states(inputs, grad_output, h0, reverse)
    gradient = torch.empty(projected.shape, dtype=written(projected.dtype))
    backward = Backward(inputs, grad_output, grad_last, states, h0, reverse, kernel.squash)
    backward.run(backward.plan, _gate_rows(kernel, strided(gradient), gradient.shape[2]))
    return gradient.to(projected.dtype), backward.grad_bias, backward.grad_h0, backward.grad_reset


def projected_scan(
    kernel: ScanKernel, x: Series, weight: Tensor, bias: Channels | None, h0: State | None, mask: Flags | None,
    resets: Flags | None, reset_state: Channels | None, reverse: bool,
) -> tuple[Series, State, Series]:  # fmt: skip
    """`gated_scan` of x @ weight.T: outputs, last state, and the product, which the gradient needs.

    In memory x goes sequence by sequence or step by step, without gaps; outputs and product do the same.
    """
    projected = linear(x, weight) if x.is_contiguous() else linear(x.transpose(0, 1), weight).transpose(0, 1)
    output = projected[..., : len(weight) // kernel.gates]
    output = torch.empty_like(output, memory_format=torch.preserve_format)
    if written(x.dtype) != x.dtype:
        found, last = gated_scan(kernel, projected, bias, h0, mask, resets, reset_state, reverse)
        return output.copy_(found), last, projected
    inputs = gate_inputs(kernel, projected, bias, mask, resets, reset_state)
    forward = Forward(inputs, output, h0, reverse, kernel.squash)
    forward.run()
    return output, forward.last, projected


def projected_scan_gradient(
    kernel: ScanKernel, grad_output: Series, grad_last: State, x: Series, weight: Tensor, projected: Series,
    bias: Channels | None, output: Series | None, h0: State | None, mask: Flags | None, resets: Flags | None,
    reset_state: Channels | None, reverse: bool, of_x: bool,
) -> tuple[Series, Tensor, Channels, State, Channels]:  # fmt: skip
    """Gradients of x (empty unless `of_x`; in memory as x), weight, bias (empty without one), h0 and reset_state.

    The states are computed again where `output` is None.
    """
    inputs = gate_inputs(kernel, projected, bias, mask, resets, reset_state)
    states = output if output is not None else all_states(inputs, grad_output, h0, reverse)
    backward = Backward(inputs, grad_output, grad_last, states, h0, reverse, kernel.squash)
    grad_x = torch.empty_like(x) if of_x else x.new_empty(0)
    # Not where threads share one sequence's time; nor in float16, which kernels read in a copy.
    if backward.plan.chunks > 1 or written(x.dtype) != x.dtype:
        grad, grad_bias, grad_h0, grad_reset = gated_scan_gradient(
            kernel, grad_output, grad_last, projected, bias, states, h0, mask, resets, reset_state, reverse
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
        backward.run(piece.plan, _gate_rows(kernel, _piece_view(gradient, piece, len(x), by_step), features))
        if of_x:
            torch.mm(gradient, transposed.t(), out=rows_of_grad_x[piece.rows])
        if gradient.dtype == grad_transposed.dtype:
            grad_transposed.addmm_(rows_of_x[piece.rows].t(), gradient)
        else:
            grad_transposed += rows_of_x[piece.rows].t() @ gradient
    grad_weight = grad_transposed.t().to(weight.dtype).contiguous()
    return grad_x, grad_weight, backward.grad_bias, backward.grad_h0, backward.grad_reset


class Forward:
    """A run that writes all states, or a cell's outputs, to `out`."""

    def __init__(
        self, inputs: Inputs, out: Series, h0: State | None, reverse: bool, squash: bool, hold: bool = False
    ) -> None:
        self.inputs, self.squash, self.hold, self.out = inputs, squash, hold, strided(out)
        self.plan = plan_for(inputs.branch, tuple(out.shape), reverse)
        self.state = torch.zeros(len(out), self.plan.chunks, out.shape[2], dtype=_accumulation_dtype(inputs))
        if h0 is not None:
            self.state[:, 0] = h0

    @property
    def last(self) -> State:
        """The last state."""
        return self.state[:, -1].clone()

    def run(self) -> None:
        """Write the outputs."""
        state, plan = self.state, self.plan
        if not state.numel() or not plan.steps:
            return
        if plan.chunks > 1:
            product, local = torch.ones_like(state), torch.zeros_like(state)
            _share_out(COMPOSE, plan, self.inputs, flat(local), flat(product))
            if _finite(product, local):
                for i in range(1, plan.chunks):
                    state[:, i] = product[:, i - 1] * state[:, i - 1] + local[:, i - 1]
            else:
                plan, self.state = plan._replace(chunks=1), state[:, :1].contiguous()
        _share_out(RUN, plan, self.inputs, flat(self.state), self.squash, self.hold, self.out)


class Backward:
    """Gradients from those of the output and of the last state; `run` may be called piece by piece, the last first."""

    def __init__(
        self, inputs: Inputs, grad: Series, grad_last: State, states: Series, h0: State | None, reverse: bool,
        squash: bool,
    ) -> None:  # fmt: skip
        self.inputs, self.grad, self.states, self.squash = inputs, strided(grad), strided(states), squash
        self.plan = plan_for(inputs.branch, tuple(states.shape), reverse)
        self.start = torch.zeros_like(grad_last) if h0 is None else h0.contiguous()
        self._allocate(grad_last, self.plan.chunks)

    def _allocate(self, grad_last: State, chunks: int) -> None:
        batch, channels = grad_last.shape
        self.carry = grad_last.new_zeros(batch, chunks, channels)
        self.carry[:, -1] = grad_last
        # One row an item, summed in a fixed order afterwards: the result does not depend on the number of threads.
        self._grad_reset = torch.zeros_like(self.carry)
        self._grad_bias = self.carry.new_zeros(batch, chunks, len(self.inputs.bias))
        self._flat = flat(self.start), flat(self.carry)
        self._sums = flat(self._grad_bias), flat(self._grad_reset)

    @property
    def grad_h0(self) -> State:
        """Gradient of the initial state."""
        return self.carry[:, 0].clone()

    @property
    def grad_bias(self) -> Channels:
        """Gradient of the bias; empty without one."""
        return self._grad_bias.sum((0, 1))

    @property
    def grad_reset(self) -> Channels:
        """Gradient of the reset state."""
        return self._grad_reset.sum((0, 1))

    def run(self, plan: Plan, grad_rows: Rows) -> None:
        """Write the gradients of the rows."""
        carry = self.carry
        if not carry.numel() or not plan.steps:
            return
        if plan.chunks > 1:
            product, local = torch.ones_like(carry), torch.zeros_like(carry)
            _share_out(
                COMPOSE_BACKWARD, plan, self.inputs, self.grad, self.states, flat(local), flat(product), self.squash
            )
            if _finite(product, local):
                for i in range(plan.chunks - 1, 0, -1):
                    carry[:, i - 1] = product[:, i] * carry[:, i] + local[:, i]
            else:
                plan = plan._replace(chunks=1)
                self._allocate(carry[:, -1].clone(), 1)
        _share_out(
            RUN_BACKWARD, plan, self.inputs, self.grad, self.states, *self._flat, self.squash, *grad_rows, *self._sums
        )


def all_states(inputs: Inputs, like: Series, h0: State | None, reverse: bool) -> Series:
    """The states themselves, at masked steps too, in the dtype of accumulation at least."""
    states = torch.empty(like.shape, dtype=torch.promote_types(like.dtype, torch.float32))
    Forward(inputs, states, h0, reverse, squash=False, hold=True).run()
    return states


def _finite(*tensors: Tensor) -> bool:
    """Decays above one may overflow where no state did: then time is not divided."""
    return all(bool(torch.isfinite(x).all()) for x in tensors)


def _forward(
    inputs: Inputs, like: Series, channels: int, h0: State | None, reverse: bool, squash: bool
) -> tuple[Series, State]:
    out = torch.empty(*like.shape[:2], channels, dtype=written(like.dtype))
    forward = Forward(inputs, out, h0, reverse, squash)
    forward.run()
    return out.to(like.dtype), forward.last


def plan_for(branch: int, shape: tuple[int, ...], reverse: bool) -> Plan:
    """All of (batch, steps, channels), divided for the threads there are.

    Threads that share the channels of a sequence write to the same pages of memory, and wait for each other where the
    system has yet to provide them: the bare scan, which computes next to nothing, rather runs through time twice.
    """
    batch, steps, channels = shape
    threads = threads_for(batch * steps * channels)
    block = _block(batch, channels, 1 if branch == LINEAR else threads)
    items = batch * -(-channels // block)
    worth = 2 if branch == LINEAR else WORTH_TWO_PASSES
    chunks = threads // items if items and threads // items >= worth else 1
    return Plan(steps, channels, block, max(1, min(chunks, steps)), reverse, 0, batch, 0, steps)


def _piece_plan(plan: Plan, first: int, sequences: int, low: int, high: int) -> Plan:
    """Some sequences, and steps in the order of the run, of a plan without chunks."""
    block = _block(sequences, plan.channels, threads_for(sequences * (high - low) * plan.channels))
    return plan._replace(block=block, first=first, sequences=sequences, low=low, high=high)


def _block(sequences: int, channels: int, threads: int) -> int:
    blocks = max(-(-channels // BLOCK), min(-(-threads // max(sequences, 1)), -(-channels // NARROW)))
    return max(1, -(-channels // blocks) if blocks else 1)


def _share_out(kernel: Kernel, plan: Plan, *arguments: Any) -> None:
    threads = threads_for(plan.sequences * (plan.high - plan.low) * plan.channels)
    share_out(kernel, plan.items, threads, plan, *arguments)


def gate_inputs(
    kernel: ScanKernel, projected: Series, bias: Channels | None, mask: Flags | None, resets: Flags | None,
    reset_state: Channels | None,
) -> Inputs:  # fmt: skip
    """Projections as the loops take them."""
    rows = _gate_rows(kernel, strided(projected), projected.shape[2])
    return _inputs(branch_of(kernel), rows, kernel.order, bias, mask, resets, reset_state, projected, kernel.gates)


def _inputs(
    branch: int, rows: Rows, order: tuple[int, int, int], bias: Channels | None, mask: Flags | None,
    resets: Flags | None, reset_state: Channels | None, like: Series, gates: int = 1,
) -> Inputs:  # fmt: skip
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    added = torch.empty(0, dtype=dtype) if bias is None else bias.contiguous()
    start = torch.zeros(like.shape[2] // gates, dtype=dtype) if reset_state is None else reset_state.contiguous()
    return Inputs(branch, *rows, order, flat(added), flags(mask), flags(resets), flat(start))


def _accumulation_dtype(inputs: Inputs) -> torch.dtype:
    return torch.float64 if inputs.x.elements.dtype == np.float64 else torch.float32


def _gate_rows(kernel: ScanKernel, projected: StridedView, features: int) -> Rows:
    """Candidate, first and second gate of all projections of a cell."""
    size = features // kernel.gates
    x, y, z = (projected._replace(offset=projected.offset + gate * size) for gate in kernel.order)
    return _two(x, y) if kernel.first == kernel.second else (x, y, z)


def _two(x: StridedView, y: StridedView) -> Rows:
    """Two series; the third is empty."""
    return x, y, StridedView(x.elements[:0], 0, 0)


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


def _piece_view(gradient: Tensor, piece: _Piece, batch: int, by_step: bool) -> StridedView:
    """A piece's memory as part of the whole series: kernels count rows from the very first."""
    features = gradient.shape[1]
    batch_stride, time_stride = (features, batch * features) if by_step else (piece.plan.steps * features, features)
    return StridedView(flat(gradient), batch_stride, time_stride, -piece.rows.start * features)
