"""A layer's insides on given inputs: gates, decays and states at every step, by the equations themselves."""

from collections.abc import Iterator
from typing import NamedTuple

import torch

from gatedrnn.equations import (
    BlockScanEquations,
    Equations,
    Recurrent,
    ScanEquations,
    output_of,
    split_gates,
)
from gatedrnn.layers import RecurrentLayer
from gatedrnn.layers.dropout import NO_MASKS
from gatedrnn.layers.window import with_last_input
from gatedrnn.ops.step import one_step
from gatedrnn.shapes import Series, StateTuple, Step

CANDIDATE = "candidate"


class Traced(NamedTuple):
    """One layer in one direction; every series is (batch, time, channels), in the order of iteration."""

    layer: int
    reverse: bool
    gates: dict[str, Series]
    """By name: between 0 and 1, or -1 and 1 where a decay has a sign; without those that act by their exponential."""
    decay: Series | None
    """The factor of a channel's state, without recurrent weights and without the rotation of blocks. None for a cell
    that declares no decay gate."""
    memory: Series
    """The state that keeps what was read: c of an LSTM."""
    written: Series | None
    """What each step added to the memory beside the decayed one; None without a decay, and of rotating blocks."""
    output: Series


@torch.no_grad()
def trace(layer: RecurrentLayer, x: Series, hx: StateTuple | None = None) -> Iterator[Traced]:
    """Iterate a layer step by step, in evaluation mode.

    Args:
        layer: in any mode; no dropout is applied.
        x: (batch, time, input_size).
        hx: the state to begin with, each tensor (layers · directions, batch, size); the initial state if None.
    """
    cell = layer.cell
    start = layer._initial_state(x) if hx is None else hx
    for number in range(layer.num_layers):
        outputs = []
        for direction, suffix in enumerate(layer._directions):
            weights = layer._weights(number, suffix)
            state: StateTuple = tuple(s[number * len(layer._directions) + direction] for s in start)
            read, state, _ = with_last_input(cell, x.flip(1) if direction else x, state)
            projected = layer._project(read, weights).to(start[0].dtype)
            steps, found, memories = [], [], [state[cell.memory]]
            for t in range(x.shape[1]):
                recurrent = Recurrent(cell.projections, weights, products={})
                before, state = state, one_step(cell, projected[:, t], state, recurrent, layer._zoneout(NO_MASKS))
                output = output_of(cell, state, split_gates(len(cell.projections), projected[:, t]))
                steps.append(layer._project_output(output, weights))
                found.append(_sums(cell, recurrent, projected[:, t], before, state))
                memories.append(state[cell.memory])
            sums = {name: torch.stack([step[name] for step in found], dim=1) for name in cell.projections}
            output, decay = torch.stack(steps, dim=1), _decay(cell, sums, recurrent)
            gates, kept = _gates(cell, sums, decay), layer.zoneout  # its expectation, as in evaluation
            whole = None if decay is None else kept + (1 - kept) * decay
            memory, earlier = torch.stack(memories[1:], dim=1), torch.stack(memories[:-1], dim=1)
            mixes = isinstance(cell, BlockScanEquations)
            written = None if whole is None or mixes else memory - whole * earlier
            yield Traced(number, direction == 1, gates, whole, memory, written, output)
            outputs.append(output.flip(1) if direction else output)
        x = torch.cat(outputs, dim=2).to(x.dtype)


def _sums(
    cell: Equations, recurrent: Recurrent, projected: Step, before: StateTuple, after: StateTuple
) -> dict[str, Step]:  # fmt: skip
    """Each gate's pre-activation: the sum of the input's part, the state's, and what diagonal weights read."""
    sums = dict(zip(cell.projections, projected.chunk(len(cell.projections), dim=-1), strict=True))
    for name, product in (recurrent.products or {}).items():
        sums[name] = sums[name] + product
    for weight, read in cell.diagonals.items():
        if read is not None:
            sums[read.gate] = (
                sums[read.gate] + recurrent.diagonal(weight) * (after if read.after else before)[read.state]
            )
    return sums


def _decay(cell: Equations, sums: dict[str, Series], recurrent: Recurrent) -> Series | None:
    projected, own = tuple(sums.values()), [recurrent.diagonal(name) for name in cell.diagonals]
    if isinstance(cell, ScanEquations):
        return cell.coefficients(*projected, *own)[0]
    if isinstance(cell, BlockScanEquations):
        # Row i of a block is the i-th channel's decay times a row of length 1.
        return cell.coefficients(*projected, *own)[0].norm(dim=-2).flatten(-2)
    signed = [torch.sigmoid(sign * sums[name]) for name, sign in cell.decay_gates.items()]
    return signed[0] if signed else None


def _gates(cell: Equations, sums: dict[str, Series], decay: Series | None) -> dict[str, Series]:
    if decay is not None and (cell.clamped_decay or (isinstance(cell, ScanEquations) and len(cell.decay_gates) == 2)):
        # As they act: within bounds, or as shares of one whole.
        return {name: decay if sign > 0 else 1 - decay for name, sign in cell.decay_gates.items()}
    return {name: torch.sigmoid(total) for name, total in sums.items() if name not in (CANDIDATE, *cell.exponential)}
