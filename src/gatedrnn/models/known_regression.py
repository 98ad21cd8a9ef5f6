"""The effect of known covariates on a series: a piecewise linear curve for each, taken off before smoothers and network
read the values, and added to the forecast again.

The curves are fitted to the training part by a ridge regression with the errors of an airline model: a level and a
season that change slowly are differenced away from values and covariates alike, so that what remains is due to the
covariates and not to a trend or a season that they share. Without a gain on parts that were left out, there are none.

Reference: Findley et al. 1998, Journal of Business & Economic Statistics 16, 127-152 (regression with airline errors).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

KNOTS, ROWS_PER_KNOT = 4, 10
"""The most bends of a curve, at quantiles of its covariate; and the values for each bend of all curves together."""
_MOVING_AVERAGE = 0.9
"""Both parameters of the airline model: of the level and of the season."""
_HALF_LIFE = 0.25
"""The part of a series after which a value counts half: effects change, with the time of year for one."""
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)
"""Penalties of the ridge, in units of the variance of a feature."""
_FOLDS = 5
"""Parts of the time, each left out once."""
_MIN_GAIN = 0.03
"""The share of the mean absolute error that the regression must remove from the parts left out: by chance alone it
removes none, or 1 %."""
MIN_ROWS, MAX_ROWS = 10, 100_000
_DECIMALS = 6
"""Decimals of the weights, so that they do not depend on the unit of the values by rounding."""


class KnownRegression(NamedTuple):
    """The curves of all known covariates together; the fields are those of `known_regression` in a configuration."""

    relative: bool
    """Whether the effect is a factor exp(amount), of positive series; else amount times the series' deviation."""
    knots: list[list[float]]
    """The mean of each covariate, about which it has a slope, then where the slope changes; in its own units."""
    weights: list[list[float]]
    """The slope of each covariate at its mean, then the changes of it."""
    centres: list[float]
    """The mean of each curve in training: a missing covariate has a mean effect."""
    limits: list[float]
    """The least and the largest amount: the range in training and as much again on both sides."""

    def amounts(self, known: Tensor) -> Tensor:
        """The amounts (batch, time), float64, of covariates (batch, time, known_size)."""
        known = known.double()
        total = torch.zeros_like(known[..., 0])
        for column, (knots, weights, centre) in enumerate(zip(self.knots, self.weights, self.centres, strict=True)):
            beyond = known[..., column, None] - known.new_tensor(knots)
            terms = torch.cat([beyond[..., :1], beyond[..., 1:].clamp(min=0)], dim=-1)
            total = total + ((terms * known.new_tensor(weights)).sum(-1) - centre).nan_to_num()
        return total.clamp(*self.limits)


class Effects(NamedTuple):
    """The effects of known covariates on some steps of series, (batch, steps); none without a regression."""

    amounts: Tensor | None = None
    """Logarithms of factors, or terms in the units of the series."""
    relative: bool = False

    def removed(self, values: Tensor) -> Tensor:
        """The values (batch, steps) without the effects."""
        if self.amounts is None:
            return values
        return values * (-self.amounts).exp() if self.relative else values - self.amounts

    def added(self, quantiles: Tensor) -> Tensor:
        """The reverse for quantiles (batch, origins, horizon, quantiles) of the steps after the last origins."""
        if self.amounts is None:
            return quantiles
        ahead = self.amounts[:, -(quantiles.shape[1] + quantiles.shape[2] - 1) :].unfold(1, quantiles.shape[2], 1)
        return quantiles * ahead.exp().unsqueeze(3) if self.relative else quantiles + ahead.unsqueeze(3)

    def of(self, steps: slice) -> "Effects":
        """The effects of some of the steps."""
        return Effects(None if self.amounts is None else self.amounts[:, steps], self.relative)


def effects_of(curves: KnownRegression | None, known: Tensor | None, deviation: Tensor | float) -> Effects:
    """The effects of known covariates, (batch, steps, known_size).

    Args:
        curves: None for none.
        known: NaN where one is missing.
        deviation: of each series as a whole, (batch,), or of all.
    """
    if curves is None or known is None:
        return Effects()
    amounts = curves.amounts(known)
    if not curves.relative:
        amounts = amounts * (deviation.to(amounts).view(-1, 1) if isinstance(deviation, Tensor) else deviation)
    return Effects(amounts, curves.relative)


def fit_known_regression(
    values: Sequence[np.ndarray], known: Sequence[np.ndarray], deviations: np.ndarray, season: int,
    means: np.ndarray, scales: np.ndarray, ratios: tuple[float, float],
) -> KnownRegression | None:  # fmt: skip
    """Fit the curves to training series; None where they remove too little of the error of parts left out.

    Args:
        values: (time,) of each series; NaN where one is missing.
        known: (time, known_size) of each.
        deviations: of each series, (series,).
        season: steps after which a pattern repeats; 1 for none.
        means, scales: of each covariate, (known_size,).
        ratios: of the largest value of a series to its smallest, between which effects are relative if all series are
            positive.
    """
    relative = all(_is_relative(series, *ratios) for series in values)
    scaled = [(columns - means) / scales for columns in known]
    bends = _knot_positions(np.concatenate(scaled), sum(int((~np.isnan(series)).sum()) for series in values))
    parts, rows = [], 0
    # In random order, for MAX_ROWS ends the loop: the rows come from series of all kinds.
    for number in np.random.default_rng(0).permutation(len(values)):
        unit = 1.0 if relative else deviations[number]
        if rows < MAX_ROWS and unit > 0:
            target = np.log(values[number]) if relative else values[number] / unit
            parts.append(_innovations(target, _features(scaled[number], bends), season))
            rows += len(parts[-1][1])
    if rows < MIN_ROWS:
        return None
    folds, counts, targets, features = map(np.concatenate, zip(*parts, strict=True))
    spread = features.std(0)
    # A feature that does not vary gets the weight 0.
    spread = np.where(spread > 1e-9, spread, np.inf)
    weights = _ridge(folds, counts, targets, features / spread)
    if weights is None:
        return None
    return _curves(relative, np.round(weights / spread, _DECIMALS), bends, known, means, scales)


def _is_relative(series: np.ndarray, low: float, high: float) -> bool:
    least, most = np.nanmin(series), np.nanmax(series)
    return bool(least > 0 and low * least <= most <= high * least)


def _knot_positions(scaled: np.ndarray, rows: int) -> list[np.ndarray]:
    """The places at which each curve may bend, in units of its covariate; none for a covariate of few values."""
    count, bends = min(KNOTS, rows // (ROWS_PER_KNOT * scaled.shape[1])), []
    for column in scaled.T:
        seen = column[~np.isnan(column)]
        many = len(np.unique(seen)) > KNOTS + 2
        bends.append(np.unique(np.quantile(seen, np.arange(1, count + 1) / (count + 1))) if many else np.empty(0))
    return bends


def _features(scaled: np.ndarray, bends: Sequence[np.ndarray]) -> np.ndarray:
    """(time, features): each covariate, and how far it is above each of its bends; 0 where one is missing."""
    columns = [
        np.column_stack([column, *(np.maximum(column - bend, 0) for bend in of_column)])
        for column, of_column in zip(scaled.T, bends, strict=True)
    ]
    return np.nan_to_num(np.concatenate(columns, axis=1))


def _innovations(
    target: np.ndarray, features: np.ndarray, season: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The fold of each step, how much it counts, its value and its features, (steps,) and (steps, features): what the
    airline model does not expect of them; missing values, filled by a straight line, are left out afterwards."""
    from scipy.signal import lfilter

    seen = np.flatnonzero(~np.isnan(target))
    steps = slice(seen[0], seen[-1] + 1)
    filled = np.interp(np.arange(seen[0], seen[-1] + 1), seen, target[seen])
    both = np.diff(np.column_stack([filled, features[steps]]), axis=0)
    denominators = [[1, -_MOVING_AVERAGE]]
    if season > 1:
        both = both[season:] - both[:-season]
        denominators.append([1, *[0] * (season - 1), -_MOVING_AVERAGE])
    for denominator in denominators:
        # 1 / (1 - theta B) inverts the moving average: the difference less what its past errors explain.
        both = lfilter([1], denominator, both, axis=0) if len(both) else both
    observed = ~np.isnan(target[steps][-len(both) :]) if len(both) else np.empty(0, bool)
    position = np.arange(len(both)) / max(1, len(both))
    folds, counts = (_FOLDS * position).astype(int), 0.5 ** ((1 - position) / _HALF_LIFE)
    return folds[observed], counts[observed], both[observed, 0], both[observed, 1:]


def _ridge(folds: np.ndarray, counts: np.ndarray, targets: np.ndarray, features: np.ndarray) -> np.ndarray | None:
    """The weights of the penalty with the smallest error on parts left out; None where none is small enough."""
    size, rows, counted = features.shape[1], np.bincount(folds, counts, _FOLDS), features * counts[:, None]
    products = np.stack([counted[folds == fold].T @ features[folds == fold] for fold in range(_FOLDS)])
    sums = np.stack([counted[folds == fold].T @ targets[folds == fold] for fold in range(_FOLDS)])

    def solved(chosen: np.ndarray, penalty: float) -> np.ndarray:
        # Times the rows: a penalty means the same for short and for long series.
        ridge = products[chosen].sum(0) + penalty * rows[chosen].sum() * np.eye(size)
        return np.asarray(np.linalg.solve(ridge, sums[chosen].sum(0)))

    def error(penalty: float) -> float:
        weights = np.stack([solved(np.arange(_FOLDS) != fold, penalty) for fold in range(_FOLDS)])
        return float((counts * np.abs(targets - (features * weights[folds]).sum(1))).sum())

    errors = [error(penalty) for penalty in PENALTIES]
    if min(errors) > (1 - _MIN_GAIN) * (counts * np.abs(targets)).sum():
        return None
    return solved(np.arange(_FOLDS) >= 0, PENALTIES[int(np.argmin(errors))])


def _curves(
    relative: bool, flat: np.ndarray, bends: Sequence[np.ndarray], known: Sequence[np.ndarray], means: np.ndarray,
    scales: np.ndarray,
) -> KnownRegression:  # fmt: skip
    """The curves in the units of the covariates, from weights in units of their scales."""
    split = np.split(flat, np.cumsum([1 + len(bend) for bend in bends])[:-1])
    knots = [[mean, *(mean + scale * bend)] for mean, scale, bend in zip(means, scales, bends, strict=True)]
    weights = [(part / scale).tolist() for part, scale in zip(split, scales, strict=True)]
    columns = torch.from_numpy(np.concatenate(known))
    open_ended = [-np.inf, np.inf]
    centres = []
    for column in range(len(means)):
        curve = KnownRegression(relative, [knots[column]], [weights[column]], [0.0], open_ended)
        observed = ~columns[:, column].isnan()
        centres.append(float(curve.amounts(columns[observed][:, None, column, None]).mean()) if observed.any() else 0.0)
    curves = KnownRegression(relative, knots, weights, centres, open_ended)
    amounts = curves.amounts(columns[None])
    low, high = float(amounts.min()), float(amounts.max())
    return curves._replace(
        knots=[[float(knot) for knot in column] for column in knots], limits=[2 * low - high, 2 * high - low]
    )
