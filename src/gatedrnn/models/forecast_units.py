"""The units in which the values of a series are measured, and the naive forecast: the last season again and again."""

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from gatedrnn.models.smoothing import filled, repeated

_MIN_RANGE = 1e-14
"""The range of a window's values, in units of the largest, up to which they differ by no more than rounding."""
LOGGED = 1.05, 1000.0
"""Ratios of the largest value of a window to the smallest, between which its logarithm is read."""
BEYOND = 1.5
"""The logarithm by which a forecast may lie beyond all values of the window: 4.5 times the largest."""
_MIN_POSITIVE = 1e-300


@dataclass
class Scale:
    """The units in which a window's values are measured. Each (batch, 1), float64."""

    mean: Tensor
    deviation: Tensor
    logged: Tensor
    """1 where they are logarithms of the values, of which a growth by a tenth is the same at any level; else 0."""
    low: Tensor
    high: Tensor
    """The upper of the bounds between which they and their forecasts lie; infinite where they are no logarithms."""

    @classmethod
    def of(cls, values: Tensor, fallback: Tensor | float | None = None, *, logs: bool = False) -> "Scale":
        """The scale of the values of a context, (batch, time), as far as they are there.

        Where there is no value at all, the mean is NaN.

        Args:
            values: NaN where one is missing.
            fallback: the deviation where all values are equal, which say nothing of the series' unit; a number, or
                (batch,). If None, their size, or 1 for zeros.
            logs: whether logarithms are taken of positive values that differ neither little nor by many powers of ten.
        """
        seen = ~values.isnan()
        high = torch.where(seen, values, -torch.inf).amax(1, keepdim=True)
        low = torch.where(seen, values, torch.inf).amin(1, keepdim=True)
        low_ratio, high_ratio = LOGGED
        logged = ((low > 0) & (high >= low_ratio * low) & (high <= high_ratio * low)).to(values.dtype) * logs
        # torch.where computes both branches: the clamp keeps the logarithm of an unused value finite.
        transformed = torch.where(logged > 0, values.clamp(min=_MIN_POSITIVE).log(), values)
        count = seen.sum(1, keepdim=True)
        mean = transformed.nan_to_num().sum(1, keepdim=True) / count
        spread = ((transformed - mean).nan_to_num().square().sum(1, keepdim=True) / count).sqrt()
        varies = (high - low > _MIN_RANGE * torch.maximum(high.abs(), low.abs())) & (spread > 0)
        if fallback is None:
            fallback = torch.where(mean.abs() > 0, mean.abs(), 1.0)
        elif isinstance(fallback, Tensor):
            fallback = fallback.to(spread).view(-1, 1)
        bounds = (torch.where(logged > 0, edge.clamp(min=_MIN_POSITIVE).log() + beyond, math.copysign(math.inf, beyond))
                  for edge, beyond in ((low, -BEYOND), (high, BEYOND)))  # fmt: skip
        return cls(mean, torch.where(varies, spread, fallback), logged, *bounds)

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name."""
        return {f"unit_{name}": tensor for name, tensor in vars(self).items()}

    @classmethod
    def of_tensors(cls, tensors: dict[str, Tensor]) -> "Scale":
        """The reverse of `tensors`, among others."""
        return cls(*(tensors[f"unit_{field.name}"] for field in fields(cls)))

    def normalise(self, values: Tensor) -> Tensor:
        """Values (batch, …) in the units of the window, float32."""
        mean, deviation, logged, low, high = self._shaped(values)
        taken = torch.where(logged > 0, values.clamp(min=_MIN_POSITIVE).log(), values)
        # Rounded to float32 after the mean is subtracted: of large values that alone keeps the digits that vary.
        return ((torch.minimum(torch.maximum(taken, low), high) - mean) / deviation).float()

    def denormalise(self, units: Tensor) -> Tensor:
        """The reverse of `normalise`, float64."""
        mean, deviation, logged, low, high = self._shaped(units)
        values = torch.minimum(torch.maximum(mean + deviation * units.double(), low), high)
        # The inner choice keeps e^x finite where it is unused: an infinity there makes the gradient NaN.
        return torch.where(logged > 0, torch.where(logged > 0, values, 0.0).exp(), values)

    def _shaped(self, like: Tensor) -> list[Tensor]:
        added = [1] * (like.ndim - 2)
        return [tensor.view(-1, 1, *added) if added else tensor for tensor in vars(self).values()]


def naive_forecast(past_values: Tensor, season: int, horizon: int) -> Tensor:
    """The last season of windows (batch, time) again and again, (batch, horizon), float64.

    A missing value is that of a season before, or the last one where there is none; NaN before the first.
    """
    nothing = past_values.new_full((len(past_values), season), torch.nan, dtype=torch.float64)
    values = torch.cat([nothing, filled(past_values.double(), nothing)], dim=1)
    return repeated(values, season, horizon, 1)[:, 0]
