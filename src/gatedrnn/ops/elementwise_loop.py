"""A cell that reads its states through diagonal weights, over a whole sequence, in one kernel for a CPU."""

import torch
from torch import Tensor

from gatedrnn.codegen.elementwise import CellProgram
from gatedrnn.equations import ElementwiseLoopEquations, Recurrent
from gatedrnn.ops._op import Gradients, register_gradient, through
from gatedrnn.ops.backends import accumulation_dtype, has_cpu_kernels, native_kernels
from gatedrnn.ops.by_channel import biased_and_diagonals, by_channel
from gatedrnn.ops.cells import EQUATIONS, cell_program, program_of
from gatedrnn.ops.loop import loop_in_torch, side_by_side
from gatedrnn.shapes import Flags, Projections, Series, StateTuple


def has_elementwise_loop(cell: ElementwiseLoopEquations, device: torch.device) -> bool:
    """Whether `elementwise_loop_in_kernel` can run the cell on this device."""
    return has_cpu_kernels(device) and cell_program(cell) is not None


def elementwise_loop_in_kernel(
    cell: ElementwiseLoopEquations, projected: Projections, bias: Tensor | None, state: StateTuple,
    recurrent: Recurrent, mask: Flags | None, resets: Flags | None, reverse: bool,
) -> tuple[Series, StateTuple]:  # fmt: skip
    """`loop_in_torch` of the sum of projections and bias in one kernel, without a graph of steps."""
    wide = accumulation_dtype(projected.dtype)
    h0, *carried = (s.to(wide) for s in state)
    joined = by_channel(cell, bias, [recurrent.diagonal(name) for name in cell.diagonals])
    output, h, c = elementwise_loop(projected, joined, h0, side_by_side(carried), mask, resets, cell.word, reverse)
    last = (h, *(c.chunk(len(carried), dim=1) if carried else ()))
    return output, tuple(s.to(given.dtype) for s, given in zip(last, state, strict=True))


def _cell(word: str) -> ElementwiseLoopEquations:
    cell = EQUATIONS[word]
    assert isinstance(cell, ElementwiseLoopEquations)
    return cell


def _program(word: str) -> CellProgram:
    found = program_of(word)
    assert isinstance(found, CellProgram)
    return found


def _states(h: Tensor, c: Tensor | None) -> list[Tensor]:
    """h and, one by one, those that lie side by side."""
    return [h] if c is None else [h, *(x.contiguous() for x in c.split(h.shape[1], dim=1))]


def _wide(like: Tensor, bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.to(accumulation_dtype(like.dtype))


@torch.library.custom_op("gatedrnn::elementwise_loop", mutates_args=())
def elementwise_loop(
    projected: Tensor, bias: Tensor | None, h0: Tensor, c0: Tensor | None, mask: Tensor | None,
    resets: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Outputs and the last h and c, which are all states but h side by side; c is empty without a c0.

    `bias` as from `by_channel`.
    """
    output, (h, *carried) = native_kernels(projected.device).elementwise_loop(
        _program(cell), projected, _wide(projected, bias), _states(h0, c0), mask, resets, reverse
    )
    return output, h, torch.cat(carried, dim=1) if carried else h0.new_empty(0)


@elementwise_loop.register_fake
def _(
    projected: Tensor, bias: Tensor | None, h0: Tensor, c0: Tensor | None, mask: Tensor | None,
    resets: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    channels = projected.shape[2] // len(EQUATIONS[cell].projections)
    last_c = h0.new_empty(0 if c0 is None else c0.shape)
    return projected.new_empty(*projected.shape[:2], channels), h0.new_empty(h0.shape), last_c


@torch.library.custom_op("gatedrnn::elementwise_loop_gradient", mutates_args=())
def elementwise_loop_gradient(
    grad_output: Tensor, grad_last_h: Tensor, grad_last_c: Tensor | None, output: Tensor | None, projected: Tensor,
    bias: Tensor | None, h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None, cell: str,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of projected, bias, h0 and c0; empty for those that are not there."""
    starts, upstream = _states(h0, c0), _states(grad_last_h, grad_last_c)
    of_projected, of_bias, (of_h0, *of_others) = native_kernels(projected.device).elementwise_loop_gradient(
        _program(cell), grad_output, upstream, projected, _wide(projected, bias), output, starts, mask, resets, reverse
    )
    return of_projected, of_bias, of_h0, torch.cat(of_others, dim=1) if of_others else h0.new_empty(0)


@elementwise_loop_gradient.register_fake
def _(
    grad_output: Tensor, grad_last_h: Tensor, grad_last_c: Tensor | None, output: Tensor | None, projected: Tensor,
    bias: Tensor | None, h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None, cell: str,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    of_bias, of_h0, of_c0 = (h0.new_empty(0 if x is None else x.shape) for x in (bias, h0, c0))
    return projected.new_empty(projected.shape), of_bias, of_h0, of_c0


def _saves(outputs: tuple[Tensor, ...], *, mask: Tensor | None, cell: str, **_: object) -> tuple[Tensor | None]:
    return (outputs[0] if mask is None and _program(cell).output_is_state else None,)


def _backward(
    upstream: Gradients, saved: Gradients, needed: frozenset[str], *, projected: Tensor, bias: Tensor | None,
    h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None, cell: str, reverse: bool,
) -> Gradients:  # fmt: skip
    grad_output, grad_last_h, grad_last_c = upstream[:3]
    if grad_output is None:
        channels = projected.shape[2] // len(_cell(cell).projections)
        grad_output = projected.new_zeros(1, 1, 1).expand(*projected.shape[:2], channels)
    grad_last_h = torch.zeros_like(h0) if grad_last_h is None else grad_last_h
    if c0 is None:
        grad_last_c = None
    elif grad_last_c is None:
        grad_last_c = torch.zeros_like(c0)
    found = elementwise_loop_gradient(
        grad_output, grad_last_h, grad_last_c, saved[0], projected, bias, h0, c0, mask, resets, cell, reverse
    )
    given = (projected, bias, h0, c0)
    return [None if x is None else grad for x, grad in zip(given, found, strict=True)]


def _plain(
    projected: Tensor, bias: Tensor | None, h0: Tensor, c0: Tensor | None, mask: Tensor | None,
    resets: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Outputs and the last states, step by step in torch."""
    equations = _cell(cell)
    whole, weights = biased_and_diagonals(equations, projected, bias)
    state = tuple(_states(h0, c0))
    output, last = loop_in_torch(
        equations, whole, state, Recurrent(equations.projections, weights), mask, resets, reverse
    )
    h, *carried = last
    return output.to(projected.dtype), h, *([torch.cat(carried, dim=1)] if carried else [])


_DIFFERENTIABLE = ("projected", "bias", "h0", "c0")
register_gradient(elementwise_loop, _DIFFERENTIABLE, _saves, _backward, through(_plain, _DIFFERENTIABLE))
