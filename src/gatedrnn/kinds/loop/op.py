"""A loop cell over a whole sequence, from its projections, as one registered operation, with its gradient."""

from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gatedrnn.equations import LoopEquations, Recurrent, output_of
from gatedrnn.kernels.backends import accumulation_dtype, native_kernels
from gatedrnn.kernels.matmul import weight_grad
from gatedrnn.kernels.op import Gradients, operation, or_zeros, products, register_gradient, through
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
    states = program_of(cell.word, trace_loop).states
    # Cast outside of the operation: autograd then casts each gradient back to the dtype of its tensor, once.
    wide = accumulation_dtype(projected.dtype)
    # The kernel's h is the one that gates read: of a cell whose state is c alone, its output.
    first = state[0].to(wide)
    h0 = first if "h" in states else output_of(cell, (first,), ())
    carried = [s.to(wide) for name, s in zip(states, state, strict=True) if name != "h"]
    c0 = torch.cat(carried, dim=1) if len(carried) > 1 else carried[0] if carried else None
    # Elsewhere the projection follows the layer, and is no part of the state.
    names = ("weight_hh", "bias_hh", *(["weight_hr"] if cell.projects_state else []))
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


class LoopInputs(NamedTuple):
    """The inputs of a loop cell: arguments of its operation and of the kernels, in one dtype, float32 or float64."""

    projected: Tensor
    """The input projections, (batch, time, gates · size)."""
    h0: Tensor
    """The h that gates read before the first step, (batch, width)."""
    c0: Tensor | None
    """All states but h, side by side; None if there are none."""
    mask: Tensor | None
    """A masked step leaves the states as they were."""
    resets: Tensor | None
    """A reset brings the states back to zeros."""
    weight_hh: Tensor
    bias_hh: Tensor | None
    diagonals: Tensor | None
    """The diagonal weights, one after another."""
    weight_hr: Tensor | None
    dropped: Tensor | None
    """The dropout mask, (batch, width): multiplies h where gates read it."""
    cell: str
    """The cell's word."""
    reverse: bool


class LoopUpstream(NamedTuple):
    """The tensors that the gradient of a loop cell reads beside its inputs: gradients, and results of the forward."""

    grad_h: Tensor
    grad_last_h: Tensor
    grad_last_c: Tensor | None
    h: Tensor
    c: Tensor
    """The other states side by side; of no size where there are none."""
    kept: Tensor
    """(batch, time, `LoopProgram.kept` · size)."""


def _run(inputs: LoopInputs) -> tuple[Tensor, ...]:
    """Every h, the last h and c, every c, and the values kept for the gradient; c is empty without a c0."""
    kernels = native_kernels(KERNELS, inputs.projected.device)
    results: tuple[Tensor, ...] = kernels.loop_cells(program_of(inputs.cell, trace_loop), inputs)
    return results


def _fake(inputs: LoopInputs) -> tuple[Tensor, ...]:
    projected, h0, c0, program = inputs.projected, inputs.h0, inputs.c0, program_of(inputs.cell, trace_loop)
    new, size = projected.new_empty, projected.shape[2] // program.gates
    c, last_c = (new(0), new(0)) if c0 is None else (empty_series(projected, c0.shape[1]), new(c0.shape))
    return empty_series(projected, h0.shape[1]), new(h0.shape), last_c, c, empty_series(projected, program.kept * size)


def _run_gradient(upstream: LoopUpstream, inputs: LoopInputs) -> tuple[Tensor, ...]:
    """Gradients of projected, h0, c0 and the weights, in order; empty for missing ones.

    A tuple, not a list: jacobians map the operations of a backward, and torch maps none that returns a list.
    """
    h, weight_hr = upstream.h, inputs.weight_hr
    program, kernels = program_of(inputs.cell, trace_loop), native_kernels(KERNELS, h.device)
    gradients = kernels.loop_backward(program, upstream, inputs)
    # One product over all steps for each weight: adding step by step would read and write its gradient T times.
    read, gated = _before_each_step(h, inputs.h0, inputs.resets, inputs.reverse), gradients.gated
    if inputs.dropped is not None:
        read, gated = (x * inputs.dropped.unsqueeze(1) if x.numel() else x for x in (read, gated))
    pairs = [(left, gated if is_gated else read) for left, is_gated in _of_products(program, gradients)]
    of_bias = torch.cat([left.sum((0, 1)) for left, _ in pairs]) if inputs.bias_hh is not None else h.new_empty(0)
    of_projection = h.new_empty(0) if weight_hr is None else _products(weight_hr, [(gradients.h, gradients.inner)])
    return (
        gradients.projected, gradients.h0, gradients.c0, _products(inputs.weight_hh, pairs), of_bias,
        gradients.diagonals, of_projection,
    )  # fmt: skip


def _fake_gradient(upstream: LoopUpstream, inputs: LoopInputs) -> tuple[Tensor, ...]:
    h, others = upstream.h, (getattr(inputs, name) for name in _DIFFERENTIABLE[1:])
    return empty_series(h, inputs.weight_hh.shape[0]), *(h.new_empty(0 if x is None else x.shape) for x in others)


def _flops(inputs: LoopInputs) -> int:
    return products(inputs.projected, inputs.weight_hh, inputs.weight_hr)  # type: ignore[arg-type]  # shapes


_DIFFERENTIABLE = ("projected", "h0", "c0", *PARAMETERS)
loop_cell = operation("loop_cell", (LoopInputs,), 5, _run, _fake, _flops)
loop_cell_gradient = operation(
    "loop_cell_gradient", (LoopUpstream, LoopInputs), 7, _run_gradient, _fake_gradient,
    lambda upstream, inputs: 2 * _flops(inputs),
)  # fmt: skip


def _of_products(program: LoopProgram, gradients: Any) -> list[tuple[Series, bool]]:
    """Return the gradients of recurrent products, in the order of the projections, and whether each product reads the
    gated state; neighbours that agree are joined."""
    size, early = gradients.projected.shape[2] // program.gates, program.gates - program.gated
    traits = [(name in program.separate, i >= early) for i, name in enumerate(program.projections)]
    pairs = []
    # Neighbours in one series are one product: fewer and larger ones are faster.
    for (is_separate, is_gated), members in groupby(range(program.gates), traits.__getitem__):
        rows, series = list(members), gradients.separate if is_separate else gradients.projected
        begin = program.separate.index(program.projections[rows[0]]) if is_separate else rows[0]
        pairs.append((series[..., begin * size : (begin + len(rows)) * size], is_gated))
    return pairs


def _saved(output: tuple[Tensor, ...], **_: object) -> tuple[Tensor, ...]:
    h, _last_h, _last_c, *others = output
    return h, *others


def _backward(upstream: Gradients, saved: Gradients, needed: frozenset[str], **arguments: Any) -> Gradients:
    inputs, (h, c, kept) = LoopInputs(**arguments), saved
    assert h is not None and c is not None and kept is not None
    grads = or_zeros(upstream[:3], (h, inputs.h0, inputs.c0))
    gradients = loop_cell_gradient(*grads, h, c, kept, *inputs)
    # The operation returns empty tensors for missing arguments, autograd wants None.
    return [None if arguments[name] is None else grad for name, grad in zip(_DIFFERENTIABLE, gradients, strict=True)]


def _reference(**arguments: Any) -> tuple[Tensor, ...]:
    """Compute every h and the last states step by step in torch."""
    inputs = LoopInputs(**arguments)
    equations, program, c0 = EQUATIONS[inputs.cell], program_of(inputs.cell, trace_loop), inputs.c0
    named = {name: arguments[name] for name in PARAMETERS if name != "diagonals" and arguments[name] is not None}
    if inputs.diagonals is not None:
        parts = inputs.diagonals.chunk(len(equations.diagonals))
        named |= {f"weight_{name}": part for name, part in zip(equations.diagonals, parts, strict=True)}
    recurrent = Recurrent(equations.projections, named, inputs.dropped)
    carried = () if c0 is None else c0.chunk(len(program.carried), dim=1)
    state = (inputs.h0, *carried) if "h" in program.states else carried
    h, last = iterate(equations, inputs.projected, state, recurrent, inputs.mask, inputs.resets, inputs.reverse)
    if "h" not in program.states:  # h follows from c, and is no state of its own
        return h, output_of(equations, last, ()), *last
    return h, last[0], *([] if c0 is None else [torch.cat(last[1:], dim=1)])


register_gradient(loop_cell, _DIFFERENTIABLE, _saved, _backward, through(_reference, _DIFFERENTIABLE))


def _before_each_step(h: Series, h0: State, resets: Flags | None, reverse: bool) -> Series:
    """Return h before each step."""
    start, before = h0.unsqueeze(1), empty_series(h, h.shape[2])
    # `cat` would lie sequence after sequence: written into a series in the order of h, the product below needs no copy.
    torch.cat([h[:, 1:], start] if reverse else [start, h[:, :-1]], dim=1, out=before)
    return before if resets is None else before.masked_fill_(resets.unsqueeze(2), 0)


def _products(weight: Tensor, pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the gradient of a weight, a block of rows for each pair: left^T right, summed over batch and time."""
    # Contiguous, as the fake form announces it: the weight may be a view with strides of its own.
    gradient = torch.empty_like(weight, memory_format=torch.contiguous_format)
    begin = 0
    for left, right in pairs:
        # Transposed back, `flatten` takes no copy of a series that lies step after step.
        if time_first(right):
            left, right = left.transpose(0, 1), right.transpose(0, 1)
        end = begin + left.shape[2]
        gradient[begin:end] = weight_grad(left.flatten(0, 1), right.flatten(0, 1))
        begin = end
    return gradient
