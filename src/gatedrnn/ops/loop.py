"""A loop cell over a whole sequence, from its projections: step by step in torch, or in one kernel for a CPU."""

from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from gatedrnn.codegen.loop import LoopProgram
from gatedrnn.equations import ElementwiseLoopEquations, LoopEquations, Recurrent, output_of, split_gates
from gatedrnn.ops._op import Gradients, register_gradient, through
from gatedrnn.ops._time import over_time
from gatedrnn.ops.backends import accumulation_dtype, has_cpu_kernels, native_kernels
from gatedrnn.ops.cells import EQUATIONS, loop_program, program_of
from gatedrnn.ops.masking import zero_masked_steps
from gatedrnn.ops.step import ZoneoutMask, one_step
from gatedrnn.shapes import Flags, Gaps, Projections, Series, State, StateTuple, Step, empty_series, time_first

PARAMETERS = ("weight_hh", "bias_hh", "diagonals", "weight_hr")
"""What multiplies a state, in the order in which the operation takes it."""
OneStep: TypeAlias = tuple[Step, StateTuple]
"""The output and the states of a step; here, for `torch.compile` makes no type within a function."""


def loop_in_torch(
    cell: LoopEquations | ElementwiseLoopEquations, projected: Projections, state: StateTuple, recurrent: Recurrent,
    mask: Flags | None, resets: Flags | None, reverse: bool, zoneout: ZoneoutMask | None = None,
    gaps: Gaps | None = None,
) -> tuple[Series, StateTuple]:  # fmt: skip
    """Outputs and the last states of any loop cell.

    Args:
        projected: W x + b, (batch, time, gates · channels).
        mask: a masked step leaves the states as they were; its output is 0.
        resets: a reset returns the states to zeros.
        gaps: from the state that a step reads to the step, or a time for each of `gap_features`; None for 1 everywhere.
    """
    wide = accumulation_dtype(projected.dtype)

    def step(
        state: StateTuple,
        projected: Tensor,
        reset: Tensor | None,
        real: Tensor | None,
        gap: Tensor | None,
        *drawn: Tensor | None,
    ) -> OneStep:
        if reset is not None:
            state = tuple(torch.where(reset.unsqueeze(1), 0, s) for s in state)
        now = None if zoneout is None else tuple(z if t is None else t for z, t in zip(zoneout, drawn, strict=True))
        after = one_step(cell, projected, state, recurrent, now, gap)
        if real is not None:
            after = tuple(torch.where(real.unsqueeze(1), a, s) for a, s in zip(after, state, strict=True))
        return output_of(cell, after, split_gates(len(cell.projections), projected.to(wide))), after

    drawn = [z if isinstance(z, Tensor) else None for z in zoneout or ()]
    output, state = over_time(step, state, (projected, resets, mask, gaps, *drawn), reverse)
    return output if mask is None else zero_masked_steps(output, mask), state


def has_loop_kernel(cell: LoopEquations, device: torch.device) -> bool:
    """Whether `loop_in_kernel` can run the cell on this device."""
    return loop_program(cell) is not None and has_cpu_kernels(device)


def loop_in_kernel(
    cell: LoopEquations, projected: Projections, state: StateTuple, recurrent: Recurrent, mask: Flags | None,
    resets: Flags | None, reverse: bool,
) -> tuple[Series, StateTuple]:  # fmt: skip
    """`loop_in_torch` in one kernel: no graph of steps, and the gradient of each weight is one product."""
    states = _known(cell.word).program.states
    wide = accumulation_dtype(projected.dtype)
    # The kernel's h is the one that gates read: of a cell whose state is c alone, its output.
    first = state[0].to(wide)
    h0 = first if "h" in states else output_of(cell, (first,), ())
    carried = [s.to(wide) for name, s in zip(states, state, strict=True) if name != "h"]
    c0 = side_by_side(carried)
    names = ("weight_hh", "bias_hh", *(["weight_hr"] if cell.projects_state else []))  # elsewhere no part of the state
    there = {name: recurrent.weights[name].to(wide) for name in names if name in recurrent.weights}
    if cell.diagonals:
        there["diagonals"] = torch.cat([recurrent.diagonal(name) for name in cell.diagonals]).to(wide)
    weights = [there.get(name) for name in PARAMETERS]
    dropped = None if recurrent.dropped is None else recurrent.dropped.to(wide)
    h, last_h, last_c, _, _ = loop_cell(projected.to(wide), h0, c0, mask, resets, *weights, dropped, cell.word, reverse)
    ends = last_c.chunk(len(carried), dim=1) if carried else ()
    last = (last_h, *ends) if "h" in states else ends
    output = h if mask is None else zero_masked_steps(h, mask)
    return output, tuple(s.to(given.dtype) for s, given in zip(last, state, strict=True))


def side_by_side(states: list[State]) -> Tensor | None:
    """Side by side, as the operation takes them; None for none."""
    return torch.cat(states, dim=1) if len(states) > 1 else states[0] if states else None


class _Known(NamedTuple):
    """What the operation finds under a cell's word."""

    cell: LoopEquations
    program: LoopProgram


def _known(word: str) -> _Known:
    cell, program = EQUATIONS[word], program_of(word)
    assert isinstance(cell, LoopEquations) and isinstance(program, LoopProgram)
    return _Known(cell, program)


@torch.library.custom_op("gatedrnn::loop_cell", mutates_args=())
def loop_cell(
    projected: Tensor, h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    weight_hh: Tensor, bias_hh: Tensor | None, diagonals: Tensor | None, weight_hr: Tensor | None,
    dropped: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Every h, the last h and c, every c, and what the kernel keeps for the gradient; c is empty without a c0.

    c are all states but h, side by side; `diagonals` has the diagonal weights one after another.
    """
    kernels = native_kernels(projected.device)
    recurrence = kernels.Recurrence(weight_hh, bias_hh, diagonals, weight_hr, dropped)
    states, last_h, last_c = kernels.loop_cells(
        _known(cell).program, projected, recurrence, h0, c0, mask, resets, reverse
    )
    return states.h, last_h, last_c, states.c, states.kept


@loop_cell.register_fake
def _(
    projected: Tensor, h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    weight_hh: Tensor, bias_hh: Tensor | None, diagonals: Tensor | None, weight_hr: Tensor | None,
    dropped: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    features = projected.shape[2]
    program, new = _known(cell).program, projected.new_empty
    size = features // program.gates
    c, last_c = (new(0), new(0)) if c0 is None else (empty_series(projected, c0.shape[1]), new(c0.shape))
    kept = empty_series(projected, program.kept * size)
    return empty_series(projected, h0.shape[1]), new(h0.shape), last_c, c, kept


@torch.library.custom_op("gatedrnn::loop_cell_gradient", mutates_args=())
def loop_cell_gradient(
    grad_h: Tensor, grad_last_h: Tensor, grad_last_c: Tensor | None, h: Tensor, c: Tensor, kept: Tensor,
    h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    weight_hh: Tensor, bias_hh: Tensor | None, diagonals: Tensor | None, weight_hr: Tensor | None,
    dropped: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of projected, h0, c0 and the weights, in order; empty for those that are not there.

    A tuple, not a list: jacobians map the operations of a backward, and torch maps none that returns a list.
    """
    program, kernels = _known(cell).program, native_kernels(h.device)
    recurrence = kernels.Recurrence(weight_hh, bias_hh, diagonals, weight_hr, dropped)
    states = kernels.LoopStates(h, c, kept)
    found = kernels.loop_cells_gradient(
        program, grad_h, grad_last_h, grad_last_c, states, recurrence, h0, c0, mask, resets, reverse
    )
    read, gated = _before_each_step(h, h0, resets, reverse), found.gated
    if dropped is not None:
        read, gated = (x * dropped.unsqueeze(1) if x.numel() else x for x in (read, gated))
    pairs = [(left, gated if is_gated else read) for left, is_gated in _of_products(program, found)]
    of_bias = torch.cat([left.sum((0, 1)) for left, _ in pairs]) if bias_hh is not None else h.new_empty(0)
    of_projection = h.new_empty(0) if weight_hr is None else _products(weight_hr, [(found.h, found.inner)])
    return (
        found.projected, found.h0, found.c0, _products(weight_hh, pairs), of_bias, found.diagonals, of_projection
    )  # fmt: skip


def _of_products(program: LoopProgram, found: Any) -> list[tuple[Series, bool]]:
    """Gradients of recurrent products, in the order of the projections, and whether they are those of the gated state;
    neighbours of one kind together."""
    size, early = found.projected.shape[2] // program.gates, program.gates - program.gated
    kinds = [(name in program.separate, i >= early) for i, name in enumerate(program.projections)]
    pairs = []
    for (is_separate, is_gated), members in groupby(range(program.gates), kinds.__getitem__):
        places, series = list(members), found.separate if is_separate else found.projected
        begin = program.separate.index(program.projections[places[0]]) if is_separate else places[0]
        pairs.append((series[..., begin * size : (begin + len(places)) * size], is_gated))
    return pairs


@loop_cell_gradient.register_fake
def _(
    grad_h: Tensor, grad_last_h: Tensor, grad_last_c: Tensor | None, h: Tensor, c: Tensor, kept: Tensor,
    h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    weight_hh: Tensor, bias_hh: Tensor | None, diagonals: Tensor | None, weight_hr: Tensor | None,
    dropped: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    others = (h0, c0, weight_hh, bias_hh, diagonals, weight_hr)
    projected = empty_series(h, weight_hh.shape[0])
    return projected, *(h.new_empty(0 if v is None else v.shape) for v in others)


def _saves(output: tuple[Tensor, ...], **_: object) -> tuple[Tensor, ...]:
    h, _last_h, _last_c, c, kept = output
    return h, c, kept


def _backward(
    upstream: Gradients, saved: Gradients, needed: frozenset[str], *, projected: Tensor, h0: Tensor,
    c0: Tensor | None, **arguments: Any,
) -> Gradients:  # fmt: skip
    grad_h, grad_last_h, grad_last_c = upstream[:3]
    h, c, kept = saved
    assert h is not None and c is not None and kept is not None
    grad_h = torch.zeros_like(h) if grad_h is None else grad_h
    grad_last_h = torch.zeros_like(h0) if grad_last_h is None else grad_last_h
    if c0 is None:
        grad_last_c = None
    elif grad_last_c is None:
        grad_last_c = torch.zeros_like(c0)
    found = loop_cell_gradient(grad_h, grad_last_h, grad_last_c, h, c, kept, h0, c0, **arguments)
    given = {"projected": projected, "h0": h0, "c0": c0, **arguments}
    return [None if given[name] is None else grad for name, grad in zip(_DIFFERENTIABLE, found, strict=True)]


def _plain(
    projected: Tensor, h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    dropped: Tensor | None, cell: str, reverse: bool, diagonals: Tensor | None, **weights: Tensor | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Every h and the last states, step by step in torch."""
    equations, program = _known(cell)
    there = {name: weight for name, weight in weights.items() if weight is not None}
    if diagonals is not None:
        parts = diagonals.chunk(len(equations.diagonals))
        there |= {f"weight_{name}": part for name, part in zip(equations.diagonals, parts, strict=True)}
    recurrent = Recurrent(equations.projections, there, dropped)
    carried = () if c0 is None else c0.chunk(len(program.carried), dim=1)
    state = (h0, *carried) if "h" in program.states else carried
    h, last = loop_in_torch(equations, projected, state, recurrent, mask, resets, reverse)
    if "h" not in program.states:  # h follows from c, and is no state of its own
        return h, output_of(equations, last, ()), *last
    return h, last[0], *([] if c0 is None else [torch.cat(last[1:], dim=1)])


_DIFFERENTIABLE = ("projected", "h0", "c0", *PARAMETERS)
register_gradient(loop_cell, _DIFFERENTIABLE, _saves, _backward, through(_plain, _DIFFERENTIABLE))


def _before_each_step(h: Series, h0: State, resets: Flags | None, reverse: bool) -> Series:
    """h before each step."""
    start, before = h0.unsqueeze(1), empty_series(h, h.shape[2])
    torch.cat([h[:, 1:], start] if reverse else [start, h[:, :-1]], dim=1, out=before)
    return before if resets is None else before.masked_fill_(resets.unsqueeze(2), 0)


def _products(weight: Tensor, pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The gradient of a weight, for each pair a block of rows: the sum over batch and time of left^T right."""
    found = torch.empty_like(weight, memory_format=torch.contiguous_format)
    begin = 0
    for left, right in pairs:
        if time_first(right):
            left, right = left.transpose(0, 1), right.transpose(0, 1)
        end, heads = begin + left.shape[2], right.shape[2] // weight.shape[1]
        left, right = left.flatten(0, 1), right.flatten(0, 1)
        if heads == 1:
            torch.mm(left.t(), right, out=found[begin:end])
        else:
            of_heads = left.unflatten(1, (-1, heads, weight.shape[1])).permute(2, 1, 3, 0).flatten(1, 2)
            product = of_heads @ right.unflatten(1, (heads, -1)).transpose(0, 1)  # (heads, gates · columns, columns)
            found[begin:end] = product.unflatten(1, (-1, weight.shape[1])).transpose(0, 1).flatten(0, 2)
        begin = end
    return found
