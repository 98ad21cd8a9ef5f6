"""The cells that stand for all in the fast suite: one for each path through the code, found by what cells declare."""

from collections.abc import Iterable, Mapping

from covering import Axis, few_that_cover

from gatedrnn.equations import BlockScanEquations, ConvexScanEquations, Equations
from gatedrnn.kinds import KINDS, kind_of
from gatedrnn.layers.wrappers import PLAIN
from gatedrnn.registry import CELLS


def signature(cell: Equations) -> frozenset[tuple[object, ...]]:
    """(the kind of the cell, a property, its value), for each property: a layer branches on these and nothing else."""
    kind, wrapper = kind_of(cell), CELLS[cell.name].layer.wrapper(cell) if cell.name in CELLS else PLAIN
    parameters, facts = kind.shapes(cell, 12, 12, True), kind.facts(cell)
    properties: dict[str, object] = {
        "states": len(cell.states),
        "states of one meaning": "zoneout" in facts.refused,
        "the output is not the state": cell.output is not None,
        "diagonal weights": bool(cell.diagonals),
        "learned initial state": "initial_state" in parameters,
        "window": wrapper.inputs,
        "heads": wrapper.blocks > 1,
        "straight through": isinstance(cell, BlockScanEquations) and bool(cell.straight_through),
        "the projection is part of the state": cell.projects_state,
        "two biases": "bias_hh" in parameters,
        "gaps": facts.gaps,
        "logarithms": isinstance(cell, ConvexScanEquations) and hasattr(cell, "log_space"),
    }
    return frozenset((KINDS.index(kind), name, value) for name, value in properties.items())


def representatives(cells: Mapping[str, Equations]) -> tuple[str, ...]:
    """Few of the cells, whose signatures together hold all that any cell's does; in the order of `cells`."""
    found = few_that_cover({name: signature(cell) for name, cell in cells.items()})
    return tuple(name for name in cells if name in found)


def axis(cells: Mapping[str, Equations], names: Iterable[str]) -> Axis:
    """An axis of those of the cells, of which the fast suite takes the representatives."""
    chosen = {name: cells[name] for name in names}
    return Axis(fast=representatives(chosen), every=tuple(chosen))
