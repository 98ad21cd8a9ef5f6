"""A loop cell over a whole sequence, from its projections, as one registered operation, with its gradient."""

from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gatedrnn.equations import LoopEquations, Recurrent, output_of
from gatedrnn.kernels.backends import accumulation_dtype, native_kernels
from gatedrnn.kernels.matmul import product_over_rows
from gatedrnn.kernels.op import FLOPS, Gradients, Shape, products, register_gradient, through
from gatedrnn.kinds.definition import iterate, zero_masked_steps
from gatedrnn.kinds.loop.rows import LoopProgram, trace_loop
from gatedrnn.kinds.programs import EQUATIONS, program_of
from gatedrnn.shapes import Flags, Projections, Series, State, StateTuple, empty_series, time_first

KERNELS = "gatedrnn.kinds.loop"
PARAMETERS = ("weight_hh", "bias_hh", "diagonals", "weight_hr")
"""Parameters that multiply a state, in the operation's order."""


def loop_in_kernel(
    cell: LoopEquations, projected: Projections, state: StateTuple, recurrent: Recurrent, mask: Flags | None,
    resets: Flags | None, reverse: bool,
) -> tuple[Series, StateTuple]:  # fmt: skip
    """Run `iterate` in one kernel: without a graph of steps, and with one product for each weight's gradient."""
    states = _registered(cell.word).program.states
    wide = accumulation_dtype(projected.dtype)
    # The kernel's h is the one that gates read: of a cell whose state is c alone, its output.
    first = state[0].to(wide)
    h0 = first if "h" in states else output_of(cell, (first,), ())
    carried = [s.to(wide) for name, s in zip(states, state, strict=True) if name != "h"]
    c0 = torch.cat(carried, dim=1) if len(carried) > 1 else carried[0] if carried else None
    names = ("weight_hh", "bias_hh", *(["weight_hr"] if cell.projects_state else []))  # elsewhere no part of the state
    weights = {name: recurrent.weights[name].to(wide) for name in names if name in recurrent.weights}
    if cell.diagonals:
        weights["diagonals"] = torch.cat([recurrent.diagonal(name) for name in cell.diagonals]).to(wide)
    ordered = [weights.get(name) for name in PARAMETERS]
    dropped = None if recurrent.dropped is None else recurrent.dropped.to(wide)
    h, last_h, last_c, _, _ = loop_cell(projected.to(wide), h0, c0, mask, resets, *ordered, dropped, cell.word, reverse)
    ends = last_c.chunk(len(carried), dim=1) if carried else ()
    last = (last_h, *ends) if "h" in states else ends
    output = h if mask is None else zero_masked_steps(h, mask)
    return output, tuple(s.to(before.dtype) for s, before in zip(last, state, strict=True))


class _Registered(NamedTuple):
    """The equations and the program of a registered cell."""

    cell: LoopEquations
    program: LoopProgram


def _registered(word: str) -> _Registered:
    cell = EQUATIONS[word]
    assert isinstance(cell, LoopEquations)
    return _Registered(cell, program_of(word, trace_loop))


@torch.library.custom_op("gatedrnn::loop_cell", mutates_args=())
def loop_cell(
    projected: Tensor, h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    weight_hh: Tensor, bias_hh: Tensor | None, diagonals: Tensor | None, weight_hr: Tensor | None,
    dropped: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Every h, the last h and c, every c, and the values kept for the gradient; c is empty without a c0.

    c are all states but h, side by side; `diagonals` has the diagonal weights one after another.
    """
    kernels = native_kernels(KERNELS, projected.device)
    recurrence = kernels.Recurrence(weight_hh, bias_hh, diagonals, weight_hr, dropped)
    states, last_h, last_c = kernels.loop_cells(
        _registered(cell).program, projected, recurrence, h0, c0, mask, resets, reverse
    )
    return states.h, last_h, last_c, states.c, states.kept


@loop_cell.register_fake
def _(
    projected: Tensor, h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    weight_hh: Tensor, bias_hh: Tensor | None, diagonals: Tensor | None, weight_hr: Tensor | None,
    dropped: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    features = projected.shape[2]
    program, new = _registered(cell).program, projected.new_empty
    size = features // program.gates
    c, last_c = (new(0), new(0)) if c0 is None else (empty_series(projected, c0.shape[1]), new(c0.shape))
    return empty_series(projected, h0.shape[1]), new(h0.shape), last_c, c, empty_series(projected, program.kept * size)


@torch.library.custom_op("gatedrnn::loop_cell_gradient", mutates_args=())
def loop_cell_gradient(
    grad_h: Tensor, grad_last_h: Tensor, grad_last_c: Tensor | None, h: Tensor, c: Tensor, kept: Tensor,
    h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    weight_hh: Tensor, bias_hh: Tensor | None, diagonals: Tensor | None, weight_hr: Tensor | None,
    dropped: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of projected, h0, c0 and the weights, in order; empty for missing ones.

    A tuple, not a list: jacobians map the operations of a backward, and torch maps none that returns a list.
    """
    program, kernels = _registered(cell).program, native_kernels(KERNELS, h.device)
    recurrence = kernels.Recurrence(weight_hh, bias_hh, diagonals, weight_hr, dropped)
    states = kernels.LoopStates(h, c, kept)
    gradients = kernels.loop_cells_gradient(
        program, grad_h, grad_last_h, grad_last_c, states, recurrence, h0, c0, mask, resets, reverse
    )
    read, gated = _before_each_step(h, h0, resets, reverse), gradients.gated
    if dropped is not None:
        read, gated = (x * dropped.unsqueeze(1) if x.numel() else x for x in (read, gated))
    pairs = [(left, gated if is_gated else read) for left, is_gated in _of_products(program, gradients)]
    of_bias = torch.cat([left.sum((0, 1)) for left, _ in pairs]) if bias_hh is not None else h.new_empty(0)
    of_projection = h.new_empty(0) if weight_hr is None else _products(weight_hr, [(gradients.h, gradients.inner)])
    return (
        gradients.projected, gradients.h0, gradients.c0, _products(weight_hh, pairs), of_bias, gradients.diagonals,
        of_projection,
    )  # fmt: skip


def _of_products(program: LoopProgram, gradients: Any) -> list[tuple[Series, bool]]:
    """Return the gradients of recurrent products, in the order of the projections, and whether each product reads the
    gated state; neighbours that agree are joined."""
    size, early = gradients.projected.shape[2] // program.gates, program.gates - program.gated
    traits = [(name in program.separate, i >= early) for i, name in enumerate(program.projections)]
    pairs = []
    for (is_separate, is_gated), members in groupby(range(program.gates), traits.__getitem__):
        rows, series = list(members), gradients.separate if is_separate else gradients.projected
        begin = program.separate.index(program.projections[rows[0]]) if is_separate else rows[0]
        pairs.append((series[..., begin * size : (begin + len(rows)) * size], is_gated))
    return pairs


@loop_cell_gradient.register_fake
def _(
    grad_h: Tensor, grad_last_h: Tensor, grad_last_c: Tensor | None, h: Tensor, c: Tensor, kept: Tensor,
    h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    weight_hh: Tensor, bias_hh: Tensor | None, diagonals: Tensor | None, weight_hr: Tensor | None,
    dropped: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    others = (h0, c0, weight_hh, bias_hh, diagonals, weight_hr)
    return empty_series(h, weight_hh.shape[0]), *(h.new_empty(0 if v is None else v.shape) for v in others)


def _saves(output: tuple[Tensor, ...], **_: object) -> tuple[Tensor, ...]:
    h, _last_h, _last_c, *others = output
    return h, *others


def _backward(
    upstream: Gradients, saved: Gradients, needed: frozenset[str], *, projected: Tensor, h0: Tensor,
    c0: Tensor | None, **arguments: Any,
) -> Gradients:  # fmt: skip
    grad_h, grad_last_h, grad_last_c = upstream[:3]
    h, c, values = saved
    assert h is not None and c is not None and values is not None
    grad_h = torch.zeros_like(h) if grad_h is None else grad_h
    grad_last_h = torch.zeros_like(h0) if grad_last_h is None else grad_last_h
    if c0 is None:
        grad_last_c = None
    elif grad_last_c is None:
        grad_last_c = torch.zeros_like(c0)
    gradients = loop_cell_gradient(grad_h, grad_last_h, grad_last_c, h, c, values, h0, c0, **arguments)
    tensors = {"projected": projected, "h0": h0, "c0": c0, **arguments}
    return [None if tensors[name] is None else grad for name, grad in zip(_DIFFERENTIABLE, gradients, strict=True)]


def _plain(
    projected: Tensor, h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    dropped: Tensor | None, cell: str, reverse: bool, diagonals: Tensor | None, **weights: Tensor | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Compute every h and the last states step by step in torch."""
    equations, program = _registered(cell)
    named = {name: weight for name, weight in weights.items() if weight is not None}
    if diagonals is not None:
        parts = diagonals.chunk(len(equations.diagonals))
        named |= {f"weight_{name}": part for name, part in zip(equations.diagonals, parts, strict=True)}
    recurrent = Recurrent(equations.projections, named, dropped)
    carried = () if c0 is None else c0.chunk(len(program.carried), dim=1)
    state = (h0, *carried) if "h" in program.states else carried
    h, last = iterate(equations, projected, state, recurrent, mask, resets, reverse)
    if "h" not in program.states:  # h follows from c, and is no state of its own
        return h, output_of(equations, last, ()), *last
    return h, last[0], *([] if c0 is None else [torch.cat(last[1:], dim=1)])


_DIFFERENTIABLE = ("projected", "h0", "c0", *PARAMETERS)
register_gradient(loop_cell, _DIFFERENTIABLE, _saves, _backward, through(_plain, _DIFFERENTIABLE))


def _before_each_step(h: Series, h0: State, resets: Flags | None, reverse: bool) -> Series:
    """Return h before each step."""
    start, before = h0.unsqueeze(1), empty_series(h, h.shape[2])
    torch.cat([h[:, 1:], start] if reverse else [start, h[:, :-1]], dim=1, out=before)
    return before if resets is None else before.masked_fill_(resets.unsqueeze(2), 0)


def _products(weight: Tensor, pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the gradient of a weight, a block of rows for each pair: left^T right, summed over batch and time."""
    gradient = torch.empty_like(weight, memory_format=torch.contiguous_format)
    begin = 0
    for left, right in pairs:
        if time_first(right):
            left, right = left.transpose(0, 1), right.transpose(0, 1)
        end = begin + left.shape[2]
        gradient[begin:end] = product_over_rows(left.flatten(0, 1), right.flatten(0, 1))
        begin = end
    return gradient


def _count(
    projected: Shape, h0: Shape, c0: Shape | None, mask: Shape | None, resets: Shape | None, weight_hh: Shape,
    bias_hh: Shape | None, diagonals: Shape | None, weight_hr: Shape | None, *_: Any, **__: Any,
) -> int:  # fmt: skip
    return products(projected, weight_hh, weight_hr)


def _count_gradient(
    grad_h: Shape, grad_last_h: Shape, grad_last_c: Shape | None, h: Shape, c: Shape, kept: Shape, *forward: Any,
    **_: Any,
) -> int:  # fmt: skip
    return 2 * _count(h, *forward)


FLOPS |= {"loop_cell": _count, "loop_cell_gradient": _count_gradient}
