"""A check that a larger bias of a decay gate keeps more of the state, or less, as its cell declares."""

from copy import deepcopy

import torch
from torch import Tensor

from gatedrnn.layers import RecurrentLayer
from gatedrnn.verify.definition import Sequences, initial_states, run_by_definition

ROWS, BIAS_INCREASE = 8, 0.5


def wrong_change(layer: RecurrentLayer, gate: str, sign: int) -> float:
    """Measure how far a larger bias of `gate` moves the share of the state that a step keeps against the declared sign.

    The share is d s_1 / d s_0, with the recurrent weights at 0 so that no gate reads the state; for a block, the norm
    of its matrix.

    Args:
        layer: float64, one layer in one direction.
        sign: +1 where a larger bias must keep more, -1 where it must keep less, as in `Equations.decay_gates`.

    Returns:
        0 if no share moves the wrong way, and inf if none moves the right way.
    """
    layer = deepcopy(layer)
    with torch.no_grad():
        for name, weight in layer.named_parameters():
            if name.startswith("weight_") and not name.startswith(("weight_ih", "weight_hr", "weight_norm")):
                weight.zero_()
        before = _retained_shares(layer)
        gates = layer.cell.projections
        layer.get_parameter("bias_ih_l0").chunk(len(gates))[gates.index(gate)].add_(BIAS_INCREASE)
        change = sign * (_retained_shares(layer) - before)
    return float((-change.min()).clamp(min=0)) if change.max() > 0 else torch.inf


@torch.enable_grad()
def _retained_shares(layer: RecurrentLayer) -> Tensor:
    """Differentiate a state by the one before, for each channel or block, over one step of a few inputs."""
    x = torch.randn(ROWS, 1, layer.input_size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    real = torch.ones(ROWS, 1, dtype=torch.bool)
    # Start from the state after a step: some cells have nothing to keep before their first.
    _, first = run_by_definition(layer, Sequences(x, initial_states(layer, ROWS), real, ~real))
    hx = tuple(s.detach().clone().requires_grad_() for s in first)
    _, after = run_by_definition(layer, Sequences(x, hx, real, ~real))
    memory, size = layer.cell.memory, layer.cell.block_size
    components = after[memory].unflatten(-1, (size, -1)).unbind(-2)
    rows = [torch.autograd.grad(component.sum(), hx[memory], retain_graph=True)[0] for component in components]
    return rows[0] if size == 1 else torch.stack(rows).unflatten(-1, (size, -1)).square().sum((0, -2)).sqrt()
