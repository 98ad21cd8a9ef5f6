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

from gatedrnn.kernels.cpu.gates import GATES
from gatedrnn.kernels.cpu.memory import Memory
from gatedrnn.kernels.cpu.rows import Plan
from gatedrnn.kernels.cpu.scanning import (
    WayBack,
    gate_rows,
    gated_reading,
    gated_scan,
    gated_scan_gradient,
    part_of,
    walked_states,
)
from gatedrnn.kernels.cpu.threads import threads_for
from gatedrnn.shapes import Channels, Flags, Series, State

PIECE = 1 << 21  # numbers of a piece for each thread
_ROOM = threading.local()


def projected_scan(
    kind: str, x: Series, weight: Tensor, bias: Channels | None, h0: State | None, mask: Flags | None,
    resets: Flags | None, reverse: bool,
) -> tuple[Series, State, Series]:  # fmt: skip
    """`gated_scan` of x @ weight.T, x contiguous: outputs, last state, and the product, which the gradient needs."""
    projected = linear(x, weight)
    return *gated_scan(kind, projected, bias, h0, mask, resets, reverse), projected


def projected_scan_gradient(
    kind: str, grad_output: Series, grad_last: State, x: Series, weight: Tensor, projected: Series,
    bias: Channels | None, output: Series | None, h0: State | None, mask: Flags | None, resets: Flags | None,
    reverse: bool, of_x: bool,
) -> tuple[Series, Tensor, Channels, State]:  # fmt: skip
    """Gradients of x (empty unless `of_x`), weight, bias (empty without one) and h0.

    The states are computed again where `output` is None.
    """
    given = gated_reading(kind, projected, bias, mask, resets)
    states = output if output is not None else walked_states(given, grad_output, h0, reverse)
    back = WayBack(given, grad_output, grad_last, states, h0, reverse)
    if not _in_pieces(back.plan, x.dtype):
        grad, grad_bias, grad_h0 = gated_scan_gradient(
            kind, grad_output, grad_last, projected, bias, states, h0, mask, resets, reverse
        )
        rows = grad.flatten(0, 1)
        return grad @ weight if of_x else x.new_empty(0), rows.t() @ x.flatten(0, 1), grad_bias, grad_h0
    inputs, grad_x = x.flatten(0, 1), torch.empty_like(x) if of_x else x.new_empty(0)
    grad_inputs, features = grad_x.view(-1, x.shape[2]) if of_x else grad_x, len(weight)
    # Products with the rows of a piece on the right are the fastest: this one is turned around at the end.
    turned = weight.t().contiguous()
    grad_turned = torch.zeros(turned.shape, dtype=grad_last.dtype)
    for piece in reversed(list(_pieces(back.plan, features))):
        made = _room(piece.rows.stop - piece.rows.start, features, x.dtype)
        places = gate_rows(made.unsqueeze(0), GATES[kind])
        # Rows are counted from the very first, of which the piece holds a few.
        before, sequence = piece.rows.start * features, back.plan.steps * features
        back.walk(piece.plan, tuple(Memory(p.numbers, sequence, p.time, p.offset - before) for p in places))
        if of_x:
            torch.mm(made, turned.t(), out=grad_inputs[piece.rows])
        if made.dtype == grad_turned.dtype:
            grad_turned.addmm_(inputs[piece.rows].t(), made)
        else:
            grad_turned += inputs[piece.rows].t() @ made
    return grad_x, grad_turned.t().to(weight.dtype).contiguous(), back.grad_bias, back.grad_h0


def _room(rows: int, features: int, dtype: torch.dtype) -> Tensor:
    """Memory for a piece, the same at every call: what is given back to the system must be cleared by it first."""
    size = rows * features * dtype.itemsize
    kept: Tensor | None = getattr(_ROOM, "bytes", None)
    if kept is None or len(kept) < size:
        kept = _ROOM.bytes = torch.empty(size, dtype=torch.uint8)
    return kept[:size].view(dtype).view(rows, features)


class _Piece(NamedTuple):
    rows: slice
    """Of all steps of all sequences, one after another."""
    plan: Plan


def _in_pieces(plan: Plan, dtype: torch.dtype) -> bool:
    """Not where threads share one sequence's time; nor in float16, which kernels read in a copy."""
    return plan.stretches == 1 and dtype != torch.float16


def _pieces(plan: Plan, features: int) -> Iterator[_Piece]:
    """Whole sequences, as many as fit into a piece, or stretches of one; in the order of the walk."""
    steps, threads = plan.steps, threads_for(plan.sequences * plan.steps * plan.channels)
    fitting = max(1, PIECE * threads // max(1, features))  # steps
    together = max(1, min(plan.sequences, fitting // max(1, steps)))
    if together > threads:
        together -= together % threads
    for b in range(0, plan.sequences, together):
        sequences = min(together, plan.sequences - b)
        for low in range(0, steps, fitting if together == 1 else max(1, steps)):
            high = min(low + fitting, steps) if together == 1 else steps
            start, stop = (steps - high, steps - low) if plan.backwards else (low, high)
            rows = slice(b * steps + start, (b + sequences - 1) * steps + stop)
            yield _Piece(rows, part_of(plan, b, sequences, low, high))
