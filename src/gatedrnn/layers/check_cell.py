"""Checks of a user's own cell: each error names the cell, the method and the shapes.

A class is checked once, when its first layer is made: its declarations, the results of its methods on zeros, and that
its equations read every weight, on random numbers.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gatedrnn.codegen.trace import in_a_clean_thread
from gatedrnn.equations import Equations, Recurrent, output_of
from gatedrnn.kinds import kind_of
from gatedrnn.kinds.kind import MethodCall, SampleInputs, check_initial_state
from gatedrnn.layers.parameters import shapes

# Three different sizes, so that swapped axes do not fit.
BATCH, STEPS, BLOCKS = 2, 3, 5
DRAWS = 8
"""Random inputs at most on which a weight is looked for: a rectifier may be shut on the first."""
_CHECKED: set[type[Equations]] = set()


def check_cell(cell: Equations) -> None:
    """Check a cell's declarations and the results of its methods.

    Raises:
        TypeError: a declaration is missing or of another type; a method does not take the projections, or returns
            something else than it must.
        ValueError: declarations that contradict each other, or a weight that no equation reads.
    """
    # Of each object, before the look-up by class: attributes depend on the options.
    _refuse_tensors(cell)
    if type(cell) in _CHECKED:
        return
    _check_declarations(cell)
    # The default device may be "meta", where tensors have no values.
    with torch.no_grad(), torch.device("cpu"):
        _check_methods(cell)
    # The caller may run under `no_grad`, autocast or a mode; gradients are needed here.
    in_a_clean_thread(lambda: _check_reads(cell))
    # Last: a class that was refused is checked again.
    _CHECKED.add(type(cell))


def _refuse_tensors(cell: Equations) -> None:
    """Refuse tensors of the equations' own: no layer would move, save or train them, and no kernel reads them."""
    for holder in (cell, *type(cell).__mro__):
        for name, value in vars(holder).items():
            if _holds_tensor(value):
                raise TypeError(
                    f"{type(cell).__name__}.{name} is a tensor or a module, which nothing would train or save; name a "
                    "weight in diagonals and read it by recurrent.diagonal, or make it a number"
                )


def _holds_tensor(value: object) -> bool:
    elements = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return isinstance(value, Tensor | nn.Module) or any(map(_holds_tensor, elements))


def _check_declarations(cell: Equations) -> None:
    title = type(cell).__name__
    for name in ("name", "projections"):
        if not getattr(cell, name, None):
            raise TypeError(f"{title} must say its {name}, see gatedrnn.equations.Equations")
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
    check_initial_state(cell)
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
    """Call the methods on zeros, and check the number and the shapes of the tensors that they return."""
    size = BLOCKS * cell.block_size
    inputs = SampleInputs(
        tuple(torch.zeros(BATCH, STEPS, size) for _ in cell.projections),
        tuple(torch.zeros(BATCH, STEPS, size) for _ in cell.states),
        {name: torch.zeros(shape) for name, shape in shapes(cell, size, size, bias=True).items()},
    )
    for call in kind_of(cell).method_calls(cell, inputs):
        one_step = call.method in ("step", "step_over")
        _check_call(cell, call, (BATCH, size) if one_step else (BATCH, STEPS, size))
    if cell.output is not None:
        arguments = inputs.state, inputs.projected
        call = MethodCall("output", arguments, "one tensor", [(BATCH, STEPS, size)], in_tuple=False)
        _check_call(cell, call, (BATCH, STEPS, size))


def _check_call(cell: Equations, call: MethodCall, read: tuple[int, ...]) -> None:
    name = f"{type(cell).__name__}.{call.method}"
    try:
        results = getattr(cell, call.method)(*call.arguments)
    # A user's method may raise anything; the message names the shapes that it got.
    except Exception as error:
        raise TypeError(
            f"{name} cannot take its {len(cell.projections)} projections ({', '.join(cell.projections)}), "
            f"each of shape {read}: {error}"
        ) from error
    if not call.in_tuple:
        results = (results,)
    several = isinstance(results, (tuple, list))
    got = [tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__ for x in (results if several else (results,))]
    if not several or got != list(call.shapes):
        raise TypeError(
            f"{name} must return {call.returns} of shapes {list(call.shapes)} for projections of {read}, got {got}"
        )


def _check_reads(cell: Equations) -> None:
    """Refuse a weight that no equation reads: it would count as a parameter and never get a gradient."""
    unread = _unread_weights(cell)
    if not unread:
        return
    title, hint = type(cell).__name__, "read it, or leave it out of the cell's declarations"
    rows = next(iter(unread.values()))
    if "weight_hh" in unread:
        hint = "read it by recurrent(h), or take ElementwiseLoopEquations, which have none"
    elif rows < cell.block_size:
        hint = "each projection has hidden_size rows, and all have to be read"
    raise ValueError(f"{title}: no equation reads {' and '.join(unread)}, which would get no gradient; {hint}")


def _unread_weights(cell: Equations) -> dict[str, int]:
    """Return what no equation reads, in words, with the number of its rows in a block of channels."""
    # A generator of its own leaves the caller's random numbers as they are.
    size, generator = BLOCKS * cell.block_size, torch.Generator().manual_seed(0)
    sizes: dict[str, tuple[int, ...]] = {name: (STEPS, BATCH, size) for name in cell.projections}
    weights = shapes(cell, size, size, bias=True)
    # The layer reads these three itself.
    cell_weights = [name for name in weights if name not in ("weight_ih", "bias_ih", "initial_state")]
    sizes |= {name: weights[name] for name in cell_weights if name not in cell.projections}
    axis = {name: 2 if name in cell.projections else 0 for name in sizes}
    unused = {name: torch.ones(shape[axis[name]], dtype=torch.bool) for name, shape in sizes.items()}

    def outputs(leaves: dict[str, Tensor], state: tuple[Tensor, ...]) -> list[Tensor]:
        recurrent, results = Recurrent(cell.projections, {name: leaves[name] for name in cell_weights}), []
        for step in zip(*(leaves[name].unbind(0) for name in cell.projections), strict=True):
            state = cell.step(step, state, recurrent)
            results += [output_of(cell, state, step), *state]
        return results

    for draw in range(DRAWS):
        leaves = {name: torch.randn(shape, generator=generator, requires_grad=True) for name, shape in sizes.items()}
        # From zeros first: a state that must be positive is, after them.
        starts = [(draw > 0) * torch.randn(BATCH, size, generator=generator) for _ in cell.states]
        results = outputs(leaves, tuple(starts))
        total: Any = sum((x * torch.randn(x.shape, generator=generator)).sum() for x in results)
        gradients = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
        for name, gradient in zip(leaves, gradients, strict=True):
            unused[name] &= (gradient == 0).movedim(axis[name], 0).reshape(len(unused[name]), -1).all(1)
        # What is read by a comparison alone has no gradient: it is changed, and results are compared.
        for name in [name for name in unused if unused[name].any()]:
            rows = unused[name].view(-1, *(1,) * (leaves[name].dim() - 1 - axis[name]))
            with torch.no_grad():
                # Larger draws: a threshold may lie beyond the first ones.
                changed = torch.where(rows, 3 * torch.randn(sizes[name], generator=generator), leaves[name])
                repeated = outputs(leaves | {name: changed}, tuple(starts))
            if not all(map(torch.equal, results, repeated)):
                unused[name][:] = False
        if not any(rows.any() for rows in unused.values()):
            return {}
    return _describe(cell, {name: rows for name, rows in unused.items() if rows.any()})


def _describe(cell: Equations, unused: Mapping[str, Tensor]) -> dict[str, int]:
    words = {}
    for name, rows in unused.items():
        all_rows = bool(rows.all())
        parts = len(cell.projections) if name in ("weight_hh", "bias_hh") and not all_rows else 1
        for gate, part in zip(cell.projections if parts > 1 else (name,), rows.chunk(parts), strict=True):
            title = f"the projection {name!r}" if name in cell.projections else name
            title = f"the rows of {name} for {gate!r}" if parts > 1 else title
            if part.any():
                words[title if part.all() else f"some rows of {title}"] = int(part.sum()) // BLOCKS
    return words
