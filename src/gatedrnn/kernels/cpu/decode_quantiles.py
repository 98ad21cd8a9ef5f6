"""Quantiles of forecasts from a mixture of smoothers, and their gradient: what each says is read once, both ways."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from torch import Tensor

from gatedrnn.kernels.cpu.compile import FAST, INLINED, compiled
from gatedrnn.kernels.cpu.functions import ONE, ZERO, exp, log1p, shrinking, sigmoid
from gatedrnn.kernels.cpu.threads import Kernel, share_out, threads_for
from gatedrnn.kernels.cpu.views import block, borrowed, clear, copy, flat, keep_alive, view


def decode(
    mixture: Tensor, offsets: Tensor, correction: Tensor | None, prior: Tensor, typical: Tensor | None,
    said: Sequence[Tensor], change: Tensor, factors: Tensor, bands: Tensor | None, trust: float, middle: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Quantiles, weights of the smoothers, and their mixture; arguments as in `gatedrnn.ops.decode_quantiles`.

    Args:
        said: the arguments of `gatedrnn.ops.decode_quantiles.said_ahead`.
    """
    forecasts, horizon, count = offsets.shape
    quantiles, weights = torch.empty_like(offsets), torch.empty_like(mixture)
    mixed, nothing = offsets.new_empty(forecasts, horizon), offsets.new_empty(0)
    share_out(
        _DECODE, forecasts, threads_for(mixture.numel()), DecodeSizes(horizon, count, *_kinds(said), middle), trust,
        flat(mixture), flat(offsets), flat(nothing if correction is None else correction), flat(prior),
        flat(nothing if typical is None else typical), Said(*map(flat, said)), flat(change), flat(factors),
        flat(nothing if bands is None else bands), flat(quantiles), flat(weights), flat(mixed),
    )  # fmt: skip
    return quantiles, weights, mixed


def decode_gradient(
    upstream: Tensor, offsets: Tensor, said: Sequence[Tensor], change: Tensor, factors: Tensor, bands: Tensor | None,
    weights: Tensor, mixed: Tensor, trust: float, middle: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of mixture, offsets and correction from that of the quantiles."""
    forecasts, horizon, count = offsets.shape
    of_mixture, of_offsets, of_correction = (torch.empty_like(x) for x in (weights, offsets, mixed))
    share_out(
        _GRADIENT, forecasts, threads_for(weights.numel()), DecodeSizes(horizon, count, *_kinds(said), middle), trust,
        flat(upstream.contiguous()), flat(offsets), Said(*map(flat, said)), flat(change), flat(factors),
        flat(mixed.new_empty(0) if bands is None else bands), flat(weights), flat(mixed), flat(of_mixture),
        flat(of_offsets), flat(of_correction),
    )  # fmt: skip
    return of_mixture, of_offsets, of_correction


class DecodeSizes(NamedTuple):
    """The numbers of a call."""

    horizon: int
    levels: int
    smoothers: int
    periods: int
    middle: int


class Said(NamedTuple):
    """Forecasts of smoothers and periods, flat, see `gatedrnn.ops.decode_quantiles.said_ahead`."""

    levels: Any
    slopes: Any
    distances: Any
    seasons: Any
    repeated: Any


def _kinds(said: Sequence[Tensor]) -> tuple[int, int]:
    """The numbers of smoothers and of periods."""
    return said[0].shape[1], said[-1].shape[1]


@numba.njit(**INLINED)
def _ahead(said: Any, sizes: Any, n: int, k: int, into: Any) -> None:
    """Write what one of them says of each step ahead of forecast n."""
    horizon = sizes.horizon
    if k >= sizes.smoothers:
        copy(block(borrowed(said.repeated), n * sizes.periods + k - sizes.smoothers, horizon), into)
        return
    level, slope = said.levels[n * sizes.smoothers + k], said.slopes[n * sizes.smoothers + k]
    distances, seasons = block(borrowed(said.distances), k, horizon), block(borrowed(said.seasons), n, horizon)
    for h in range(horizon):
        into[h] = level + slope * distances[h] + seasons[h]


@compiled(**FAST)
def _decode(
    first: int, last: int, sizes: Any, trust: float, mixture: Any, offsets: Any, correction: Any, prior: Any,
    typical: Any, said: Any, change: Any, factors: Any, bands: Any, quantiles: Any, weights: Any, mixtures: Any,
) -> None:  # fmt: skip
    horizon, levels, middle, kinds = sizes.horizon, sizes.levels, sizes.middle, sizes.smoothers + sizes.periods
    kept = np.empty((6 + levels) * horizon, mixture.dtype)
    memory = borrowed(kept)
    apart = view(memory, 6 * horizon, levels * horizon)
    root, largest, total = block(memory, 0, horizon), block(memory, 1, horizon), block(memory, 2, horizon)
    median, edge, says = block(memory, 3, horizon), block(memory, 4, horizon), block(memory, 5, horizon)
    for h in range(horizon):
        root[h] = math.sqrt(h + 1)
    factor = np.full(1, trust, mixture.dtype)[0]
    mixture, offsets, prior, typical = borrowed(mixture), borrowed(offsets), borrowed(prior), borrowed(typical)
    correction, bands, quantiles = borrowed(correction), borrowed(bands), borrowed(quantiles)
    weights, mixtures = borrowed(weights), borrowed(mixtures)
    for n in range(first, last):
        for k in range(kinds):
            read, to = block(mixture, n * kinds + k, horizon), block(weights, n * kinds + k, horizon)
            start = prior[n * kinds + k]
            for h in range(horizon):
                to[h] = factor * read[h] + start / root[h]
            if typical.size:
                usual = block(typical, k, horizon)
                for h in range(horizon):
                    to[h] += usual[h]
            for h in range(horizon):
                largest[h] = to[h] if k == 0 or to[h] > largest[h] else largest[h]
        for k in range(kinds):
            to = block(weights, n * kinds + k, horizon)
            for h in range(horizon):
                to[h] -= largest[h]
        powers = block(weights, n, kinds * horizon)
        for i in range(
            kinds * horizon
        ):  # of all at once: the end of a vectorised loop costs as much as several vectors
            powers[i] = exp(powers[i])
        mixed = block(mixtures, n, horizon)
        clear(total)
        clear(mixed)
        for k in range(kinds):
            to = block(weights, n * kinds + k, horizon)
            _ahead(said, sizes, n, k, says)
            for h in range(horizon):
                total[h] += to[h]
                mixed[h] += to[h] * says[h]
        for h in range(horizon):
            total[h] = ONE / total[h]
            mixed[h] *= total[h]
            median[h] = mixed[h]
        for k in range(kinds):
            to = block(weights, n * kinds + k, horizon)
            for h in range(horizon):
                to[h] *= total[h]
        if correction.size:
            added = block(correction, n, horizon)
            for h in range(horizon):
                median[h] += added[h]
        unit, given = change[n], block(offsets, n, horizon * levels)
        out = block(quantiles, n, horizon * levels)
        for h in range(horizon):
            median[h] += unit * root[h] * (factor * given[h * levels + middle])
            out[h * levels + middle] = median[h]
        for i in range(levels * horizon):
            learned = factor * given[i] + ONE
            apart[i] = (learned if learned > ZERO else ZERO) + log1p(shrinking(learned))
        if bands.size:
            for i in range(levels * horizon):
                apart[i] *= bands[i]
        for side in (-1, 1):
            copy(median, edge)
            q = middle + side
            while 0 <= q < levels:
                width = unit * factors[n * levels + q] * side
                for h in range(horizon):
                    edge[h] += apart[h * levels + q] * (width * root[h])
                    out[h * levels + q] = edge[h]
                q += side
    keep_alive(kept)


@compiled(**FAST)
def _gradient(
    first: int, last: int, sizes: Any, trust: float, upstream: Any, offsets: Any, said: Any, change: Any, factors: Any,
    bands: Any, weights: Any, mixtures: Any, of_mixture: Any, of_offsets: Any, of_correction: Any,
) -> None:  # fmt: skip
    horizon, levels, middle, kinds = sizes.horizon, sizes.levels, sizes.middle, sizes.smoothers + sizes.periods
    kept = np.empty((3 + levels) * horizon, weights.dtype)
    memory = borrowed(kept)
    root, edge, says = block(memory, 0, horizon), block(memory, 1, horizon), block(memory, 2, horizon)
    steep = view(memory, 3 * horizon, levels * horizon)
    for h in range(horizon):
        root[h] = math.sqrt(h + 1)
    factor = np.full(1, trust, weights.dtype)[0]
    upstream, offsets, bands, weights = borrowed(upstream), borrowed(offsets), borrowed(bands), borrowed(weights)
    mixtures, of_mixture = borrowed(mixtures), borrowed(of_mixture)
    of_offsets, of_correction = borrowed(of_offsets), borrowed(of_correction)
    for n in range(first, last):
        above, given = block(upstream, n, horizon * levels), block(offsets, n, horizon * levels)
        out, of_median, unit = block(of_offsets, n, horizon * levels), block(of_correction, n, horizon), change[n]
        for h in range(horizon):
            of_median[h] = above[h * levels + middle]
        for i in range(levels * horizon):
            steep[i] = sigmoid(factor * given[i] + ONE)
        if bands.size:
            for i in range(levels * horizon):
                steep[i] *= bands[i]
        for side in (-1, 1):
            q = levels - 1 if side > 0 else 0
            clear(edge)
            while q != middle:
                width = unit * factors[n * levels + q] * factor * side
                for h in range(horizon):
                    edge[h] += above[h * levels + q]
                    out[h * levels + q] = steep[h * levels + q] * edge[h] * (width * root[h])
                q -= side
            for h in range(horizon):
                of_median[h] += edge[h]
        for h in range(horizon):
            out[h * levels + middle] = of_median[h] * (unit * root[h] * factor)
        mixed = block(mixtures, n, horizon)
        for k in range(kinds):
            weight, to = block(weights, n * kinds + k, horizon), block(of_mixture, n * kinds + k, horizon)
            _ahead(said, sizes, n, k, says)
            for h in range(horizon):
                to[h] = factor * of_median[h] * weight[h] * (says[h] - mixed[h])
    keep_alive(kept)


_DECODE, _GRADIENT = Kernel.of(_decode), Kernel.of(_gradient)
