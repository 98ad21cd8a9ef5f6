"""The input of the step before, for cells whose projections read it beside that of the step itself."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from gatedrnn.equations import Equations
from gatedrnn.ops._time import over_time
from gatedrnn.ops.backends import exporting_to_onnx
from gatedrnn.ops.masking import reversed_resets
from gatedrnn.ops.over_ranks import TimeRanks
from gatedrnn.shapes import Flags, Series, StateTuple, Step


def with_last_input(
    cell: Equations, x: Series, state: StateTuple, mask: Flags | None = None, resets: Flags | None = None,
    reverse: bool = False, ranks: TimeRanks | None = None,
) -> tuple[Series, StateTuple, StateTuple]:  # fmt: skip
    """What a cell's projections read of a series, the states of its equations, and what goes on beside them: nothing,
    or the last input.

    Args:
        state: the tensors of `hx`, of one layer and direction.
        x, mask, resets, reverse, ranks: as in `beside_the_last`.
    """
    if cell.window == 1:
        return x, state, ()
    *states, before = state
    read, last = beside_the_last(x, before, mask, resets, reverse, ranks)
    return read, tuple(states), (last,)


def beside_the_last(
    x: Series, before: Step, mask: Flags | None, resets: Flags | None, reverse: bool,
    ranks: TimeRanks | None = None,
) -> tuple[Series, Step]:  # fmt: skip
    """Each step's input and, in the features after it, that of the real step before it: the one after it if reversed.

    Args:
        x: (batch, time, features).
        before: (batch, features or more): the last real input before the first step; what is wider is not read.
        mask: True for real steps.
        resets: True at t for a cut between t-1 and t, in both directions: nothing of before it is read after it.
        ranks: processes that the sequence is cut over: `before` is then that of the whole, and so is the last input.

    Returns:
        (batch, time, 2 · features), and the last real input of all, 0 where a cut came after it, in the shape and dtype
        of `before`.
    """
    if reverse:
        after = None if ranks is None or resets is None else ranks.cut_after(resets)
        flags = None if resets is None else reversed_resets(resets, after).flip(1)
        turned, real = x.flip(1), None if mask is None else mask.flip(1)
        if ranks is None:
            found, last = beside_the_last(turned, before, real, flags, reverse=False)
        else:
            found, last = _over_ranks(turned, before, real, flags, True, ranks)
        return found.flip(1), last
    if ranks is not None:
        return _over_ranks(x, before, mask, resets, False, ranks)
    steps, features = x.shape[1], x.shape[2]
    inputs = torch.cat([before[:, None, :features].to(x.dtype), x], dim=1)
    if mask is not None or resets is not None:
        inputs = _of_the_last_real_step(inputs, mask, resets)
    last = pad(inputs[:, steps].to(before.dtype), (0, before.shape[1] - features))
    return torch.cat([x, inputs[:, :steps]], dim=2), last


def _over_ranks(
    x: Series, before: Step, mask: Flags | None, resets: Flags | None, reverse: bool, ranks: TimeRanks
) -> tuple[Series, Step]:
    """A piece in the order of the run. What it does to the last input is a step of a scan: kept, or another one."""
    _, last = beside_the_last(x, torch.zeros_like(before), mask, resets, reverse=False)
    real = x.new_full((len(x),), x.shape[1] > 0, dtype=torch.bool) if mask is None else mask.any(1)
    kept = ~real if resets is None else ~(real | resets.any(1))
    keeps = kept.to(before.dtype)[:, None].expand_as(before)[:, None, None]
    incoming, end = ranks.between(keeps, last.unsqueeze(1), before.unsqueeze(1), reverse)
    return beside_the_last(x, incoming.squeeze(1), mask, resets, reverse=False)[0], end.squeeze(1)


def _of_the_last_real_step(inputs: Series, mask: Flags | None, resets: Flags | None) -> Series:
    """At each place the last input that is real and after the last cut; 0 where there is none.

    Args:
        inputs: (batch, 1 + time, features), one before the first step.
        mask, resets: of the steps, (batch, time); a cut at t acts on the place before it too.
    """
    batch, places, _ = inputs.shape
    here = torch.arange(places, device=inputs.device).expand(batch, places)
    found = here
    if mask is not None:
        found = _largest_up_to(torch.where(pad(mask, (1, 0), value=True), here, 0))
        inputs = inputs.gather(1, found.unsqueeze(2).expand_as(inputs))
    if resets is not None:
        # Place t holds what step t may read: a cut at t leaves nothing of the places up to t.
        cut = _largest_up_to(torch.where(pad(resets, (0, 1)), here, -1))
        inputs = torch.where((found > cut).unsqueeze(2), inputs, 0)
    return inputs


def _largest_up_to(places: Tensor) -> Tensor:
    """At each place the largest number of those up to it, (batch, places)."""
    if not exporting_to_onnx():
        return places.cummax(1).values

    def step(state: tuple[Tensor, ...], here: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        largest = torch.maximum(state[0], here)  # ONNX has no operator of running maxima
        return largest, (largest,)

    return over_time(step, (places[:, 0],), (places,))[0]
