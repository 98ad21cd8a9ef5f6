"""Windows of series, and the units in which they are scaled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import torch

from gatedrnn.data.batches import Batch
from gatedrnn.errors import DataError
from gatedrnn.tables.times import TimeForm

ROUNDING = 1e-14
"""Values that differ by no more, in units of the largest, are equal but for rounding."""
FLOAT32 = float(np.finfo(np.float32).max)
NEVER_VARIES = 1e300
"""The deviation of a channel of equal values: whatever it holds later is read as 0, in any unit."""


def scale_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each column of values (rows, columns); NaN is left out.

    The mean of a column without any is NaN. The deviation is `NEVER_VARIES` where all are equal.
    """
    seen = ~np.isnan(values)
    count = np.where(seen.any(0), seen.sum(0), np.nan)
    largest = np.where(seen.any(0), np.where(seen, values, -np.inf).max(0, initial=-np.inf), 0.0)
    # Sums of what is left after one of the values is subtracted lose no digits to a large mean.
    off = np.where(seen, values - largest, 0.0)
    rest = off.sum(0) / count
    unit = _power(np.where(seen, off - rest, 0.0))
    spread = unit * np.sqrt(np.where(seen, np.square((off - rest) / unit), 0.0).sum(0) / count)
    return largest + rest, np.where(varies(values) & (spread > 0), spread, NEVER_VARIES)


def first_beyond(values: np.ndarray, means: Sequence[float], deviations: Sequence[float]) -> tuple[int, int] | None:
    """Row and column of the first of some values (rows, columns) that float32 cannot hold in units of its column's
    deviation; None if there is none."""
    beyond = np.abs(values / deviations - np.divide(means, deviations)) > FLOAT32
    return tuple(map(int, np.argwhere(beyond)[0])) if beyond.any() else None  # type: ignore[return-value]


def deviation_of(values: np.ndarray) -> float:
    """The standard deviation of values (count,), NaN left out; 0 where all are equal, or none is there."""
    unit = _power(np.nan_to_num(values))
    return float(np.nanstd(values / unit) * unit) if varies(values) else 0.0


def _power(values: np.ndarray) -> np.ndarray:
    """The power of 2 for each column in units of which the largest is about 1, so that no square is too small or large
    for 64 bits, and no digit changes.
    """
    exponent = np.frexp(np.abs(values).max(0, initial=0.0))[1]
    power: np.ndarray = np.ldexp(1.0, np.clip(exponent, -1021, 1021))
    return power


def varies(values: np.ndarray) -> np.ndarray:
    """Whether the values of each column (rows, …) differ by more than rounding; NaN is left out."""
    seen = ~np.isnan(values)
    high, low = (
        np.where(seen, values, -np.inf).max(0, initial=-np.inf),
        np.where(seen, values, np.inf).min(0, initial=np.inf),
    )
    varied: np.ndarray = high - low > ROUNDING * np.maximum(np.abs(high), np.abs(low))
    return varied


_EVALUATION_STEPS = 65_536
"""Steps of all windows of an evaluation batch together, at most."""


@dataclass(frozen=True, eq=False)
class OneSeries:
    """A series on its whole grid of times."""

    name: str
    times: np.ndarray
    """(time,), as `form` says, without gaps."""
    values: np.ndarray
    """(time,), float64; NaN where a value is missing, or the whole time."""
    known: np.ndarray
    """(time, known covariates), float64; NaN likewise."""
    past: np.ndarray
    """(time, past covariates), float64."""
    fixed: np.ndarray
    """(fixed covariates,), float64."""
    form: TimeForm = field(default_factory=TimeForm)
    """The form in which the table writes its times."""


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows whose labels lie in one range of times of each series.

    An origin is the number of steps before the first one that is forecast. A window ends at one; one of training has
    others before it, each a step from the next, and is read once for all of them.
    """

    series: Sequence[OneSeries]
    first: np.ndarray
    """(series,): the first step that may be forecast."""
    stop: np.ndarray
    """(series,): the step after the last one."""
    naive_error: np.ndarray
    """(series,): mean absolute seasonal difference of the values before `first`, which MASE is in units of; NaN where
    there is none, or where it is 0."""
    deviation: np.ndarray
    """(series,): of the training values, which scaled errors are in units of, and what windows of equal values are
    measured in; 0 where they are all equal."""
    context: int
    """Steps of a window that the model reads; fewer where a series begins later."""
    horizon: int
    origins: int = 1
    """The number of origins of a window."""
    stride: int = 1
    """Steps from one origin of evaluation to the next."""
    earlier: int = 0
    """Origins of a series no longer than the context that are windows too, before its last one."""

    def __len__(self) -> int:
        return len(self.places)

    @property
    def score(self) -> str:
        """The score that counts."""
        return "mase"

    @cached_property
    def usual(self) -> float:
        """The median deviation of the series that vary; 1 if none does."""
        deviations = self.deviation[self.deviation > 0]
        return float(np.median(deviations)) if len(deviations) else 1.0

    @cached_property
    def places(self) -> np.ndarray:
        """(windows, 2): series and origin of each window of evaluation, the last one ending at `stop`."""
        pieces = []
        for number, (first, stop) in enumerate(zip(self.first, self.stop, strict=True)):
            origins = np.arange(stop - self.horizon, first - 1, -self.stride)[::-1]
            pieces.append(np.stack([np.full(len(origins), number), origins], axis=1))
        return np.concatenate(pieces)

    @property
    def labelled(self) -> np.ndarray:
        """(windows,), of evaluation: how many of the values that each forecasts are there; 0 where its context has
        none."""
        counts = np.zeros(len(self.places), np.int64)
        for number in np.unique(self.places[:, 0]):
            rows = self.places[:, 0] == number
            seen, origins = np.cumsum([0, *~np.isnan(self.series[number].values)]), self.places[rows, 1]
            before = seen[origins] - seen[np.maximum(0, origins - self.context)]
            counts[rows] = np.where(before > 0, seen[origins + self.horizon] - seen[origins], 0)
        return counts

    @cached_property
    def training_places(self) -> np.ndarray:
        """(windows, 2): series and last origin of each window of an epoch: all that have the whole context, and of a
        shorter series the last one and those `earlier`. The horizon may go beyond the steps that may be forecast, which
        are no labels then.

        Raises:
            DataError: no series has two steps.
        """
        places = []
        for number, (first, stop) in enumerate(zip(self.first, self.stop, strict=True)):
            if stop > first:
                begin = self.context if stop > self.context else stop - 1 - self.earlier
                origins = np.arange(max(first, begin), stop)
                places.append(np.stack([np.full(len(origins), number), origins], axis=1))
        if not places:
            raise DataError("no series has two steps left for training")
        return np.concatenate(places)

    def steps_per_epoch(self, batch_size: int) -> int:
        return -(-len(self.training_places) // batch_size)

    def batch(self, seed: int, epoch: int, index: int, batch_size: int) -> Batch:
        order = _epoch_order(self, seed, epoch)[index * batch_size : (index + 1) * batch_size]
        return self.collate(self.training_places[order])

    def evaluation_batches(self) -> Iterator[Batch]:
        """Every window of evaluation once."""
        return map(self.collate, self.evaluation_places())

    def evaluation_places(self) -> Iterator[np.ndarray]:
        """The places of each of `evaluation_batches`."""
        return self.in_batches(self.places)

    def in_batches(self, places: np.ndarray) -> Iterator[np.ndarray]:
        """Places in groups that are evaluated together."""
        rows = max(1, _EVALUATION_STEPS // (self.context + self.horizon))
        return (places[start : start + rows] for start in range(0, len(places), rows))

    def all_places(self, most: int) -> np.ndarray:
        """(windows, 2): series and origin of every forecast that begins in the part, whatever the stride, thinned
        evenly to `most`; labels after its end are missing."""
        places = [
            np.stack([np.full(stop - first, number), np.arange(first, stop)], axis=1)
            for number, (first, stop) in enumerate(zip(self.first, self.stop, strict=True))
        ]
        whole = np.concatenate(places)
        return whole[np.unique(np.linspace(0, len(whole) - 1, most).round().astype(int))] if len(whole) else whole

    def collate(self, places: np.ndarray) -> Batch:
        """Join these windows into one batch; NaN before a series begins, where a value is missing, and where a label
        lies after the last step that may be forecast.
        """
        length, whole = self.context, self.context + self.horizon
        some = self.series[0]
        values = np.full((len(places), whole), np.nan, np.float64)
        known = np.full((len(places), whole, some.known.shape[1]), np.nan, np.float64)
        past = np.full((len(places), length, some.past.shape[1]), np.nan, np.float64)
        for row, (number, origin) in enumerate(places):
            series = self.series[number]
            start = origin - self.context
            low, high = max(0, start), min(start + whole, len(series.known))
            known[row, low - start : high - start] = series.known[low:high]
            high = min(start + length, len(series.past))
            past[row, low - start : high - start] = series.past[low:high]
            high = min(start + whole, self.stop[number])
            values[row, low - start : high - start] = series.values[low:high]
        # float32 less a mean would lose digits of large values, so the model is given float64.
        batch = {
            "past_values": torch.from_numpy(values[:, :length]), "labels": torch.from_numpy(values[:, length:]),
            "deviation": torch.from_numpy(np.where(self.deviation > 0, self.deviation, self.usual)[places[:, 0]]),
        }  # fmt: skip
        if known.shape[2]:
            batch["known_covariates"] = torch.from_numpy(known)
        if past.shape[2]:
            batch["past_covariates"] = torch.from_numpy(past)
        if some.fixed.size:
            batch["static"] = torch.from_numpy(np.stack([self.series[number].fixed for number in places[:, 0]]))
        return batch


@lru_cache(maxsize=2)
def _epoch_order(windows: Windows, seed: int, epoch: int) -> np.ndarray:
    return np.random.default_rng([seed, epoch]).permutation(len(windows.training_places))
