"""Helpers of the tests of equations: every cell with its options, and one step of it with no recurrent weights."""

import torch

from gatedrnn import registry
from gatedrnn.equations import Equations, Option, Recurrent
from gatedrnn.kinds import kind_of

BATCH, STEPS, FEATURES, HIDDEN = 3, 7, 3, 4
PRE_ACTIVATIONS = torch.tensor([-1000.0, -30.0, -3.0, -0.5, -0.0, 0.0, 0.5, 3.0, 30.0, 1000.0], dtype=torch.float64)

VARIANTS: dict[str, tuple[str, dict[str, Option]]] = {name: (name, {}) for name in registry.CELLS} | {
    "gru-reset-before": ("gru", {"reset_after": False}),
    "mgu-keep": ("mgu", {"keep": True}),
    "minlstm-identity": ("minlstm", {"activation": "identity"}),
    "mingru-identity": ("mingru", {"activation": "identity"}),
}  # what is tested: the name on the command line, and the options of the equations


def cell_of(variant: str) -> Equations:
    name, options = VARIANTS[variant]
    return registry.CELLS[name].equations(**options)


CELLS = {variant: cell_of(variant) for variant in VARIANTS}
MINIMAL = ("minlstm", "mingru")


def step_without_recurrence(cell: Equations, projected: list[torch.Tensor], state: torch.Tensor) -> torch.Tensor:
    """The next state where gates read nothing but `projected`; `state` is the kept one of (h,), (h, c) and, with n = 1,
    (h, c, n, m)."""
    width = state.shape[-1]
    shapes = kind_of(cell).shapes(cell, width, width, False)
    weights = {name: state.new_zeros(shape) for name, shape in shapes.items()}
    states = [torch.ones_like(state) if name == "n" else torch.zeros_like(state) for name in cell.states]
    states[cell.memory] = state
    return cell.step(tuple(projected), tuple(states), Recurrent(cell.projections, weights))[cell.memory]
