"""Quantiles of a forecast from what simple smoothers say of each step ahead and what a network adds, and their loss."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from gatedrnn.kernels.backends import values_unknown
from gatedrnn.shapes import Flags

WIDTH = 1.0
"""The initial width of intervals: softplus(1), 1.31, mean changes of the series on either side of the median, times the
root of the steps ahead: 80 % of a random walk."""


def decode_quantiles(
    logits: Tensor, said: Tensor, correction: Tensor | None, offsets: Tensor, unit: Tensor, factors: Tensor, middle: int
) -> Tensor:  # fmt: skip
    """Return the quantiles (forecasts, horizon, quantiles) of each step ahead, rising.

    The median is a mixture of what each smoother says, whose weights are softmax(logits), plus a correction and the
    offset of the median, in the unit. Other quantiles are distances from it that add up, softplus(offset + 1) · factor,
    in the unit.

    Args:
        logits, said: (forecasts, smoothers + periods, horizon).
        correction: (forecasts, horizon), or None.
        offsets: (forecasts, horizon, quantiles).
        unit: of each step ahead, (forecasts, horizon, 1).
        factors: of the distances between quantiles, broadcast with the offsets; that of the median has no meaning.
        middle: the index of the median among the quantiles.

    Example:
        >>> alone, zeros = torch.zeros(1, 1, 2), torch.zeros(1, 2, 3)
        >>> decode_quantiles(alone, alone + 5, None, zeros, torch.ones(1, 2, 1), torch.ones(3), 1)[0, 0]
        tensor([3.6867, 5.0000, 6.3133])
    """
    mixed = (logits.softmax(1) * said).sum(1)
    centre = (mixed if correction is None else mixed + correction).unsqueeze(2)
    edges = [torch.addcmul(centre, unit, offsets[..., middle, None])]
    apart = softplus(offsets + WIDTH) * (unit * factors)
    for q in range(middle - 1, -1, -1):
        edges.insert(0, edges[0] - apart[..., q, None])
    for q in range(middle + 1, offsets.shape[2]):
        edges.append(edges[-1] + apart[..., q, None])
    return torch.cat(edges, dim=-1)


def pinball_loss(
    forecast: Tensor, scale: Tensor, future: Tensor, unit: Tensor, levels: Tensor, counted: Flags | None = None
) -> Tensor:  # fmt: skip
    """Return the mean over labels and levels of max(level · error, (level - 1) · error), error = (label - quantile) /
    unit, with quantiles taken from a window's own units to those of its series.

    Errors are formed from the distance to the window's centre, which loses no digit where values are large.

    Args:
        forecast: quantiles in the units of their windows, (batch, origins, horizon, levels).
        scale: of each window, (batch, 5), float64: the mean and the deviation, whether they are of logarithms (1 or 0),
            and the lowest and highest logarithm of a forecast, infinite where there are none.
        future: the labels of all origins, (batch, origins + horizon - 1), float64: those of the first origin, and one
            more for each further one. NaN where there is none.
        unit: (batch,), float64.
        levels: (levels,), between 0 and 1.
        counted: origins whose labels count, bool, (batch, origins); None for all.

    Example:
        >>> forecast, levels = torch.tensor([[[[1.0, 3.0]]]]), torch.tensor([0.1, 0.9])
        >>> scale = torch.tensor([[0.0, 1.0, 0.0, -torch.inf, torch.inf]]).double()
        >>> pinball_loss(forecast, scale, torch.tensor([[2.0]]).double(), torch.ones(1).double(), levels)
        tensor(0.1000)
    """
    forecast = forecast.to(torch.promote_types(forecast.dtype, torch.float32))
    mean, deviation, logged, low, high = (each.view(-1, 1, 1) for each in scale.unbind(1))
    centre, unit = torch.where(logged > 0, mean.exp(), mean), unit.view(-1, 1, 1)
    true = future.unfold(1, forecast.shape[2], 1)
    factor = torch.where(logged > 0, centre, deviation) / unit
    distance, factor, deviation, below, above = (
        each.to(forecast.dtype).unsqueeze(3)
        # A deviation of 0 where the formula of logarithms does not hold: e^x may be infinite there, and its slope NaN.
        for each in ((true - centre) / unit, factor, torch.where(logged > 0, deviation, 0), low - mean, high - mean)
    )
    if values_unknown() or (logged > 0).any():  # that formula costs as much as all the rest
        moved = (deviation * forecast).clamp(below, above).expm1()
        forecast = torch.where(logged.unsqueeze(3) > 0, moved, forecast)
    labelled = ~true.isnan() if counted is None else ~true.isnan() & counted.unsqueeze(2)
    error = torch.addcmul(distance, factor, forecast, value=-1).masked_fill(~labelled.unsqueeze(3), 0.0)
    # The slope of the loss is a constant for the gradient: level or level - 1, and their mean where the error is 0.
    slope = torch.add(levels.to(error.dtype) - 0.5, error.detach().sign(), alpha=0.5)
    return (slope * error).sum() / (labelled.sum() * len(levels)).clamp(min=1)
