"""The kernel of `models.pinball` for a CPU: the loss and its gradient, each number read once."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gatedrnn.kernels.cpu.compile import FAST, compiled
from gatedrnn.kernels.cpu.functions import HALF, ONE, ZERO, expm1
from gatedrnn.kernels.cpu.threads import Kernel, parallel_for, threads_for
from gatedrnn.kernels.cpu.views import block, borrowed, clear, copy, flags, flat, keep_alive, view
from gatedrnn.shapes import Flags


def pinball(
    forecast: Tensor, scale: Tensor, future: Tensor, unit: Tensor, levels: Tensor, counted: Flags | None,
    differentiated: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the loss and its gradient, empty unless `differentiated`; other arguments as in `models.pinball`."""
    _, origins, horizon, count = forecast.shape
    sums, labelled = forecast.new_empty(forecast.shape[:2]), torch.empty(forecast.shape[:2], dtype=torch.int64)
    gradient = torch.empty_like(forecast) if differentiated else forecast.new_empty(0)
    windows = Windows(
        origins, horizon, count, flat(scale.contiguous()), flat(future.contiguous()), flat(unit.contiguous()),
        flat(levels.contiguous()), flags(counted),
    )  # fmt: skip
    parallel_for(
        _PINBALL, len(forecast), threads_for(forecast.numel()), windows, flat(forecast), flat(sums),
        flat(labelled), flat(gradient),
    )  # fmt: skip
    divisor = (labelled.sum() * count).clamp(min=1)
    return sums.sum() / divisor, gradient.div_(divisor)


class Windows(NamedTuple):
    """The sizes of a call, and what is read beside the forecast, flat; see `models.pinball.pinball_loss`."""

    origins: int
    horizon: int
    quantiles: int
    scale: Any
    future: Any
    unit: Any
    levels: Any
    counted: Any


@compiled(**FAST)
def _pinball(first: int, last: int, windows: Any, forecast: Any, sums: Any, labelled: Any, gradient: Any) -> None:
    origins, horizon, count, scale, future, unit, levels, counted = windows
    size = horizon * count
    buffer = np.empty(2 * (horizon + size), forecast.dtype)
    memory, narrow = borrowed(buffer), np.empty(4, forecast.dtype)
    distance, total = block(memory, 0, horizon), block(memory, 1, horizon)
    moved, slope = view(memory, 2 * horizon, size), view(memory, 2 * horizon + size, size)
    forecast, future, gradient = borrowed(forecast), borrowed(future), borrowed(gradient)
    for b in range(first, last):
        mean, spread, logged = scale[5 * b], scale[5 * b + 1], scale[5 * b + 2] > 0.0
        centre = math.exp(mean) if logged else mean
        narrow[0], narrow[1] = (centre if logged else spread) / unit[b], spread
        narrow[2], narrow[3] = scale[5 * b + 3] - mean, scale[5 * b + 4] - mean
        # Through memory of the forecast's dtype: numbers of float64 would widen the inner loops.
        factor, deviation, below, above = narrow[0], narrow[1], narrow[2], narrow[3]
        for o in range(origins):
            n, labels = b * origins + o, 0
            is_counted = counted.size == 0 or counted[n]
            for h in range(horizon):
                label = future[b * (origins + horizon - 1) + o + h]
                labels += 1 if is_counted and label == label else 0
                distance[h] = (label - centre) / unit[b] if is_counted else math.nan
            labelled[n] = labels
            clear(total)
            read, to = block(forecast, n, size), block(gradient, n, size)
            if logged:
                for i in range(size):
                    log = deviation * read[i]
                    inside = (log >= below) & (log <= above)
                    log = below if log < below else (above if log > above else log)
                    moved[i] = expm1(log)
                    slope[i] = factor * deviation * (moved[i] + ONE) if inside else ZERO
            else:
                for i in range(size):
                    moved[i], slope[i] = read[i], factor
            for q in range(count):
                level = levels[q]
                for h in range(horizon):
                    i = h * count + q
                    error = distance[h] - factor * moved[i]
                    # At an error of 0 torch's maximum gives half the gradient to either branch: level - 1/2.
                    slope_of_error = level if error > ZERO else (level - ONE if error < ZERO else level - HALF)
                    known = distance[h] == distance[h]
                    total[h] += slope_of_error * error if known else ZERO
                    slope[i] *= -slope_of_error if known else ZERO
            if gradient.size:
                copy(slope, to)
            sums[n] = ZERO
            for h in range(horizon):
                sums[n] += total[h]
    keep_alive(buffer)


_PINBALL = Kernel.of(_pinball)
