"""Checks of a user's own cell: each error names the cell, the method and the shapes.

A class is checked once, on zeros, when its first layer is made: its declarations, and the results of its methods.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gatedrnn.equations import Equations
from gatedrnn.kinds import kind_of
from gatedrnn.kinds.kind import MethodCall, SampleInputs, check_initial_state
from gatedrnn.layers.parameters import shapes

BATCH, STEPS, BLOCKS = 2, 3, 5
_TRIED: set[type[Equations]] = set()


def check_cell(cell: Equations) -> None:
    """Check a cell's declarations and the results of its methods.

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
    check_initial_state(cell)
    unknown = sorted(set(cell.decay_gates) - set(cell.projections))
    if unknown:
        raise ValueError(f"{title}: decay_gates names {unknown[0]!r}, which is none of its projections")
    wrong = {gate: sign for gate, sign in cell.decay_gates.items() if sign not in (1, -1)}
    if wrong:
        raise ValueError(f"{title}: the signs of decay_gates are 1 (a larger bias keeps more) or -1, got {wrong}")


def _check_methods(cell: Equations) -> None:
    """Call the methods on zeros, and check the number and the shapes of the tensors that they return."""
    size = BLOCKS * cell.block_size
    inputs = SampleInputs(
        tuple(torch.zeros(BATCH, STEPS, size) for _ in cell.projections),
        tuple(torch.zeros(BATCH, STEPS, size) for _ in cell.states),
        {name: torch.zeros(shape) for name, shape in shapes(cell, size, size, bias=True).items()},
    )
    for call in kind_of(cell).calls(cell, inputs):
        _check_call(cell, call, (BATCH, size) if call.method == "step" else (BATCH, STEPS, size))
    if cell.output is not None:
        arguments = inputs.state, inputs.projected
        _check_call(cell, MethodCall("output", arguments, "one tensor", [(BATCH, STEPS, size)]), (BATCH, STEPS, size))


def _check_call(cell: Equations, call: MethodCall, read: tuple[int, ...]) -> None:
    name = f"{type(cell).__name__}.{call.method}"
    try:
        results = getattr(cell, call.method)(*call.arguments)
    except Exception as error:
        raise TypeError(
            f"{name} cannot take its {len(cell.projections)} projections ({', '.join(cell.projections)}), "
            f"each of shape {read}: {error}"
        ) from error
    if call.method == "output":
        results = (results,)
    several = isinstance(results, (tuple, list))
    got = [tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__ for x in (results if several else (results,))]
    if not several or got != list(call.shapes):
        raise TypeError(
            f"{name} must return {call.returns} of shapes {list(call.shapes)} for projections of {read}, got {got}"
        )
