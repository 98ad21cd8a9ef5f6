"""What a window of values is measured in, its seasons, and the naive forecast: the last season again and again."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

LEAST_RANGE = 1e-14
"""Of a window's values in units of the largest, up to which they differ by no more than rounding."""


@dataclass
class Scale:
    """Of a window: what its values are measured in. Each (batch, 1), float64."""

    mean: Tensor
    deviation: Tensor

    @classmethod
    def of(cls, values: Tensor, usual: Tensor | float | None = None) -> "Scale":
        """Of the values of a context, (batch, time), those that are there.

        Where there is no value at all, the mean is NaN.

        Args:
            values: NaN where one is missing.
            usual: the deviation where all values are equal, which say nothing of the series' unit; a number, or
                (batch,). If None, their size, or 1 for zeros.
        """
        seen = ~values.isnan()
        count = seen.sum(1, keepdim=True)
        mean = values.nan_to_num().sum(1, keepdim=True) / count
        spread = ((values - mean).nan_to_num().square().sum(1, keepdim=True) / count).sqrt()
        high = torch.where(seen, values, -torch.inf).amax(1, keepdim=True)
        low = torch.where(seen, values, torch.inf).amin(1, keepdim=True)
        varies = (high - low > LEAST_RANGE * torch.maximum(high.abs(), low.abs())) & (spread > 0)
        if usual is None:
            usual = torch.where(mean.abs() > 0, mean.abs(), 1.0)
        elif isinstance(usual, Tensor):
            usual = usual.to(spread).view(-1, 1)
        return cls(mean, torch.where(varies, spread, usual))

    def units(self, values: Tensor) -> Tensor:
        """Values (batch, …) in the units of the window, float32."""
        mean, deviation = self.mean, self.deviation
        if values.ndim != 2:
            mean, deviation = (t.view(-1, *[1] * (values.ndim - 1)) for t in (mean, deviation))
        return ((values - mean) / deviation).float()

    def original(self, units: Tensor) -> Tensor:
        """The reverse of `units`, float64."""
        mean, deviation = (t.view(-1, *[1] * (units.ndim - 1)) for t in (self.mean, self.deviation))
        return mean + deviation * units.double()


def last_seasons(units: Tensor, season: int) -> Tensor:
    """Values (batch, time) in which a missing one is that of a season before, or 0, the mean, if there is none.

    Args:
        units: (batch, time), NaN where a value is missing.
        season: in steps.
    """
    batch, time = units.shape
    padded = nn.functional.pad(units, (-time % season, 0), value=float("nan")).view(batch, -1, season)
    cycles = torch.arange(padded.shape[1], device=units.device)[:, None]
    latest = _running_maximum(torch.where(padded.isnan(), -1, cycles))
    filled = padded.gather(1, latest.clamp(min=0)).nan_to_num()
    return filled.view(batch, -1)[:, -time:]


def _running_maximum(numbers: Tensor) -> Tensor:
    """Along axis 1 of (batch, count, …). ONNX has no operator for it, so that a graph compares all pairs."""
    if not torch.compiler.is_exporting():
        return numbers.cummax(1).values
    count = numbers.shape[1]
    later = torch.ones(count, count, dtype=torch.bool, device=numbers.device).triu(1)[None, :, :, None]
    return numbers.unsqueeze(1).masked_fill(later, -1).amax(2)


def last_steps(values: Tensor, steps: int, origins: int) -> Tensor:
    """(batch, origins, steps): the last steps before each of the last origins; 0 where there is none."""
    needed = steps + origins - 1
    padded = nn.functional.pad(values, (max(0, needed - values.shape[1]), 0))
    if not steps:
        return values[:, :0].unsqueeze(1).expand(-1, origins, -1)
    return padded[:, padded.shape[1] - needed :].unfold(1, steps, 1)


def repeated(season: Tensor, horizon: int) -> Tensor:
    """(…, season) to (…, horizon): the season again and again."""
    times = -(-horizon // season.shape[-1])
    return season.repeat(*[1] * (season.ndim - 1), times)[..., :horizon]


def naive_forecast(past_values: Tensor, season: int, horizon: int) -> Tensor:
    """The last season of windows (batch, time) again and again, (batch, horizon), float64.

    A missing value is that of a season before, or the window's mean where there is none.
    """
    values = past_values.double()
    scale = Scale.of(values)
    filled = last_seasons(scale.units(values), season)
    return scale.original(repeated(last_steps(filled, season, 1)[:, 0], horizon))
