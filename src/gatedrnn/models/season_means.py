"""The seasonal component of a series at each of its steps: a discounted mean at each of its phases, shrunk by its
error.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d, pad

from gatedrnn.models.constants import constant

_FORGETTING = 0.95
"""The factor by which a season counts less than the next one."""
SEASON_STEPS = 8
"""Steps ahead whose season is an input."""
TINY = 1e-6


@dataclass
class SeasonPast:
    """One season of some series up to a step. By phase: that of the next step first."""

    values: Tensor
    """(batch, 2 · half): the last values without shorter seasons."""
    begun: Tensor
    """(batch, 2 · half), 1 from the first value on."""
    sums: Tensor
    """(batch, 3, season), discounted: of what exceeded the moving mean, of 1, and of squares."""
    totals: Tensor
    """(batch, 5), over phases: count, squares about their means, squares of means, means, phases seen."""

    @classmethod
    def empty(cls, like: Tensor, season: int) -> "SeasonPast":
        """The past before the first step of series such as (batch, time)."""
        recent = 2 * (season // 2)
        return cls(*(like.new_zeros(like.shape[0], *size) for size in ((recent,), (recent,), (3, season), (5,))))


def season_of(
    values: Tensor, begun: Tensor, season: int, past: SeasonPast, horizon: int, origins: int
) -> tuple[Tensor, Tensor, Tensor, SeasonPast]:  # fmt: skip
    """The seasonal component of each step, (batch, time), to the horizon of the last of them, and to the first steps
    after each: at each phase, the discounted mean of what values exceed the moving mean of a whole season around them
    by.

    All of it is shrunk towards 0 by what chance makes of such means (James and Stein), and 0 until each phase was seen.
    """
    half, time = season // 2, values.shape[1]
    with_past, started = torch.cat([past.values, values], 1), torch.cat([past.begun, begun], 1)
    moving = avg_pool1d(with_past.unsqueeze(1), season, 1)[:, 0]
    if season % 2 == 0:  # as many steps before as after
        moving = (moving[:, 1:] + moving[:, :-1]) / 2
    counted = started[:, :time] * started[:, half : half + time]  # a series that has begun does not end
    excess = (with_past[:, half : half + time] - moving) * counted
    by_phase = _by_phase(torch.stack([excess, counted, excess.square()], 1), past.sums)
    sums, counts, squares = by_phase.unbind(1)
    means = sums / counts.clamp(min=TINY)
    squared, seen = means.square(), (counts > 0).to(values.dtype)
    of_phases = torch.stack([counts, squares - counts * squared, squared, means, seen], 2)
    # A phase changes when it comes again alone, so that totals change by what it is and what it was.
    totals = (of_phases[:, season:] - of_phases[:, :time]).cumsum(1) + past.totals.unsqueeze(1)
    count, within, of_means, mean, phases = totals.unbind(2)
    centre = mean / season
    spread = (of_means - season * centre.square()).clamp(min=TINY**2)
    error = within.clamp(min=0) / (count - season).clamp(min=1) / (count / season).clamp(min=1)
    # season - 3: the factor of James and Stein for means that are shrunk towards their own mean.
    factor = torch.where(count > season, (1 - max(season - 3, 1) * error / spread).clamp(0, 1), 0.5)
    # Half a phase of tolerance: the count is a sum in float32.
    factor, centre = (factor * (phases > season - 0.5)).unsqueeze(2), centre.unsqueeze(2)
    phases_after = means[:, 1:].unfold(1, season, 1)  # (batch, time, season): after each step, the oldest first

    def of_steps_ahead(count: int, steps: int) -> Tensor:
        """(batch, the last `steps`, count): of the steps from the next one on."""
        ahead = phases_after[:, -steps:].index_select(2, constant(_phases_ahead, values, season, count))
        return (ahead - centre[:, -steps:]) * factor[:, -steps:]

    after = SeasonPast(with_past[:, time:], started[:, time:], by_phase[..., time:], totals[:, -1])
    current = (phases_after[..., half - 1 : half] - centre) * factor
    return current.squeeze(2), of_steps_ahead(horizon, origins), of_steps_ahead(min(horizon, SEASON_STEPS), time), after


def _by_phase(new: Tensor, before: Tensor) -> Tensor:
    """(batch, sums, season + time): discounted sums at the phase of each step, after it; first those before all."""
    season, time = before.shape[2], new.shape[2]
    cycles, width = -(-time // season), min(season, time)
    # Those of a stream are kept alone: windows come in many lengths.
    discounts = constant(_discounts, new, 1) if cycles == 1 else _discounts(new.device, cycles)
    padded = pad(new, (0, cycles * width - time)).unflatten(2, (cycles, width))
    running = discounts @ padded + (_FORGETTING * discounts[:, :1]) * before[:, :, None, :width]
    return torch.cat([before, running.flatten(2)[..., :time]], 2)


def _discounts(device: torch.device, cycles: int) -> Tensor:
    """(cycles, cycles), lower triangular: how much a cycle counts in a later one."""
    age = torch.arange(cycles, device=device)
    return (_FORGETTING ** (age[:, None] - age).clamp(min=0)).tril()


def _phases_ahead(device: torch.device, season: int, count: int) -> Tensor:
    """(count,): where the phases of the next steps are among the means of the last season, which lag by half of one."""
    return (season // 2 + torch.arange(count, device=device)) % season
