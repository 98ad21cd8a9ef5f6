"""Masked steps of a series by torch operations: they leave the state as it was, their output is 0, and their time
passes on to the next real step, of the next call too."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from gatedrnn.shapes import Flags, Gaps, Series


def hold_masked_steps(decay: Series, drive: Series, mask: Flags) -> tuple[Series, Series]:
    """a = 1 and b = 0 at masked steps: the scan carries the state over them unchanged."""
    real = mask.unsqueeze(2)
    return torch.where(real, decay, 1), torch.where(real, drive, 0)


def zero_masked_steps(output: Series, mask: Flags) -> Series:
    """0 at masked steps, whatever the value there was (a NaN too)."""
    return torch.where(mask.unsqueeze(2), output, 0)


def reversed_resets(resets: Flags, after: Tensor | None = None) -> Flags:
    """The same cuts for a run from the last step to the first: a cut between t-1 and t comes before step t-1.

    Args:
        resets: (batch, time).
        after: (batch,), whether there is a cut after the last step; none if None.
    """
    last = torch.zeros_like(resets[:, :1]) if after is None else after.unsqueeze(1)
    return torch.cat([resets[:, 1:], last], dim=1)


def gaps_between_real_steps(gaps: Gaps, mask: Flags | None, resets: Flags | None, reverse: bool) -> Gaps:
    """The time from the state that a step reads to the step itself.

    Forward, that is its own gap and those of the masked steps before it, since the last real step, cut or beginning.
    Reversed, gaps shift by one: the state comes from the next real step, later by the gaps in between; 1 where there is
    none before the end or a cut.

    Args:
        gaps: (batch, time), from the step before to each step; at the first one, since the state that is passed in.
        mask: True for real steps.
        resets: True at t for a cut between t-1 and t, whatever the direction.
    """
    batch, steps = gaps.shape
    if not reverse and mask is None:
        return gaps
    places = torch.arange(steps, device=gaps.device).expand(batch, steps)
    # Differences of sums in float64: long series lose nothing. clock[t] is the time before the gap of step t.
    clock = pad(gaps.to(torch.float64).cumsum(1), (1, 0))
    if not reverse:
        assert mask is not None
        since = _since(places, mask, resets)[:, :-1]
        return (clock[:, 1:] - clock.gather(1, since)).to(gaps.dtype)
    # Without a mask by a shift: ONNX has no running minimum.
    next_real = places + 1 if mask is None else _next(torch.where(mask, places, steps), steps)
    is_joined = next_real < steps
    if resets is not None:
        is_joined &= next_real < _next(torch.where(resets, places, steps), steps)
    later = clock.gather(1, (next_real + 1).clamp(max=steps))
    return torch.where(is_joined, later - clock[:, 1:], 1).to(gaps.dtype)


def time_after_real_steps(gaps: Gaps, mask: Flags, resets: Flags | None) -> Gaps:
    """The gaps of the masked steps at the end of each row, (batch,): the time since its last real step, its last cut or
    its beginning; arguments as in `gaps_between_real_steps`."""
    places = torch.arange(gaps.shape[1], device=gaps.device).expand_as(gaps)
    clock = pad(gaps.to(torch.float64).cumsum(1), (1, 0))
    since = _since(places, mask, resets)[:, -1:]
    return (clock[:, -1] - clock.gather(1, since)[:, 0]).to(gaps.dtype)


def _since(places: Tensor, mask: Flags, resets: Flags | None) -> Tensor:
    """Where the time that each step reads begins, and that of a step after the last: (batch, time + 1)."""
    since = pad(torch.where(mask, places + 1, 0), (1, 0)).cummax(1).values
    if resets is None:
        return since
    return torch.maximum(since, pad(torch.where(resets, places, 0), (0, 1)).cummax(1).values)


def _next(places: Tensor, none: int) -> Tensor:
    """The smallest of the places after each step."""
    return pad(places[:, 1:], (0, 1), value=none).flip(1).cummin(1).values.flip(1)
