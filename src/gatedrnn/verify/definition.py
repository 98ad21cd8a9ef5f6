"""The reference of every execution mode: a cell's own `step`, or its `numpy`, over a row's real steps, in float64."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, linear

from gatedrnn.equations import Recurrent, output_of
from gatedrnn.kinds.definition import OneStep
from gatedrnn.layers import RecurrentLayer
from gatedrnn.layers.dropout import NO_MASKS, DirectionMasks, DropoutMasks
from gatedrnn.shapes import Flags, Gaps, Series, StateTuple, Step


class Sequences(NamedTuple):
    """The inputs of a layer."""

    x: Series
    """(batch, time, features)"""
    hx: StateTuple
    """Each (layers · directions, batch, size)."""
    mask: Flags
    resets: Flags
    masks: DropoutMasks | None = None
    gaps: Gaps | None = None
    """(batch, time), or (batch, time, directions · gap_features); None without gaps."""

    @property
    def shape(self) -> torch.Size:
        return self.x.shape

    def tensor_split(self, cuts: Sequence[int], dim: int) -> "list[Sequences]":
        """Split all that has an axis of time, as a tensor is; the dropout masks of pieces of one step."""
        assert dim == 1
        return [self.between(*bounds) for bounds in pairwise((0, *cuts, self.x.shape[1]))]

    def between(self, low: int, high: int) -> "Sequences":
        """Return the steps from `low` on and before `high`."""
        masks = self.masks.at(low) if self.masks is not None and high == low + 1 else self.masks
        gaps = None if self.gaps is None else self.gaps[:, low:high]
        return Sequences(self.x[:, low:high], self.hx, self.mask[:, low:high], self.resets[:, low:high], masks, gaps)


def initial_states(layer: RecurrentLayer, batch: int) -> StateTuple:
    """Return the states before the first step that a layer takes when none is passed in."""
    rows = layer.num_layers * (1 + layer.bidirectional)
    learned: list[Tensor] = [p for name, p in layer.named_parameters() if name.startswith("initial_state")]
    if learned:
        return (torch.stack(learned).unsqueeze(1).expand(-1, batch, -1),)
    return tuple(layer.weight_ih_l0.new_zeros(rows, batch, size) for size in layer.state_sizes())


def run_by_definition(
    layer: RecurrentLayer, sequences: Sequences, in_numpy: bool = False
) -> tuple[Series, StateTuple]:  # fmt: skip
    """Compute output and last states from the layer's parameters and its cell's equations alone.

    Each row runs over its real steps alone, together with rows of the same mask and resets. Differentiable.

    Args:
        in_numpy: take each step by the cell's second definition, without gradients, zoneout and dropout of the state.
    """
    groups: dict[Any, list[int]] = {}
    for row, flags in enumerate(zip(sequences.mask.tolist(), sequences.resets.tolist(), strict=True)):
        # Rows of the same flags take each step together, for speed; with gaps, each row has its own times.
        groups.setdefault(str(flags) if sequences.gaps is None else row, []).append(row)
    results = [_run_rows(layer, sequences, rows, in_numpy) for rows in groups.values()]
    order = torch.tensor([row for rows in groups.values() for row in rows], device=sequences.x.device).argsort()
    outputs, lasts = zip(*results, strict=True)
    return torch.cat(outputs)[order], tuple(torch.cat(states, dim=1)[:, order] for states in zip(*lasts, strict=True))


def _run_rows(
    layer: RecurrentLayer, sequences: Sequences, rows: list[int], in_numpy: bool
) -> tuple[Series, StateTuple]:  # fmt: skip
    """Return the outputs (rows, time, features), and each state as (layers · directions, rows, size)."""
    x, finals = sequences.x[rows], []
    directions = ("", "_reverse") if layer.bidirectional else ("",)
    for number in range(layer.num_layers):
        outputs = []
        for reverse, suffix in enumerate(directions):
            index = number * len(directions) + reverse
            weights = {
                name.removesuffix(f"_l{number}{suffix}"): parameter
                for name, parameter in layer.named_parameters()
                if name.endswith(f"_l{number}{suffix}")
            }
            state = tuple(s[index, rows] for s in sequences.hx)
            masks = NO_MASKS if sequences.masks is None else sequences.masks.directions[index]
            output, state = _run_direction(layer, weights, x, state, sequences, rows, masks, bool(reverse), in_numpy)
            outputs.append(output)
            finals.append(state)
        x = torch.cat(outputs, dim=2)
    return x, tuple(torch.stack(states) for states in zip(*finals, strict=True))


def _run_direction(
    layer: RecurrentLayer, weights: Mapping[str, Tensor], x: Series, state: StateTuple, sequences: Sequences,
    rows: list[int], masks: DirectionMasks, reverse: bool, in_numpy: bool,
) -> tuple[Series, StateTuple]:  # fmt: skip
    batch, time, features = x.shape
    mask, resets = sequences.mask[rows[0]], sequences.resets[rows[0]]
    dropped = None if masks.state is None else masks.state[rows]
    if masks.weight is not None:
        weights = {**weights, "weight_hh": weights["weight_hh"] * masks.weight}
    cell: Any = layer.cell  # which has `step_over` where a layer takes gaps
    weights = layer._wrapper.read(dict(weights), len(cell.projections))
    recurrent = Recurrent(cell.projections, weights, dropped)
    inputs = layer.weight_ih_l0.shape[1] // layer.input_size
    if inputs > 1:  # what is wider than the input is not read, and comes back as 0
        *others, last = state
        state = (*others, torch.cat([last[:, :features], 0 * last[:, features:]], dim=1))
    outputs: list[Tensor] = [x.new_zeros(batch, layer.proj_size or layer.hidden_size)] * time
    # The time since the state that is carried; None for a reversed run that has not begun. With gaps a row is alone.
    gaps, since = None if sequences.gaps is None else sequences.gaps[rows[0]], None if reverse else x.new_zeros(())
    for t in reversed(range(time)) if reverse else range(time):
        # A reset cuts between t-1 and t, so a reversed run meets it before step t-1.
        is_reset = (t + 1 < time and resets[t + 1]) if reverse else resets[t]
        if is_reset:
            # s * 0 has the shape of the state and stays in its graph, so that hx has zeros as its gradient.
            state = tuple(s * 0 + weights.get("initial_state", 0) for s in state)
            since = None if reverse else x.new_zeros(())
        if gaps is not None and gaps.dim() == 1 and since is not None:
            since = since + gaps[t + 1 if reverse else t]
        if not mask[t]:
            continue
        step_input = x[:, t] if masks.input is None else x[:, t] * masks.input[rows]
        last_input: StateTuple = ()
        if inputs > 1:
            *states, last = state
            state, last_input = tuple(states), (torch.cat([step_input, last[:, features:]], dim=1),)
            step_input = torch.cat([step_input, last[:, :features]], dim=1)
        gates = _projected(layer, weights, step_input)
        before = state
        gap = x.new_ones(1, 1) if since is None else since.view(1, 1)
        if gaps is not None and gaps.dim() == 2:
            count = gaps.shape[1] // (1 + layer.bidirectional)
            gap = gaps[t : t + 1, count * reverse : count * (1 + reverse)]
        if in_numpy:
            output, state = _step_in_numpy(cell, gates, state, weights if gaps is None else {**weights, "gaps": gap})
        elif gaps is None:
            state = cell.step(gates, state, recurrent)
        else:
            state = cell.step_over(gap, gates, state, recurrent)
        since = x.new_zeros(())
        if layer.zoneout and (masks.zoneout is not None or not layer.training):
            shares = (
                [x.new_tensor(layer.zoneout)] * len(state)
                if masks.zoneout is None
                else [k[rows, t] for k in masks.zoneout]
            )
            # 1.0 * k: a mask may be bool, from which torch does not subtract.
            state = tuple(old * k + new * (1 - 1.0 * k) for k, old, new in zip(shares, before, state, strict=True))
        if not in_numpy:
            output = output_of(cell, state, gates)
        if layer.proj_size and not cell.projects_state:
            output = linear(output, weights["weight_hr"])
        outputs[t] = output
        state = (*state, *last_input)
    return torch.stack(outputs, dim=1), state


def _step_in_numpy(cell: Any, gates: StateTuple, state: StateTuple, weights: Mapping[str, Tensor]) -> OneStep:
    arrays = {name: weight.detach().numpy() for name, weight in weights.items()}
    output, after = cell.numpy(*(tuple(x.detach().numpy() for x in series) for series in (gates, state)), arrays)
    return torch.as_tensor(output), tuple(map(torch.as_tensor, after))


def _projected(layer: RecurrentLayer, weights: Mapping[str, Tensor], x: Step) -> tuple[Step, ...]:
    """Compute W x + b of each gate; with layer_norm each gate's W x has mean 0 and variance 1 before gain and bias."""
    gates = linear(x, weights["weight_ih"]).chunk(len(layer.cell.projections), dim=1)
    if layer.layer_norm:
        gains = weights["weight_norm"].chunk(len(gates))
        gates = tuple(layer_norm(g, g.shape[1:]) * gain for g, gain in zip(gates, gains, strict=True))
    if layer.bias:
        gates = tuple(g + b for g, b in zip(gates, weights["bias_ih"].chunk(len(gates)), strict=True))
    return gates
