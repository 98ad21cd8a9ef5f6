"""A scan cell with its input projection.

Going back, the projections' gradient is made a piece at a time, always in the same memory, and multiplied with weights
and inputs there: as a whole it would be the largest tensor of the layer, and the system slow to find memory for it.
"""

import threading
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from gatedrnn.equations import ScanKernel
from gatedrnn.kernels.cpu.memory import Memory, flat
from gatedrnn.kernels.cpu.rows import Plan
from gatedrnn.kernels.cpu.scanning import (
    WayBack,
    WayThrough,
    gated_reading,
    gated_scan,
    gated_scan_gradient,
    held,
    part_of,
    walked_states,
)
from gatedrnn.kernels.cpu.threads import threads_for
from gatedrnn.shapes import Channels, Flags, Series, State

PIECE = 1 << 21  # numbers of a piece for each thread
KEPT = 1 << 26  # bytes of it that a thread keeps at most
_ROOM = threading.local()


def projected_scan(
    record: ScanKernel, x: Series, weight: Tensor, bias: Channels | None, h0: State | None, mask: Flags | None,
    resets: Flags | None, reset_state: Channels | None, reverse: bool,
) -> tuple[Series, State, Series]:  # fmt: skip
    """`gated_scan` of x @ weight.T: outputs, last state, and the product, which the gradient needs.

    In memory x goes sequence by sequence or step by step, without gaps; outputs and product do the same.
    """
    projected = linear(x, weight) if x.is_contiguous() else linear(x.transpose(0, 1), weight).transpose(0, 1)
    output = projected[..., : len(weight) // record.gates]
    output = torch.empty_like(output, memory_format=torch.preserve_format)
    if held(x.dtype) != x.dtype:
        found, last = gated_scan(record, projected, bias, h0, mask, resets, reset_state, reverse)
        return output.copy_(found), last, projected
    given = gated_reading(record, projected, bias, mask, resets, reset_state)
    way = WayThrough(given, output, h0, reverse, record.squash)
    way.walk()
    return output, way.last, projected


def projected_scan_gradient(
    record: ScanKernel, grad_output: Series, grad_last: State, x: Series, weight: Tensor, projected: Series,
    bias: Channels | None, output: Series | None, h0: State | None, mask: Flags | None, resets: Flags | None,
    reset_state: Channels | None, reverse: bool, of_x: bool,
) -> tuple[Series, Tensor, Channels, State, Channels]:  # fmt: skip
    """Gradients of x (empty unless `of_x`; in memory as x), weight, bias (empty without one), h0 and reset_state.

    The states are computed again where `output` is None.
    """
    given = gated_reading(record, projected, bias, mask, resets, reset_state)
    states = output if output is not None else walked_states(given, grad_output, h0, reverse)
    back = WayBack(given, grad_output, grad_last, states, h0, reverse, record.squash)
    grad_x = torch.empty_like(x) if of_x else x.new_empty(0)
    # Not where threads share one sequence's time; nor in float16, which kernels read in a copy.
    if back.plan.stretches > 1 or held(x.dtype) != x.dtype:
        grad, grad_bias, grad_h0, grad_onset = gated_scan_gradient(
            record, grad_output, grad_last, projected, bias, states, h0, mask, resets, reset_state, reverse
        )
        if of_x:
            grad_x.copy_(grad @ weight)
        return grad_x, grad.flatten(0, 1).t() @ x.flatten(0, 1), grad_bias, grad_h0, grad_onset
    by_step = not x.is_contiguous()
    inputs, grad_inputs = (_rows(v, by_step) if v.numel() else v for v in (x, grad_x))
    features = len(weight)
    # Products with the rows of a piece on the right are the fastest: this one is turned around at the end.
    turned = weight.t().contiguous()
    grad_turned = torch.zeros(turned.shape, dtype=grad_last.dtype)
    for piece in reversed(list(_pieces(back.plan, features, by_step))):
        made = _room(piece.rows.stop - piece.rows.start, features, x.dtype)
        back.walk(piece.plan, _places(made, piece, record.gates, len(x), by_step))
        if of_x:
            torch.mm(made, turned.t(), out=grad_inputs[piece.rows])
        if made.dtype == grad_turned.dtype:
            grad_turned.addmm_(inputs[piece.rows].t(), made)
        else:
            grad_turned += inputs[piece.rows].t() @ made
    grad_weight = grad_turned.t().to(weight.dtype).contiguous()
    return grad_x, grad_weight, back.grad_bias, back.grad_h0, back.grad_reset


def _rows(x: Series, by_step: bool) -> Tensor:
    """All steps of all sequences, as they lie one after another."""
    return (x.transpose(0, 1) if by_step else x).flatten(0, 1)


def _room(rows: int, features: int, dtype: torch.dtype) -> Tensor:
    """Memory for a piece, the same at every call: what is given back to the system must be cleared by it first."""
    size = rows * features * dtype.itemsize
    if size > KEPT:
        return torch.empty(rows, features, dtype=dtype)
    kept: Tensor | None = getattr(_ROOM, "bytes", None)
    if kept is None or len(kept) < size:
        kept = _ROOM.bytes = torch.empty(size, dtype=torch.uint8)
    return kept[:size].view(dtype).view(rows, features)


class _Piece(NamedTuple):
    rows: slice
    """Of all steps of all sequences, as they lie one after another."""
    plan: Plan


def _pieces(plan: Plan, features: int, by_step: bool) -> Iterator[_Piece]:
    """What lies together and fits into a piece, in the order of the walk: whole sequences, as many as fit, or stretches
    of one; by step, stretches of all."""
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
            start, stop = (steps - high, steps - low) if plan.backwards else (low, high)
            rows = slice(start * batch, stop * batch)
            if not by_step:
                rows = slice(b * steps + start, (b + sequences - 1) * steps + stop)
            yield _Piece(rows, part_of(plan, b, sequences, low, high))


def _places(made: Tensor, piece: _Piece, gates: int, batch: int, by_step: bool) -> tuple[Memory, ...]:
    """The rows of a piece where a kernel looks for them, which counts rows from the very first."""
    numbers, features = flat(made), made.shape[1]
    sequence, step = (features, batch * features) if by_step else (piece.plan.steps * features, features)
    before, size = piece.rows.start * features, features // gates
    return tuple(Memory(numbers, sequence, step, gate * size - before) for gate in range(gates))
