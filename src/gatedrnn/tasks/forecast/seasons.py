"""The seasons of a table's series, in steps: from the calendar, and from the values."""

from collections.abc import Sequence

import numpy as np

_MAX_SERIES = 50
"""The most series that are looked at, evenly over a table."""
_MIN_SEASONS = 3
"""A season that is guessed must fit so many times into the training part of the longest series."""
_SIGNIFICANT = 1.645
"""Standard errors of an autocorrelation, by which it must exceed others: one side of 5 %."""
CLEAR, REPEATED = 0.5, 0.4
"""Autocorrelations after one and after two seasons, where no calendar speaks for the season."""
LONGEST = 60
"""Steps of such a season."""
_SHOWN_BY = 1 / 3
"""The share of the series above which a longer season is taken; to the others it does little, since seasons are
shrunk by as much as chance makes of them."""
DAYS = 7
"""The days of a week: such a season is looked for beside one that is found without a calendar."""
_NEARLY = 0.9
"""The fraction of the highest peak from which another counts as equally high."""


def seasons_of(series: Sequence[np.ndarray], usual: Sequence[int]) -> tuple[int, ...]:
    """The seasons of some series, the shortest first; (1,) for none.

    The first that the calendar names is taken as it is, as errors are scaled by it; a longer one where enough series
    show it. Where the calendar names none, one that is clear in most, and seven of it likewise.

    Args:
        series: training parts, (time,) each; NaN where a value is missing.
        usual: seasons of such times, the shortest first; (1,) for none.
    """
    longest = max(map(len, series))
    fitting = [season for season in usual if season == 1 or _MIN_SEASONS * season <= longest]
    if not fitting:
        return (usual[0],) if usual[0] <= longest else (1,)
    looked_at = [series[index] for index in np.unique(np.linspace(0, len(series) - 1, _MAX_SERIES).round().astype(int))]
    if fitting == [1]:
        if (shortest := clear_season(looked_at)) is None:
            return (1,)
        # Numbers of hours are days of 24 and weeks of 168, and nothing but the values says so.
        fitting = [shortest, *([DAYS * shortest] if _MIN_SEASONS * DAYS * shortest <= longest else [])]
    first, *others = fitting
    return (first, *(season for season in others if is_shown(looked_at, season, first)))


def is_shown(series: Sequence[np.ndarray], season: int, shorter: int) -> bool:
    """Whether enough of the series that are long enough are more alike after a season than a shorter season before or
    after it, the shorter season and a line taken out. A test against 0 would see a week in whatever changes slowly."""
    votes = []
    for values in series:
        if len(values) >= _MIN_SEASONS * season:
            correlations = autocorrelations(_without(values, shorter), season + shorter)
            beside = max(correlations[season - shorter], correlations[season + shorter])
            votes.append(correlations[season] - beside > _SIGNIFICANT / np.sqrt(len(values)))
    return bool(votes) and float(np.mean(votes)) > _SHOWN_BY


def clear_season(series: Sequence[np.ndarray]) -> int | None:
    """The lag of the first of the highest peaks of autocorrelation, where it is clear in most series, and once more at
    twice that lag."""
    clear_peaks = []
    for values in series:
        longest = min(LONGEST, len(values) // (_MIN_SEASONS + 1))
        correlations = autocorrelations(_without_line(values), 2 * longest)
        peaks = [
            lag for lag in range(2, longest + 1) if correlations[lag] == correlations[max(1, lag - 2) : lag + 3].max()
        ]
        highest = max((correlations[lag] for lag in peaks), default=0.0)
        best = next(
            (lag for lag in peaks if correlations[lag] >= _NEARLY * highest), 0
        )  # twice a season is a peak as well
        clear = best > 0 and correlations[best] > CLEAR and correlations[2 * best] > REPEATED
        clear_peaks.append(best if clear else 0)
    lags, counts = np.unique(clear_peaks, return_counts=True)
    first = int(lags[counts.argmax()])
    return first if first and counts.max() > len(clear_peaks) / 2 else None


def autocorrelations(values: np.ndarray, most: int) -> np.ndarray:
    """(most + 1,): from lag 0 on, each in the mean of the pairs that there are. Missing values, NaN, are left out; 0
    where all values are equal."""
    there = ~np.isnan(values)
    centred = np.where(there, values - np.nanmean(values), 0.0)
    size = 1 << int(np.ceil(np.log2(2 * len(values))))
    products, pairs = (
        np.fft.irfft(np.square(np.abs(np.fft.rfft(signal, size))), size)
        for signal in (centred, there.astype(np.float64))
    )
    correlations = np.zeros(most + 1)
    lags = np.arange(min(most + 1, len(values)))
    correlations[lags] = products[lags] / np.maximum(pairs[lags], 1)
    return correlations / correlations[0] if correlations[0] > 0 else np.zeros_like(correlations)


def _without(values: np.ndarray, season: int) -> np.ndarray:
    """Values less a line, and less the mean of each phase."""
    rest = _without_line(values)
    padded = np.concatenate([rest, np.full(-len(rest) % season, np.nan)]).reshape(-1, season)
    there = ~np.isnan(padded)
    means = np.where(there, padded, 0.0).sum(0) / np.maximum(there.sum(0), 1)
    return (padded - means).ravel()[: len(values)]


def _without_line(values: np.ndarray) -> np.ndarray:
    times, there = np.arange(len(values)), ~np.isnan(values)
    if there.sum() < 3:
        return values - np.nanmean(values) if there.any() else values
    return values - np.polyval(np.polyfit(times[there], values[there], 1), times)
