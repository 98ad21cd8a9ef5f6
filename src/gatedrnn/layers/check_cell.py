"""Mistakes in the equations of a cell of one's own, each told by a sentence with the cell, the method and the shapes.

What a cell says of itself and what its methods return is tried once a class, on zeros, when its first layer is made.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gatedrnn.equations import (
    BlockScanEquations,
    Equations,
    GappedEquations,
    GappedScanEquations,
    Recurrent,
    ScanEquations,
    output_of,
)
from gatedrnn.layers.parameters import diagonal_size, shapes

BATCH, STEPS, BLOCKS = 2, 3, 5
_TRIED: set[type[Equations]] = set()


def check_cell(cell: Equations) -> None:
    """Raise what is wrong with a cell's declarations or with what its methods return.

    Raises:
        TypeError: a declaration is missing or of another type; a method does not take the projections, or returns
            something else than it must.
        ValueError: declarations that contradict each other.
    """
    if type(cell) in _TRIED:
        return
    _check_declarations(cell)
    with torch.no_grad(), torch.device("cpu"):
        _check_methods(cell)
    _TRIED.add(type(cell))


def _check_declarations(cell: Equations) -> None:
    title = type(cell).__name__
    for name in ("name", "projections"):
        if not getattr(cell, name, None):
            raise TypeError(f"{title} must say its {name}, see gatedrnn.equations.Equations")
    for name, value in vars(cell).items():
        if isinstance(value, nn.Parameter | nn.Module):
            raise TypeError(
                f"{title}.{name}: a parameter made in __init__ is none of the layer's, so that nothing would train it; "
                "name it in diagonals and read it by recurrent.diagonal, or make it a number"
            )
    if not isinstance(cell.projections, tuple) or not all(isinstance(name, str) for name in cell.projections):
        raise TypeError(
            f"{title}.projections must be a tuple of names, such as ('candidate', 'update'), got {cell.projections!r}"
        )
    states = cell.states
    named = isinstance(states, tuple) and all(isinstance(name, str) and name.isidentifier() for name in states)
    if not named or states[:1] != ("h",) or len(set(states)) < len(states):
        raise TypeError(
            f"{title}.states must be a tuple of names that begins with 'h', such as ('h', 'c'), got {states!r}"
        )
    if cell.block_size % cell.heads:
        raise ValueError(f"{title}: block_size {cell.block_size} must be a multiple of heads {cell.heads}")
    if cell.learns_initial_state and (cell.reads_state or len(cell.states) > 1):
        raise ValueError(f"{title}: only a scan cell can learn its initial state")
    if not isinstance(cell.diagonals, Mapping):
        raise TypeError(
            f"{title}.diagonals must be a dictionary from names to what they read, such as "
            f"{{'f': Diagonal('forget')}}, got {cell.diagonals!r}"
        )
    reads = [read for read in cell.diagonals.values() if read is not None]
    wrong_read = next(
        (read for read in reads if read.gate not in cell.projections or read.state >= len(cell.states)), None
    )
    if wrong_read is not None:
        raise ValueError(
            f"{title}: {wrong_read} names a gate that is none of its projections, or a state that is not there"
        )
    unknown = sorted(set(cell.decay_gates) - set(cell.projections))
    if unknown:
        raise ValueError(f"{title}: decay_gates names {unknown[0]!r}, which is none of its projections")
    wrong = {gate: sign for gate, sign in cell.decay_gates.items() if sign not in (1, -1)}
    if wrong:
        raise ValueError(f"{title}: the signs of decay_gates are 1 (a larger bias keeps more) or -1, got {wrong}")


def _check_methods(cell: Equations) -> None:
    """The methods on zeros: what they return has the right number of tensors and the right shapes."""
    size = BLOCKS * cell.block_size
    projected = tuple(torch.zeros(BATCH, STEPS, size) for _ in cell.projections)
    state = tuple(torch.zeros(BATCH, STEPS, size) for _ in cell.states)
    if isinstance(cell, (ScanEquations, BlockScanEquations)):
        given = (*projected, *(torch.zeros(diagonal_size(cell, size)) for _ in cell.diagonals))
        found = _call(cell, "coefficients", *given)
        k = cell.block_size
        blocks = isinstance(cell, BlockScanEquations)
        first = (BATCH, STEPS, k, k, BLOCKS) if blocks else (BATCH, STEPS, size)
        names = "(transition, drive)" if blocks else "(decay, drive)"
        _check(cell, "coefficients", found, names, [first, (BATCH, STEPS, size)])
        if isinstance(cell, GappedScanEquations):
            found = _call(cell, "coefficients_over", torch.ones(BATCH, STEPS, 1), *given)
            _check(cell, "coefficients_over", found, names, [first, (BATCH, STEPS, size)])
    else:
        weights = {name: torch.zeros(shape) for name, shape in shapes(cell, size, size, bias=True).items()}
        now, before = tuple(x[:, 0] for x in projected), tuple(s[:, 0] for s in state)
        step: tuple[Any, ...] = (now, before, Recurrent(cell.projections, weights))
        method = "step"
        if isinstance(cell, GappedEquations):
            method, step = "step_over", (torch.ones(BATCH, cell.gap_features), *step)
        _check(cell, method, _call(cell, method, *step), "a tuple of the states", [(BATCH, size)] * len(cell.states))
    if hasattr(cell, "output"):
        try:
            output = output_of(cell, state, projected)
        except Exception as error:
            raise TypeError(_failed(cell, "output", error)) from error
        _check(cell, "output", (output,), "one tensor", [(BATCH, STEPS, size)])


def _call(cell: Equations, method: str, *arguments: Any) -> Any:
    try:
        return getattr(cell, method)(*arguments)
    except Exception as error:
        raise TypeError(_failed(cell, method, error)) from error


def _failed(cell: Equations, method: str, error: Exception) -> str:
    count, names = len(cell.projections), ", ".join(cell.projections)
    size = BLOCKS * cell.block_size
    return (
        f"{type(cell).__name__}.{method} cannot take its {count} projections ({names}), "
        f"each of shape {(BATCH, STEPS, size) if method != 'step' else (BATCH, size)}: {error}"
    )


def _check(cell: Equations, method: str, found: Any, returns: str, expected: Sequence[tuple[int, ...]]) -> None:
    shapes_found = [tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__ for x in found] \
        if isinstance(found, (tuple, list)) else [type(found).__name__]  # fmt: skip
    if not isinstance(found, (tuple, list)) or shapes_found != list(expected):
        raise TypeError(
            f"{type(cell).__name__}.{method} must return {returns} of shapes {list(expected)} for projections of "
            f"{(BATCH, STEPS, BLOCKS * cell.block_size) if method != 'step' else (BATCH, BLOCKS * cell.block_size)}, "
            f"got {shapes_found}"
        )
