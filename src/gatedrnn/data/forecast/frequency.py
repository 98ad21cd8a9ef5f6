"""The regular grid of times on which a series lies: hours, business days, months, or plain numbers."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import Tick

from gatedrnn.errors import DataError

NUMBERS = "numbers"
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
CALENDAR = (
    *(f"{year}-{month}" for year in ("YS", "YE") for month in MONTHS),
    *(f"{quarter}-{month}" for quarter in ("QS", "QE") for month in MONTHS[:3]), "MS", "ME", "B",
)  # fmt: skip
"""Steps that are not equally long, the longest first, tried where times have gaps."""
IN_A_YEAR = {"W": 52, "D": 7, "B": 5, "M": 12, "Q": 4, "Y": 1, "A": 1}
"""Steps after which a pattern usually repeats, by the first letter of pandas' name; of days: a week."""
MINUTE, HOUR, DAY, WEEK = (pd.Timedelta(1, unit).value for unit in ("min", "h", "D", "W"))
LONGEST_SEASON = 400
"""Steps, of a season that is guessed."""


@dataclass(frozen=True)
class Frequency:
    """Times that follow each other: pandas' name of the step between dates, or a step between numbers."""

    name: str
    """Such as "h", "15min", "W-SAT", "MS"; `NUMBERS` for times that are numbers."""
    step: float = 0.0
    """Between numbers."""

    def __str__(self) -> str:
        return f"every {self.step:g}" if self.name == NUMBERS else self.name

    def grid(self, times: np.ndarray) -> np.ndarray:
        """All times from the first of some to the last."""
        first, last = times[0], times[-1]
        if self.name == NUMBERS:
            return first + self.step * np.arange(round((last - first) / self.step) + 1)
        return np.asarray(pd.date_range(first, last, freq=self.name))

    def after(self, times: np.ndarray, steps: int) -> np.ndarray:
        """The `steps` times that follow the last of some."""
        last = times[-1]
        if self.name == NUMBERS:
            found: np.ndarray = last + self.step * np.arange(1, steps + 1)
            return found
        return np.asarray(pd.date_range(last, periods=steps + 1, freq=self.name)[1:])

    @property
    def seasons(self) -> tuple[int, ...]:
        """Steps after which a pattern usually repeats, the shortest first: a day and a week of hours, a year of
        months; 1 where nothing is known."""
        if self.name == NUMBERS:
            return (1,)
        offset = to_offset(self.name)
        if not isinstance(offset, Tick):
            return (max(1, IN_A_YEAR.get(self.name[0], 1) // offset.n),)
        if offset.nanos >= WEEK:
            return (max(1, round(52 * WEEK / offset.nanos)),)
        if offset.nanos >= DAY:
            return (max(1, round(WEEK / offset.nanos)),)
        counts = [
            tuple(round(whole / offset.nanos) for whole in wholes if whole % offset.nanos == 0)
            for wholes in ((DAY, WEEK), (HOUR,), (MINUTE,))
        ]
        found = [tuple(count for count in several if 1 < count <= LONGEST_SEASON) for several in counts]
        return next((several for several in found if several), (1,))


def as_frequency(name: str) -> Frequency:
    """A frequency by its name.

    Raises:
        DataError: pandas knows no such step, and it is no number.
    """
    try:
        return Frequency(NUMBERS, float(name))
    except ValueError:
        pass
    try:
        return Frequency(to_offset(name).freqstr)
    except ValueError as error:
        raise DataError(
            f"--frequency {name}: must be a step such as h, 15min, D, W or MS, or a number between times that are "
            "numbers"
        ) from error


def frequency_of(times: np.ndarray) -> Frequency | None:
    """The frequency of times in order, which may have gaps; None where one or two times say nothing, or no step fits.

    Args:
        times: (time,), numbers or datetime64.
    """
    if len(times) < 3:
        return None
    steps, counts = np.unique(np.diff(times), return_counts=True)
    step = steps[counts.argmax()]
    if not np.issubdtype(times.dtype, np.datetime64):
        return Frequency(NUMBERS, float(step)) if _on_grid(times, float(step)) else None
    index = pd.DatetimeIndex(times)
    if (regular := pd.infer_freq(index)) is not None:
        return Frequency(regular)
    fixed = to_offset(pd.Timedelta(step)).freqstr
    for name in (*(["B"] if fixed == "D" and index.dayofweek.max() < 5 else []), fixed, *CALENDAR):
        if index.isin(pd.date_range(index[0], index[-1], freq=name)).all():
            return Frequency(name)
    return None


def _on_grid(times: np.ndarray, step: float) -> bool:
    places = (times - times[0]) / step
    return bool(np.allclose(places, places.round(), atol=1e-6))


CALENDAR_FEATURES: Mapping[str, tuple[str, int]] = {
    "minute-of-hour": ("minute", 60), "hour-of-day": ("hour", 24), "day-of-week": ("dayofweek", 7),
    "day-of-month": ("day", 31), "day-of-year": ("dayofyear", 366), "month-of-year": ("month", 12),
}  # fmt: skip
"""By name: pandas' attribute, and after how many it begins anew."""


def calendar_features(times: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """(time, 2 · names), float32: sine and cosine of each, so that the last value lies next to the first.

    Args:
        times: (time,), datetime64.
        names: of `CALENDAR_FEATURES`.
    """
    found = np.empty((len(times), 2 * len(names)), np.float32)
    index = pd.DatetimeIndex(times) if names else None
    for place, name in enumerate(names):
        attribute, period = CALENDAR_FEATURES[name]
        angle = 2 * np.pi * np.asarray(getattr(index, attribute)) / period
        found[:, 2 * place], found[:, 2 * place + 1] = np.sin(angle), np.cos(angle)
    return found


def shown_times(times: np.ndarray) -> list[str | float]:
    """Numbers as they are, whole ones without a point; dates without a time of day where all are midnight."""
    if not np.issubdtype(times.dtype, np.datetime64):
        return [int(moment) if float(moment).is_integer() else float(moment) for moment in times]
    texts = [str(moment).replace("T", " ") for moment in times.astype("datetime64[s]")]
    whole_days = all(text.endswith(" 00:00:00") for text in texts)
    return [text.removesuffix(" 00:00:00") if whole_days else text for text in texts]
