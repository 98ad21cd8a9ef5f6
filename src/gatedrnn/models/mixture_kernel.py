"""The kernel of `models.mixture` for a CPU: what each smoother says is computed where it is read, in both passes."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from torch import Tensor

from gatedrnn.kernels.cpu.compile import FAST, INLINED, compiled
from gatedrnn.kernels.cpu.functions import ONE, exp
from gatedrnn.kernels.cpu.threads import Kernel, parallel_for, threads_for
from gatedrnn.kernels.cpu.views import block, borrowed, clear, copy, flat, keep_alive


class ForecastTerms(NamedTuple):
    """The forecasts of smoothers and seasons, flat, and their numbers; see `smoothing.smoother_forecasts`."""

    smoothers: int
    periods: int
    horizon: int
    levels: Any
    slopes: Any
    distances: Any
    seasons: Any
    repeated: Any


def mix(learned: Tensor, prior: Tensor, usual: Tensor | None, terms: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the mixture, (forecasts, horizon), and the weights of all in it, in the shape of the logits.

    Args:
        learned, prior, usual: as in `models.mixture.Mixture`.
        terms: the arguments of `smoothing.smoother_forecasts`.
    """
    mixed, weights = torch.empty_like(terms[3]), torch.empty_like(learned)
    parallel_for(
        _MIX, len(mixed), threads_for(weights.numel()), _flat(terms), flat(learned), flat(prior),
        flat(mixed.new_empty(0) if usual is None else usual), flat(mixed), flat(weights),
    )  # fmt: skip
    return mixed, weights


def mix_gradient(upstream: Tensor, mixed: Tensor, weights: Tensor, terms: Sequence[Tensor]) -> Tensor:
    """Return the gradient of the learned logits from that of the mixture."""
    found = torch.empty_like(weights)
    parallel_for(
        _GRADIENT, len(mixed), threads_for(found.numel()), _flat(terms), flat(upstream), flat(mixed), flat(weights),
        flat(found),
    )  # fmt: skip
    return found


def _flat(terms: Sequence[Tensor]) -> ForecastTerms:
    levels, _, _, seasons, repeated = terms
    return ForecastTerms(levels.shape[1], repeated.shape[1], seasons.shape[1], *map(flat, terms))


@numba.njit(**INLINED)
def _forecast_of(terms: Any, n: int, k: int, into: Any) -> None:
    """Write what one of them says of each step ahead of forecast n."""
    horizon = terms.horizon
    if k >= terms.smoothers:
        copy(block(borrowed(terms.repeated), n * terms.periods + k - terms.smoothers, horizon), into)
        return
    level, slope = terms.levels[n * terms.smoothers + k], terms.slopes[n * terms.smoothers + k]
    distances, seasons = block(borrowed(terms.distances), k, horizon), block(borrowed(terms.seasons), n, horizon)
    for h in range(horizon):
        into[h] = level + slope * distances[h] + seasons[h]


@compiled(**FAST)
def _mix(first: int, last: int, terms: Any, learned: Any, prior: Any, usual: Any, mixed: Any, weights: Any) -> None:
    horizon, kinds = terms.horizon, terms.smoothers + terms.periods
    buffer = np.empty(4 * horizon, learned.dtype)
    memory = borrowed(buffer)
    damped, largest = block(memory, 0, horizon), block(memory, 1, horizon)
    total, forecast = block(memory, 2, horizon), block(memory, 3, horizon)
    for h in range(horizon):
        damped[h] = 1 / math.sqrt(h + 1)
    learned, prior, usual = borrowed(learned), borrowed(prior), borrowed(usual)
    mixed, weights = borrowed(mixed), borrowed(weights)
    for n in range(first, last):
        for k in range(kinds):
            read, to = block(learned, n * kinds + k, horizon), block(weights, n * kinds + k, horizon)
            start = prior[n * kinds + k]
            for h in range(horizon):
                to[h] = read[h] + start * damped[h]
            if usual.size:
                added = block(usual, k, horizon)
                for h in range(horizon):
                    to[h] += added[h]
            for h in range(horizon):
                # The largest logit is subtracted, so that no power overflows.
                largest[h] = to[h] if k == 0 or to[h] > largest[h] else largest[h]
        for k in range(kinds):
            to = block(weights, n * kinds + k, horizon)
            for h in range(horizon):
                to[h] -= largest[h]
        # Of all at once: the end of a vectorised loop costs as much as several vectors.
        powers = block(weights, n, kinds * horizon)
        for i in range(kinds * horizon):
            powers[i] = exp(powers[i])
        result = block(mixed, n, horizon)
        clear(total)
        clear(result)
        for k in range(kinds):
            to = block(weights, n * kinds + k, horizon)
            _forecast_of(terms, n, k, forecast)
            for h in range(horizon):
                total[h] += to[h]
                result[h] += to[h] * forecast[h]
        for h in range(horizon):
            # One division a step instead of one for each weight.
            total[h] = ONE / total[h]
            result[h] *= total[h]
        for k in range(kinds):
            to = block(weights, n * kinds + k, horizon)
            for h in range(horizon):
                to[h] *= total[h]
    keep_alive(buffer)


@compiled(**FAST)
def _gradient(first: int, last: int, terms: Any, upstream: Any, mixed: Any, weights: Any, found: Any) -> None:
    horizon, kinds = terms.horizon, terms.smoothers + terms.periods
    buffer = np.empty(horizon, weights.dtype)
    forecast = block(borrowed(buffer), 0, horizon)
    upstream, mixed, weights, found = borrowed(upstream), borrowed(mixed), borrowed(weights), borrowed(found)
    for n in range(first, last):
        grad_mixed, result = block(upstream, n, horizon), block(mixed, n, horizon)
        for k in range(kinds):
            weight, to = block(weights, n * kinds + k, horizon), block(found, n * kinds + k, horizon)
            _forecast_of(terms, n, k, forecast)
            for h in range(horizon):
                to[h] = grad_mixed[h] * weight[h] * (forecast[h] - result[h])
    keep_alive(buffer)


_MIX, _GRADIENT = Kernel.of(_mix), Kernel.of(_gradient)
