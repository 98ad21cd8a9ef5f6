"""The scan h_t = a_t * h_(t-1) + b_t and its gradient, bare or with a cell's gates, shared out over threads.

Where sequences and channels are too few for the threads, time is cut into stretches: a first pass finds what each
stretch makes of the state that enters it, a second one walks all of them at once.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gatedrnn.equations import ScanKernel
from gatedrnn.kernels.cpu.gates import LINEAR, code_of
from gatedrnn.kernels.cpu.loops import COMPOSE, COMPOSE_BACK, WALK, WALK_BACK
from gatedrnn.kernels.cpu.memory import Memory, flags, flat, series
from gatedrnn.kernels.cpu.rows import Plan, Reading
from gatedrnn.kernels.cpu.threads import Kernel, share_out, threads_for
from gatedrnn.shapes import Channels, Flags, Series, State

BLOCK = 256  # channels of one work item at most: its rows stay in the first-level cache
NARROW = 32  # and at least, where channels are shared out
WORTH_TWO_PASSES = 3  # threads an item below which computing gates twice, in stretches of time, gains nothing
Rows = tuple[Memory, ...]


def scan(
    decay: Series, drive: Series, h0: State | None, resets: Flags | None, reset_state: Channels | None, reverse: bool
) -> tuple[Series, State]:
    """All states, in the dtype of `drive`, and the last one, in the dtype of accumulation."""
    given = _reading(LINEAR, (series(decay), series(drive)), None, None, resets, reset_state, drive.shape[2])
    return _forward(given, drive, drive.shape[2], h0, reverse, squashed=False)


def scan_gradient(
    grad_h: Series, grad_last: State, decay: Series, h: Series, h0: State | None,
    resets: Flags | None, reset_state: Channels | None, reverse: bool,
) -> tuple[Series, Series, State, Channels]:  # fmt: skip
    """Gradients of decay, drive, h0 and reset_state, in one pass against the walk."""
    rows = series(decay)  # the drive is not read on the way back
    given = _reading(LINEAR, (rows, rows), None, None, resets, reset_state, h.shape[2])
    grad_decay, grad_drive = (torch.empty(h.shape, dtype=held(h.dtype)) for _ in range(2))
    back = WayBack(given, grad_h, grad_last, h, h0, reverse, squashed=False)
    back.walk(back.plan, (series(grad_decay), series(grad_drive)))
    return grad_decay.to(h.dtype), grad_drive.to(h.dtype), back.grad_h0, back.grad_reset


def gated_scan(
    record: ScanKernel, projected: Series, bias: Channels | None, h0: State | None, mask: Flags | None,
    resets: Flags | None, reset_state: Channels | None, reverse: bool,
) -> tuple[Series, State]:  # fmt: skip
    """A scan cell's outputs and last state from its input projections (batch, time, gates · channels).

    `bias`, in the dtype of accumulation, is added to them on the way: a product that adds it first writes it out first.
    A masked step leaves the state as it was; its output is 0. A reset brings the state back to `reset_state`, in the
    dtype of accumulation; zeros if None.
    """
    given = gated_reading(record, projected, bias, mask, resets, reset_state)
    return _forward(given, projected, projected.shape[2] // record.gates, h0, reverse, record.squash)


def gated_scan_gradient(
    record: ScanKernel, grad_output: Series, grad_last: State, projected: Series, bias: Channels | None,
    output: Series | None, h0: State | None, mask: Flags | None, resets: Flags | None, reset_state: Channels | None,
    reverse: bool,
) -> tuple[Series, Channels, State, Channels]:  # fmt: skip
    """Gradients of projections, bias, h0 and reset_state; gates are computed again, and the states too where `output`
    is None."""
    given = gated_reading(record, projected, bias, mask, resets, reset_state)
    states = output if output is not None else walked_states(given, grad_output, h0, reverse)
    gradient = torch.empty(projected.shape, dtype=held(projected.dtype))
    back = WayBack(given, grad_output, grad_last, states, h0, reverse, record.squash)
    back.walk(back.plan, gate_rows(gradient, record.gates))
    return gradient.to(projected.dtype), back.grad_bias, back.grad_h0, back.grad_reset


def walked_states(given: Reading, like: Series, h0: State | None, reverse: bool) -> Series:
    """The states themselves, at masked steps too, in the dtype of accumulation at least."""
    states = torch.empty(like.shape, dtype=torch.promote_types(like.dtype, torch.float32))
    way = WayThrough(given, states, h0, reverse, squashed=False, hold=True)
    way.walk()
    return states


class WayThrough:
    """All states into `out`, or what the cell hands on."""

    def __init__(
        self, given: Reading, out: Series, h0: State | None, reverse: bool, squashed: bool, hold: bool = False
    ) -> None:
        self.given, self.squashed, self.hold, self.out = given, squashed, hold, series(out)
        self.plan = plan_for(given.kind, tuple(out.shape), reverse)
        self.state = torch.zeros(len(out), self.plan.stretches, out.shape[2], dtype=_accumulated(given))
        if h0 is not None:
            self.state[:, 0] = h0

    @property
    def last(self) -> State:
        return self.state[:, -1].clone()

    def walk(self) -> None:
        state, plan = self.state, self.plan
        if not state.numel() or not plan.steps:
            return
        if plan.stretches > 1:
            product, local = torch.ones_like(state), torch.zeros_like(state)
            _share(COMPOSE, plan, self.given, flat(local), flat(product))
            if _finite(product, local):
                for i in range(1, plan.stretches):
                    state[:, i] = product[:, i - 1] * state[:, i - 1] + local[:, i - 1]
            else:
                plan, self.state = plan._replace(stretches=1), state[:, :1].contiguous()
        _share(WALK, plan, self.given, flat(self.state), self.squashed, self.hold, self.out)


class WayBack:
    """Gradients from those of the output and of the last state; `walk` may take it piece by piece, the last first."""

    def __init__(
        self, given: Reading, grad: Series, grad_last: State, states: Series, h0: State | None, reverse: bool,
        squashed: bool,
    ) -> None:  # fmt: skip
        self.given, self.grad, self.states, self.squashed = given, series(grad), series(states), squashed
        self.plan = plan_for(given.kind, tuple(states.shape), reverse)
        self.start = torch.zeros_like(grad_last) if h0 is None else h0.contiguous()
        self._lay_out(grad_last, self.plan.stretches)

    def _lay_out(self, grad_last: State, stretches: int) -> None:
        batch, channels = grad_last.shape
        self.carry = grad_last.new_zeros(batch, stretches, channels)
        self.carry[:, -1] = grad_last
        # One row an item, summed in a fixed order afterwards: the result does not depend on the number of threads.
        self._grad_reset = torch.zeros_like(self.carry)
        self._grad_bias = self.carry.new_zeros(batch, stretches, len(self.given.bias))
        self._flat = flat(self.start), flat(self.carry)
        self._sums = flat(self._grad_bias), flat(self._grad_reset)

    @property
    def grad_h0(self) -> State:
        return self.carry[:, 0].clone()

    @property
    def grad_bias(self) -> Channels:
        return self._grad_bias.sum((0, 1))

    @property
    def grad_reset(self) -> Channels:
        return self._grad_reset.sum((0, 1))

    def walk(self, plan: Plan, places: Rows) -> None:
        """Gradients of the rows into `places`."""
        carry = self.carry
        if not carry.numel() or not plan.steps:
            return
        if plan.stretches > 1:
            product, local = torch.ones_like(carry), torch.zeros_like(carry)
            _share(COMPOSE_BACK, plan, self.given, self.grad, self.states, flat(local), flat(product), self.squashed)
            if _finite(product, local):
                for i in range(plan.stretches - 1, 0, -1):
                    carry[:, i - 1] = product[:, i] * carry[:, i] + local[:, i]
            else:
                plan = plan._replace(stretches=1)
                self._lay_out(carry[:, -1].clone(), 1)
        _share(
            WALK_BACK, plan, self.given, self.grad, self.states, *self._flat, self.squashed, *_three(places),
            *self._sums,
        )  # fmt: skip


def _finite(*numbers: Tensor) -> bool:
    """Decays above one may overflow where no state did: then time is walked in one go."""
    return all(bool(torch.isfinite(x).all()) for x in numbers)


def _forward(
    given: Reading, like: Series, channels: int, h0: State | None, reverse: bool, squashed: bool
) -> tuple[Series, State]:
    out = torch.empty(*like.shape[:2], channels, dtype=held(like.dtype))
    way = WayThrough(given, out, h0, reverse, squashed)
    way.walk()
    return out.to(like.dtype), way.last


def plan_for(kind: int, shape: tuple[int, ...], reverse: bool) -> Plan:
    """All of (batch, steps, channels), cut for the threads there are.

    Threads that share the channels of a sequence write to the same pages of memory, and wait for each other where the
    system has yet to hand them out: the bare scan, which computes next to nothing, rather goes through time twice.
    """
    batch, steps, channels = shape
    threads = threads_for(batch * steps * channels)
    block = _block(batch, channels, 1 if kind == LINEAR else threads)
    items = batch * -(-channels // block)
    worth = 2 if kind == LINEAR else WORTH_TWO_PASSES
    stretches = threads // items if items and threads // items >= worth else 1
    return Plan(steps, channels, block, max(1, min(stretches, steps)), reverse, 0, batch, 0, steps)


def part_of(plan: Plan, first: int, sequences: int, low: int, high: int) -> Plan:
    """Some sequences, and steps in the order of the walk, of a plan without stretches."""
    block = _block(sequences, plan.channels, threads_for(sequences * (high - low) * plan.channels))
    return plan._replace(block=block, first=first, sequences=sequences, low=low, high=high)


def _block(sequences: int, channels: int, threads: int) -> int:
    blocks = max(-(-channels // BLOCK), min(-(-threads // max(sequences, 1)), -(-channels // NARROW)))
    return max(1, -(-channels // blocks) if blocks else 1)


def _share(kernel: Kernel, plan: Plan, *arguments: Any) -> None:
    threads = threads_for(plan.sequences * (plan.high - plan.low) * plan.channels)
    share_out(kernel, plan.items, threads, plan, *arguments)


def gated_reading(
    record: ScanKernel,
    projected: Series,
    bias: Channels | None,
    mask: Flags | None,
    resets: Flags | None,
    reset_state: Channels | None,
) -> Reading:
    """Projections, as kernels take them."""
    rows = gate_rows(projected, record.gates)
    return _reading(code_of(record), rows, bias, mask, resets, reset_state, projected.shape[2] // record.gates)


def _reading(
    kind: int, rows: Rows, bias: Channels | None, mask: Flags | None,
    resets: Flags | None, reset_state: Channels | None, channels: int,
) -> Reading:  # fmt: skip
    dtype = torch.float64 if rows[0].numbers.dtype == np.float64 else torch.float32
    added = torch.empty(0, dtype=dtype) if bias is None else bias.contiguous()
    onset = torch.zeros(channels, dtype=dtype) if reset_state is None else reset_state.contiguous()
    x, y, z = _three(rows)
    return Reading(kind, x, y, z, flat(added), flags(mask), flags(resets), flat(onset))


def _accumulated(given: Reading) -> torch.dtype:
    return torch.float64 if given.x.numbers.dtype == np.float64 else torch.float32


def gate_rows(projected: Tensor, gates: int) -> Rows:
    """One series a gate, all in the memory of `projected`."""
    (numbers, batch, time, _), size = series(projected), projected.shape[2] // gates
    return tuple(Memory(numbers, batch, time, i * size) for i in range(gates))


def _three(rows: Rows) -> tuple[Memory, Memory, Memory]:
    """Kernels take three series; the third may be empty."""
    x, y, *others = rows
    return x, y, others[0] if others else Memory(x.numbers[:0], 0, 0)


def held(dtype: torch.dtype) -> torch.dtype:
    """What a kernel writes for a caller's dtype: float16 goes through float32."""
    return torch.float32 if dtype == torch.float16 else dtype
