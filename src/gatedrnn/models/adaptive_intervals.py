"""Intervals of a stream that its own errors widen and narrow, so that in the long run they hold what they say.

A quantile that a value lies beyond moves away from the median, and one that it does not lie beyond moves nearer, by
steps whose sum is 0 where the share of values beyond it is its own: adaptive conformal inference (Gibbs and Candès
2021, arXiv:2106.00170). Its step is taken on the logarithm of a distance, not on the level, as quantile tracking takes
it on the distance (Angelopoulos et al. 2023, arXiv:2307.16895): no interval becomes infinite, and units do not matter.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

_MIN_LOG_WIDTH = math.log(0.2)
"""The least of `widths`: a series that stands still narrows its intervals no further; they would take as long to widen
again."""


@dataclass
class AdaptiveIntervals:
    """The amounts by which the intervals of some series were moved."""

    rate: Tensor
    """(batch, 1): a step, of the logarithm of a distance, that a value beyond a quantile of level 0 would make."""
    widths: Tensor
    """(batch, quantiles): the logarithms of the factors of distances between neighbouring quantiles, as `bands` of the
    configuration; the median's unused."""

    @classmethod
    def start(cls, rate: float, batch: int, levels: Sequence[float], device: torch.device) -> "AdaptiveIntervals":
        """Intervals as the model gives them.

        Raises:
            ValueError: the rate is not above 0.
        """
        if not 0 < rate < math.inf:
            raise ValueError(f"adapt must be above 0, such as 0.05, or None for intervals as they are; got {rate}")
        rates = torch.full((batch, 1), rate, device=device)
        return cls(rates, torch.zeros(batch, len(levels), device=device))

    @property
    def factors(self) -> Tensor:
        """(batch, quantiles), of the distances between neighbouring quantiles."""
        return self.widths.exp()

    def after(self, values: Tensor, quantiles: Tensor, levels: Sequence[float]) -> "AdaptiveIntervals":
        """The intervals after a value of each series.

        Args:
            values: (batch, 1), in any unit; NaN, where one is missing, moves nothing.
            quantiles: (batch, quantiles), in the same unit: what was forecast for these values.
            levels: of the quantiles, 0.5 among them.
        """
        level = torch.tensor(levels, device=values.device)
        exceeded = torch.where(level < 0.5, values < quantiles, values > quantiles).float()
        step = (self.rate * (exceeded - torch.minimum(level, 1 - level))).masked_fill(values.isnan(), 0.0)
        return AdaptiveIntervals(self.rate, (self.widths + step).clamp(min=_MIN_LOG_WIDTH))

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name."""
        return {f"intervals_{name}": tensor for name, tensor in vars(self).items()}

    @classmethod
    def of_tensors(cls, tensors: dict[str, Tensor]) -> "AdaptiveIntervals | None":
        """The reverse of `tensors`, among others; None where there are none."""
        names = [f"intervals_{field.name}" for field in fields(cls)]
        return cls(*(tensors[name] for name in names)) if names[0] in tensors else None
