"""The scan h_t = a_t * h_(t-1) + b_t and its gradient, bare or with a cell's gates, shared out over threads.

Where sequences and channels are too few for the threads, time is cut into stretches: a first pass finds what each
stretch makes of the state that enters it, a second one walks all of them at once.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gatedrnn.kernels.cpu.gates import GATES, KINDS, LINEAR, SQUASHED
from gatedrnn.kernels.cpu.loops import COMPOSE, COMPOSE_BACK, WALK, WALK_BACK, Plan
from gatedrnn.kernels.cpu.memory import Memory, flags, flat, series
from gatedrnn.kernels.cpu.threads import Kernel, share_out, threads_for
from gatedrnn.shapes import Channels, Flags, Series, State

BLOCK = 256  # channels of one work item at most: its rows stay in the first-level cache
NARROW = 32  # and at least, where channels are shared out
WORTH_TWO_PASSES = 3  # threads an item below which walking time twice, in stretches, gains nothing


def scan(
    decay: Series, drive: Series, h0: State | None, resets: Flags | None, reset_state: Channels | None, reverse: bool
) -> tuple[Series, State]:
    """All states, in the dtype of `drive`, and the last one, in the dtype of accumulation."""
    return _forward(
        LINEAR, (series(decay), series(drive)), drive.shape, drive.dtype, h0, None, resets, reset_state, reverse
    )


def scan_gradient(
    grad_h: Series, grad_last: State, decay: Series, h: Series, h0: State | None,
    resets: Flags | None, reset_state: Channels | None, reverse: bool,
) -> tuple[Series, Series, State, Channels]:  # fmt: skip
    """Gradients of decay, drive, h0 and reset_state, in one pass against the walk."""
    grad_decay, grad_drive = (torch.empty(h.shape, dtype=_held(h.dtype)) for _ in range(2))
    rows = series(decay)
    carry, grad_reset = _backward(
        LINEAR, grad_h, grad_last, (rows, rows), h.shape, series(h), h0, None, resets, reset_state, reverse,
        (series(grad_decay), series(grad_drive)),
    )  # fmt: skip
    return grad_decay.to(h.dtype), grad_drive.to(h.dtype), carry, grad_reset


def gated_scan(
    kind: str, projected: Series, h0: State | None, mask: Flags | None, resets: Flags | None, reverse: bool
) -> tuple[Series, State]:
    """A scan cell's outputs and last state from its input projections (batch, time, gates · channels).

    A masked step leaves the state as it was; its output is 0. A reset brings the state back to zeros.
    """
    shape = _gated_shape(kind, projected)
    rows = _gate_rows(projected, GATES[kind])
    return _forward(KINDS[kind], rows, shape, projected.dtype, h0, mask, resets, None, reverse)


def gated_scan_gradient(
    kind: str, grad_output: Series, grad_last: State, projected: Series, output: Series | None, h0: State | None,
    mask: Flags | None, resets: Flags | None, reverse: bool,
) -> tuple[Series, State]:  # fmt: skip
    """Gradients of the projections and of h0; gates are computed again, and the states too where `output` is None."""
    shape, dtype = _gated_shape(kind, projected), _held(projected.dtype)
    rows = _gate_rows(projected, GATES[kind])
    gradient = torch.empty(projected.shape, dtype=dtype)
    places = _gate_rows(gradient, GATES[kind])
    if output is not None:
        states = series(output)
    else:
        # Into the place of a gradient that is not there yet, unless that is too narrow for a state, or a stretch that
        # has its gradients would overwrite the state before the next one.
        apart = dtype == torch.bfloat16 or _plan(shape, reverse).stretches > 1
        states = series(torch.empty(shape, dtype=torch.promote_types(dtype, torch.float32))) if apart else places[0]
        _walk_through(KINDS[kind], rows, shape, h0, mask, resets, None, reverse, states, squashed=False, hold=True)
    carry, _ = _backward(
        KINDS[kind], grad_output, grad_last, rows, shape, states, h0, mask, resets, None, reverse, places
    )
    return gradient.to(projected.dtype), carry


def _forward(
    kind: int, rows: tuple[Memory, ...], shape: tuple[int, ...], dtype: torch.dtype, h0: State | None,
    mask: Flags | None, resets: Flags | None, reset_state: Channels | None, reverse: bool,
) -> tuple[Series, State]:  # fmt: skip
    out = torch.empty(shape, dtype=_held(dtype))
    last = _walk_through(
        kind, rows, shape, h0, mask, resets, reset_state, reverse, series(out), squashed=kind in SQUASHED, hold=False
    )
    return out.to(dtype), last


def _walk_through(
    kind: int, rows: tuple[Memory, ...], shape: tuple[int, ...], h0: State | None, mask: Flags | None,
    resets: Flags | None, reset_state: Channels | None, reverse: bool, out: Memory, squashed: bool, hold: bool,
) -> State:  # fmt: skip
    """All states into `out`; the last one is returned."""
    plan = _plan(shape, reverse)
    state = _entering(h0, shape, rows, plan)
    flagged = flags(mask), flags(resets), _channels(reset_state, state)
    if state.numel() and shape[1]:
        threads = threads_for(shape[0] * shape[1] * shape[2])
        if plan.stretches > 1:
            product, local = torch.ones_like(state), torch.zeros_like(state)
            _share(COMPOSE, plan, shape, threads, plan, kind, *_three(rows), *flagged, flat(local), flat(product))
            for i in range(1, plan.stretches):
                state[:, i] = product[:, i - 1] * state[:, i - 1] + local[:, i - 1]
        _share(WALK, plan, shape, threads, plan, kind, *_three(rows), *flagged, flat(state), squashed, hold, out)
    return state[:, -1].clone()


def _backward(
    kind: int, grad: Series, grad_last: State, rows: tuple[Memory, ...], shape: tuple[int, ...], states: Memory,
    h0: State | None, mask: Flags | None, resets: Flags | None, reset_state: Channels | None, reverse: bool,
    places: tuple[Memory, ...],
) -> tuple[State, Channels]:  # fmt: skip
    """Gradients of the rows into `places`; those of h0 and reset_state are returned."""
    plan, squashed, given = _plan(shape, reverse), kind in SQUASHED, series(grad)
    carry = torch.zeros(shape[0], plan.stretches, shape[2], dtype=grad_last.dtype)
    carry[:, -1] = grad_last
    # One row an item, summed in a fixed order afterwards: the result does not depend on the number of threads.
    grad_reset = torch.zeros_like(carry)
    start = torch.zeros_like(carry[:, 0]) if h0 is None else h0.contiguous()
    if carry.numel() and shape[1]:
        threads = threads_for(shape[0] * shape[1] * shape[2])
        flagged = flags(mask), flags(resets)
        if plan.stretches > 1:
            product, local = torch.ones_like(carry), torch.zeros_like(carry)
            _share(
                COMPOSE_BACK, plan, shape, threads, plan, kind, given, *_three(rows), states, *flagged,
                flat(local), flat(product), squashed,
            )  # fmt: skip
            for i in range(plan.stretches - 1, 0, -1):
                carry[:, i - 1] = product[:, i] * carry[:, i] + local[:, i]
        _share(
            WALK_BACK, plan, shape, threads, plan, kind, given, *_three(rows), states, flat(start), *flagged,
            _channels(reset_state, carry), flat(carry), squashed, *_three(places), flat(grad_reset),
        )  # fmt: skip
    return carry[:, 0].clone(), grad_reset.sum((0, 1))


def _plan(shape: tuple[int, ...], reverse: bool) -> Plan:
    batch, steps, channels = shape
    threads = threads_for(batch * steps * channels)
    blocks = max(-(-channels // BLOCK), min(-(-threads // max(batch, 1)), -(-channels // NARROW)))
    block = -(-channels // blocks) if blocks else 1
    items = batch * blocks
    stretches = threads // items if items and threads // items >= WORTH_TWO_PASSES else 1
    return Plan(steps, channels, block, max(1, min(stretches, steps)), reverse)


def _share(kernel: Kernel, plan: Plan, shape: tuple[int, ...], threads: int, *arguments: Any) -> None:
    share_out(kernel, shape[0] * -(-plan.channels // plan.block) * plan.stretches, threads, *arguments)


def _entering(h0: State | None, shape: tuple[int, ...], rows: tuple[Memory, ...], plan: Plan) -> Tensor:
    """(batch, stretches, channels): room for the state before each stretch, filled for the first."""
    dtype = torch.float64 if rows[0].numbers.dtype == np.float64 else torch.float32
    state = torch.zeros(shape[0], plan.stretches, shape[2], dtype=dtype)
    if h0 is not None:
        state[:, 0] = h0
    return state


def _gated_shape(kind: str, projected: Series) -> tuple[int, int, int]:
    batch, steps, features = projected.shape
    return batch, steps, features // GATES[kind]


def _gate_rows(projected: Series, gates: int) -> tuple[Memory, ...]:
    """One series a gate, all in the memory of `projected`."""
    whole, size = series(projected), projected.shape[2] // gates
    return tuple(Memory(whole.numbers[i * size :], whole.batch, whole.time) for i in range(gates))


def _three(rows: tuple[Memory, ...]) -> tuple[Memory, ...]:
    """Kernels take three series; the third may be empty."""
    return rows if len(rows) == 3 else (*rows, Memory(rows[0].numbers[:0], 0, 0))


def _channels(row: Channels | None, like: Tensor) -> np.ndarray:
    return flat(torch.zeros(like.shape[-1], dtype=like.dtype) if row is None else row.contiguous())


def _held(dtype: torch.dtype) -> torch.dtype:
    """What a kernel writes for a caller's dtype: float16 goes through float32."""
    return torch.float32 if dtype == torch.float16 else dtype
