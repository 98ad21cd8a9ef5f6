"""The gates, decays and states of a layer at every step, by the equations themselves."""

from collections.abc import Iterator
from typing import NamedTuple

import torch

from gatedrnn.equations import Equations, Recurrent, output_of, split_gates
from gatedrnn.kinds import kind_of
from gatedrnn.kinds.definition import one_step, over_time
from gatedrnn.layers import RecurrentLayer
from gatedrnn.layers.dropout import NO_MASKS
from gatedrnn.shapes import Series, StateTuple, Step


class Traced(NamedTuple):
    """One layer in one direction; every series is (batch, time, channels), in the order of iteration."""

    layer: int
    reverse: bool
    gates: dict[str, Series]
    """Gates by name: between 0 and 1, or -1 and 1 for a decay with a sign; without those that act by an exponential."""
    decay: Series | None
    """The factor of a channel's state, without recurrent weights and without the rotation of blocks. None for a cell
    that declares no decay gate."""
    memory: Series
    """The state that remembers the input: c of an LSTM."""
    written: Series | None
    """The values that each step added to the decayed memory; None without a decay, and for rotating blocks."""
    output: Series


@torch.no_grad()
def trace(layer: RecurrentLayer, x: Series, hx: StateTuple | None = None) -> Iterator[Traced]:
    """Iterate a layer step by step, in evaluation mode.

    Args:
        layer: in any mode; no dropout is applied.
        x: (batch, time, input_size).
        hx: the state before the first step, each tensor (layers · directions, batch, size); the initial one if None.
    """
    start = layer.start_state(x) if hx is None else hx
    for number in range(layer.num_layers):
        outputs = []
        for direction, suffix in enumerate(layer._directions):
            state = tuple(s[number * len(layer._directions) + direction] for s in start)
            traced = _trace_direction(layer, x.flip(1) if direction else x, state, number, suffix)
            yield traced
            outputs.append(traced.output.flip(1) if direction else traced.output)
        x = torch.cat(outputs, dim=2).to(x.dtype)


def _trace_direction(layer: RecurrentLayer, x: Series, state: StateTuple, number: int, suffix: str) -> Traced:
    cell, weights = layer.cell, layer.read_weights(number, suffix)
    read, before, _ = layer._wrapper.concat_previous_input(x, state)
    by_step: list[dict[str, Step]] = []
    memories = [before[cell.memory]]

    def step(state: StateTuple, projected: Step) -> tuple[Step, StateTuple]:
        recurrent = Recurrent(cell.projections, weights, products={})
        after = one_step(cell, projected, state, recurrent, layer._zoneout(NO_MASKS))
        by_step.append(_preactivations(cell, recurrent, projected, state, after))
        memories.append(after[cell.memory])
        return output_of(cell, after, split_gates(len(cell.projections), projected)), after

    output, _ = over_time(step, before, (layer.project(read, weights).to(state[0].dtype),))
    by_gate = {name: torch.stack([step[name] for step in by_step], dim=1) for name in cell.projections}
    inside = kind_of(cell).insides(cell, by_gate, [weights[f"weight_{name}"] for name in cell.diagonals])
    # Zoneout acts by its expectation, as in evaluation.
    decay = None if inside.decay is None else layer.zoneout + (1 - layer.zoneout) * inside.decay
    memory, before_each = torch.stack(memories[1:], dim=1), torch.stack(memories[:-1], dim=1)
    written = memory - decay * before_each if decay is not None and inside.adds else None
    return Traced(
        number, suffix != "", inside.gates, decay, memory, written, layer.project_output(output, weights)
    )  # fmt: skip


def _preactivations(
    cell: Equations, recurrent: Recurrent, projected: Step, before: StateTuple, after: StateTuple
) -> dict[str, Step]:  # fmt: skip
    """Sum each gate's pre-activation: products with the input and the state, and diagonal weights times states."""
    sums = dict(zip(cell.projections, projected.chunk(len(cell.projections), dim=-1), strict=True))
    for name, product in (recurrent.products or {}).items():
        sums[name] = sums[name] + product
    for weight, source in cell.diagonals.items():
        if source is not None:
            sums[source.gate] = (
                sums[source.gate] + recurrent.diagonal(weight) * (after if source.after else before)[source.state]
            )
    return sums
