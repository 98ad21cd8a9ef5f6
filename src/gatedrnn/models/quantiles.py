"""Quantiles of a forecast from their median and the distances between them."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

WIDTH = 1.0
"""The initial width of intervals: softplus(1), 1.31, mean changes of the series on either side of the median, times the
root of the steps ahead: 80 % of a random walk."""


def decode_quantiles(centre: Tensor, offsets: Tensor, unit: Tensor, factors: Tensor, middle: int) -> Tensor:
    """Return the quantiles (forecasts, horizon, quantiles) of each step ahead, rising.

    The median is the centre plus its offset, in the unit. Other quantiles are distances from it that add up,
    softplus(offset + 1) · factor, in the unit.

    Args:
        centre: (forecasts, horizon).
        offsets: (forecasts, horizon, quantiles).
        unit: of each step ahead, (forecasts, horizon, 1).
        factors: of the distances between quantiles, broadcast with the offsets; that of the median has no meaning.
        middle: the index of the median among the quantiles.

    Example:
        >>> decode_quantiles(torch.full((1, 1), 5.0), torch.zeros(1, 1, 3), torch.ones(1, 1, 1), torch.ones(3), 1)
        tensor([[[3.6867, 5.0000, 6.3133]]])
    """
    edges = [torch.addcmul(centre.unsqueeze(2), unit, offsets[..., middle, None])]
    # Distances are positive, so that quantiles never cross.
    apart = softplus(offsets + WIDTH) * (unit * factors)
    for q in range(middle - 1, -1, -1):
        edges.insert(0, edges[0] - apart[..., q, None])
    for q in range(middle + 1, offsets.shape[2]):
        edges.append(edges[-1] + apart[..., q, None])
    return torch.cat(edges, dim=-1)
