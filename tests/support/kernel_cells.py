"""The cells that have a kernel, every variant, by the word that operations know them by, and axes of them."""

from collections.abc import Mapping

import torch
from covering import Axis, few_that_cover
from layer_laws import Named, Way, as_tuple, packed_up
from layer_laws import flags_of as flags_of
from torch import Tensor

from gatedrnn import RecurrentLayer
from gatedrnn.equations import Equations, GappedEquations, LoopEquations, ScanEquations
from gatedrnn.kinds import kernel_of, programs
from gatedrnn.kinds.loop.rows import LoopProgram
from gatedrnn.registry import CELLS
from gatedrnn.shapes import StateTuple

_ALL = [cell.equations(**options) for cell in CELLS.values() for options in ({}, *cell.variants)]
SCAN_KERNELS = {cell.word: cell for cell in _ALL if isinstance(cell, ScanEquations)}
LOOP_KERNELS = {
    cell.word: cell for cell in _ALL if isinstance(cell, LoopEquations) and not isinstance(cell, GappedEquations)
}
FLAGS = [(), ("mask",), ("resets",), ("mask", "resets")]


def _properties(cell: Equations) -> set[object]:
    """The properties that kernels branch on, and the functions that a step calls."""
    program = kernel_of(cell).program
    assert program is not None, f"{cell.word} has no kernel"
    if isinstance(program, LoopProgram):
        own = [program.gated, bool(program.separate), program.passes_output, cell.projects_state]
    else:
        own = [program.output_is_state, program.is_light]
    rows = program.forward if isinstance(program, LoopProgram) else (program.plain.forward,)
    every = *own, program.states, bool(program.diagonals), isinstance(cell, LoopEquations) and cell.recurrent_bias
    used = {row.graph.nodes[value].operation for row in rows for value in row.graph.needed(row.writes.values())}
    return {*used, *enumerate(every)}


def axis_of(cells: Mapping[str, Equations]) -> Axis:
    """All of them; in the fast suite few, whose properties together are all that any has."""
    found = few_that_cover({word: _properties(cells[word]) for word in reversed(list(cells))})
    return Axis(fast=[word for word in cells if word in found], every=list(cells))


SCAN_KERNEL, LOOP_KERNEL = axis_of(SCAN_KERNELS), axis_of(LOOP_KERNELS)


def by_channel(cell: Equations, channels: int, dtype: torch.dtype, biased: bool) -> Tensor | None:
    """Random biases, if any, and diagonal weights after them, as the operations take them; None without both."""
    rows = biased * len(cell.projections) + len(cell.diagonals)
    return torch.randn(rows * channels, dtype=dtype) if rows else None


def split_biases(cell: Equations, channels: int, joined: Tensor | None) -> tuple[Tensor | None, list[Tensor]]:
    """Split what `by_channel` joined: the bias, or None, and the list of diagonal weights."""
    if joined is None:
        return None, []
    parts = list(joined.split(channels))
    count = len(parts) - len(cell.diagonals)
    return torch.cat(parts[:count]) if count else None, parts[count:]


def forget(*names: str) -> None:
    """Cells that a test has registered."""
    for name in names:
        for table in (CELLS, programs.CLASSES, programs.EQUATIONS):
            table.pop(name, None)
        for key in [key for key in programs.PROGRAMS if key[0] == name]:
            del programs.PROGRAMS[key]


def results(layer: RecurrentLayer, backend: str, x: Tensor, hx: StateTuple, flags: Named, twice: bool) -> list[Tensor]:
    """Output, last states, gradients and, if `twice`, those of the gradients' squares, by that backend."""
    layer.backend = backend
    call: Way = layer  # whose own signature knows no dict of tensors alone
    x, hx = x.clone().requires_grad_(), tuple(s.clone().requires_grad_() for s in hx)
    output, last = call(x, packed_up(hx), **flags)
    loss = (output.double() ** 2).sum() + sum(k * s.double().sum() for k, s in enumerate(as_tuple(last), 1))
    inputs = [x, *hx, *layer.parameters()]
    first = torch.autograd.grad(loss, inputs, create_graph=twice)
    found = [output, *as_tuple(last), *first]
    if twice:
        squares = sum(((g.double() ** 2).sum() for g in first), torch.zeros(()))
        found += torch.autograd.grad(squares, inputs, materialize_grads=True)
    return [value.detach() for value in found]
