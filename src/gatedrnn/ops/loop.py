"""A loop cell over a whole sequence, from its projections: step by step in torch, or in one kernel for a CPU."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from gatedrnn.equations import (
    ElementwiseLoopEquations,
    LoopEquations,
    LoopKernel,
    Recurrent,
    output_of,
    split_gates,
)
from gatedrnn.ops._op import Gradients, register_gradient, through
from gatedrnn.ops._time import over_time
from gatedrnn.ops.backends import accumulation_dtype, has_cpu_kernels, native_kernels
from gatedrnn.ops.cells import EQUATIONS, loop_kernel
from gatedrnn.ops.masking import zero_masked_steps
from gatedrnn.ops.step import ZoneoutMask, one_step
from gatedrnn.shapes import Flags, Gaps, Projections, Series, State, StateTuple, Step, empty_series, time_first

PARAMETERS = ("weight_hh", "bias_hh", "weight_ci", "weight_cf", "weight_co", "weight_hr")
"""What multiplies a state, in the order in which the operation takes it."""


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
    ) -> tuple[Step, StateTuple]:
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
    return loop_kernel(cell) is not None and has_cpu_kernels(device)


def loop_in_kernel(
    cell: LoopEquations, projected: Projections, state: StateTuple, recurrent: Recurrent, mask: Flags | None,
    resets: Flags | None, reverse: bool,
) -> tuple[Series, StateTuple]:  # fmt: skip
    """`loop_in_torch` in one kernel: no graph of steps, and the gradient of each weight is one product."""
    kernel = _known(cell.word).kernel
    wide = accumulation_dtype(projected.dtype)
    # The kernel's h is the one that gates read: of a cell whose state is c alone, its output.
    first = state[0].to(wide)
    h0 = first if "h" in kernel.state else output_of(cell, (first,), ())
    c0 = state[-1].to(wide) if "c" in kernel.state else None
    names = PARAMETERS if cell.projects_state else PARAMETERS[:-1]  # elsewhere W_hr is no part of the state
    there = {name: recurrent.weights[name].to(wide) for name in names if name in recurrent.weights}
    weights = [there.get(name) for name in PARAMETERS]
    dropped = None if recurrent.dropped is None else recurrent.dropped.to(wide)
    h, last_h, last_c, _, _ = loop_cell(projected.to(wide), h0, c0, mask, resets, *weights, dropped, cell.word, reverse)
    last = tuple({"h": last_h, "c": last_c}[name] for name in kernel.state)
    output = h if mask is None else zero_masked_steps(h, mask)
    return output, tuple(s.to(given.dtype) for s, given in zip(last, state, strict=True))


class _Known(NamedTuple):
    """What the operation finds under a cell's word."""

    cell: LoopEquations
    kernel: LoopKernel


def _known(word: str) -> _Known:
    cell = EQUATIONS[word]
    assert isinstance(cell, LoopEquations) and isinstance(cell.kernel, LoopKernel)
    return _Known(cell, cell.kernel)


@torch.library.custom_op("gatedrnn::loop_cell", mutates_args=())
def loop_cell(
    projected: Tensor, h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    weight_hh: Tensor, bias_hh: Tensor | None, weight_ci: Tensor | None, weight_cf: Tensor | None,
    weight_co: Tensor | None, weight_hr: Tensor | None, dropped: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Every h, the last h and c, every c, and what the kernel saves for the gradient; c is empty without a c0."""
    kernels = native_kernels(projected.device)
    recurrence = _recurrence(kernels, weight_hh, bias_hh, (weight_ci, weight_cf, weight_co), weight_hr, dropped)
    states, last_h, last_c = kernels.loop_cells(
        _known(cell).kernel, projected, recurrence, h0, c0, mask, resets, reverse
    )
    return states.h, last_h, last_c, states.c, states.saved


@loop_cell.register_fake
def _(
    projected: Tensor, h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    weight_hh: Tensor, bias_hh: Tensor | None, weight_ci: Tensor | None, weight_cf: Tensor | None,
    weight_co: Tensor | None, weight_hr: Tensor | None, dropped: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    batch, _, features = projected.shape
    kernel, new = _known(cell).kernel, projected.new_empty
    size = features // kernel.gates
    c, last_c = (new(0), new(0)) if c0 is None else (empty_series(projected, size), new(batch, size))
    saved = empty_series(projected, kernel.saved * size)
    return empty_series(projected, h0.shape[1]), new(h0.shape), last_c, c, saved


@torch.library.custom_op("gatedrnn::loop_cell_gradient", mutates_args=())
def loop_cell_gradient(
    grad_h: Tensor, grad_last_h: Tensor, grad_last_c: Tensor | None, h: Tensor, c: Tensor, saved: Tensor,
    h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    weight_hh: Tensor, bias_hh: Tensor | None, weight_ci: Tensor | None, weight_cf: Tensor | None,
    weight_co: Tensor | None, weight_hr: Tensor | None, dropped: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of projected, h0, c0 and the weights, in order; empty for those that are not there.

    A tuple, not a list: jacobians map the operations of a backward, and torch maps none that returns a list.
    """
    kernel, kernels = _known(cell).kernel, native_kernels(h.device)
    recurrence = _recurrence(kernels, weight_hh, bias_hh, (weight_ci, weight_cf, weight_co), weight_hr, dropped)
    found = kernels.loop_cells_gradient(
        kernel,
        grad_h,
        grad_last_h,
        grad_last_c,
        kernels.LoopStates(h, c, saved),
        recurrence,
        h0,
        c0,
        mask,
        resets,
        reverse,
    )
    read = _before_each_step(h, h0, resets, reverse)
    if dropped is not None:
        read = read * dropped.unsqueeze(1)
    size = saved.shape[2] // kernel.saved
    of_u = found.projected
    if kernel.gated_state:
        gated = read * saved[..., :size]
        of_weight = _products(weight_hh, [(of_u[..., :-size], read), (of_u[..., -size:], gated)])
    elif kernel.separate_candidate:
        of_weight = _products(weight_hh, [(of_u[..., :-size], read), (found.candidate, read)])
    else:
        of_weight = _products(weight_hh, [(of_u, read)])
    of_bias, of_peepholes, of_projection = h.new_empty(0), h.new_empty(3, 0), h.new_empty(0)
    if bias_hh is not None:
        of_bias = of_u.sum((0, 1))
        if kernel.separate_candidate:
            of_bias = torch.cat([of_bias[:-size], found.candidate.sum((0, 1))])
    if weight_ci is not None:
        of_peepholes = found.peepholes.view(3, -1)
    if weight_hr is not None:
        of_projection = _products(weight_hr, [(found.h, saved[..., -size:] * torch.tanh(c))])
    of_ci, of_cf, of_co = (row.clone() for row in of_peepholes)
    return found.projected, found.h0, found.c0, of_weight, of_bias, of_ci, of_cf, of_co, of_projection


@loop_cell_gradient.register_fake
def _(
    grad_h: Tensor, grad_last_h: Tensor, grad_last_c: Tensor | None, h: Tensor, c: Tensor, saved: Tensor,
    h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    weight_hh: Tensor, bias_hh: Tensor | None, weight_ci: Tensor | None, weight_cf: Tensor | None,
    weight_co: Tensor | None, weight_hr: Tensor | None, dropped: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    others = (h0, c0, weight_hh, bias_hh, weight_ci, weight_cf, weight_co, weight_hr)
    projected = empty_series(h, weight_hh.shape[0])
    return projected, *(h.new_empty(0 if v is None else v.shape) for v in others)


def _saves(output: tuple[Tensor, ...], **_: object) -> tuple[Tensor, ...]:
    h, _last_h, _last_c, c, saved = output
    return h, c, saved


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
    dropped: Tensor | None, cell: str, reverse: bool, **weights: Tensor | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Every h and the last states, step by step in torch."""
    equations, kernel = _known(cell)
    recurrent = Recurrent(equations.projections, {name: w for name, w in weights.items() if w is not None}, dropped)
    states = {"h": h0, "c": c0}
    state = tuple(s for name in kernel.state if (s := states[name]) is not None)
    h, last = loop_in_torch(equations, projected, state, recurrent, mask, resets, reverse)
    if "h" not in kernel.state:  # h follows from c, and is no state of its own
        return h, output_of(equations, last, ()), *last
    return h, *last


_DIFFERENTIABLE = ("projected", "h0", "c0", *PARAMETERS)
register_gradient(loop_cell, _DIFFERENTIABLE, _saves, _backward, through(_plain, _DIFFERENTIABLE))


def _recurrence(
    kernels: Any, weight_hh: Tensor, bias_hh: Tensor | None, peepholes: tuple[Tensor | None, ...],
    weight_hr: Tensor | None, dropped: Tensor | None,
) -> Any:  # fmt: skip
    there = [p for p in peepholes if p is not None]
    return kernels.Recurrence(weight_hh, bias_hh, torch.cat(there) if there else None, weight_hr, dropped)


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
        end = begin + left.shape[2]
        torch.mm(left.flatten(0, 1).t(), right.flatten(0, 1), out=found[begin:end])
        begin = end
    return found
