"""The cells that stand for all in the fast suite: one for each path through the code, found by what cells declare."""

from collections.abc import Iterable, Mapping

from covering import Axis, few_that_cover

from gatedrnn.equations import (
    ElementwiseLoopEquations,
    Equations,
    GappedLoopEquations,
    GappedScanEquations,
    PositiveScanEquations,
)
from gatedrnn.layers.runners import runner_of


def signature(cell: Equations) -> frozenset[tuple[object, ...]]:
    """(what runs the cell, a property, its value), for each property: a layer branches on these and on nothing else."""
    kinds = {GappedLoopEquations: "learned", GappedScanEquations: "raised decay"}
    properties: dict[str, object] = {
        "states": len(cell.states),
        "states of one meaning": cell.joint_states,
        "the output is not the state": hasattr(cell, "output"),
        "diagonal weights": bool(cell.diagonals),
        "learned initial state": cell.learns_initial_state,
        "window": cell.window,
        "heads": cell.heads > 1,
        "straight through": bool(cell.straight_through),
        "the projection is part of the state": cell.projects_state,
        "two biases": cell.recurrent_bias,
        "gaps": next((word for kind, word in kinds.items() if isinstance(cell, kind)), "none"),
        "logarithms": isinstance(cell, PositiveScanEquations),
        "torch's kernel": cell.torch_kernel is not None,
    }
    runner = runner_of(cell), isinstance(cell, ElementwiseLoopEquations)
    return frozenset((*runner, name, value) for name, value in properties.items())


def representatives(cells: Mapping[str, Equations]) -> tuple[str, ...]:
    """Few of the cells, whose signatures together hold all that any cell's does; in the order of `cells`."""
    found = few_that_cover({name: signature(cell) for name, cell in cells.items()})
    return tuple(name for name in cells if name in found)


def axis(cells: Mapping[str, Equations], names: Iterable[str]) -> Axis:
    """An axis of those of the cells, of which the fast suite takes the representatives."""
    chosen = {name: cells[name] for name in names}
    return Axis(fast=representatives(chosen), every=tuple(chosen))
