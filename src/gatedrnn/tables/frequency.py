"""The regular grid of times on which a series lies: hours, business days, months, or plain numbers."""

import math
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, cast

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import Day, LastWeekOfMonth, Tick

from gatedrnn.errors import DataError
from gatedrnn.tables.times import FIRST_YEAR, LAST_YEAR, MAX_DECIMALS, TimeForm, decimals_of

NUMBERS = "numbers"
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_ANCHORS: Mapping[str, tuple[str, ...]] = {
    "W": tuple(f"-{day}" for day in WEEKDAYS),
    **{quarter: tuple(f"-{month}" for month in MONTHS[:3]) for quarter in ("QS", "QE", "BQS", "BQE")},
    **{year: tuple(f"-{month}" for month in MONTHS) for year in ("YS", "YE", "BYS", "BYE")},
}  # fmt: skip
"""The suffixes of the names of steps that begin on any weekday or month."""
CALENDAR = (
    *(f"{year}-{month}" for year in ("YS", "YE", "BYS", "BYE") for month in MONTHS),
    *(f"{quarter}-{month}" for quarter in ("QS", "QE", "BQS", "BQE") for month in MONTHS[:3]),
    "MS", "ME", "BMS", "BME", *(f"WOM-{week}{day}" for week in range(1, 5) for day in WEEKDAYS),
    *(f"LWOM-{day}" for day in WEEKDAYS), "SMS-15", "SME-15", "B",
)  # fmt: skip
"""Steps that are not equally long, the longest first, tried where times have gaps."""
_BEGINS = ("MS", "QS", "YS")
"""Steps that are also from one day of a month to the same day of another, if all months have that day."""
_EVERY_MONTH_HAS = 28
PATTERNS: Mapping[str, tuple[int, int]] = {
    "D": (7, 364), "B": (5, 260), "C": (5, 260), "W": (1, 52), "SMS": (24, 24), "SME": (24, 24),
    **{month: (12, 12) for month in ("MS", "ME", "BMS", "BME", "CBMS", "CBME", "WOM", "LWOM")},
    **{quarter: (4, 4) for quarter in ("QS", "QE", "BQS", "BQE", "REQ")},
}  # fmt: skip
"""The steps of two periods, by the base of pandas' offset: after how many a pattern repeats, and how many a year has
(of days: whole weeks)."""
MINUTE, HOUR, DAY, WEEK = (int(pd.Timedelta(1, unit).value) for unit in ("min", "h", "D", "W"))
MAX_SEASON = 400
"""Steps, of a season that is guessed."""
OF_A_YEAR, MAX_ROUNDED_YEAR = (4, 12, 52), 0.005
"""Steps that a year of fractions may have: quarters, months, weeks; and how far a year of them may be off."""
_MAX_STEP = 1 << 63
"""The longest step, as a number or in nanoseconds."""
_MAX_ROUNDED = 0.125
"""The largest rounding error, as a fraction of a step: the last decimal of times such as 0.333."""
_MAX_GATHERED = 1e-6
"""The fraction of a step by which a sum of binary fractions may be off."""
MAX_STEPS = 1 << 53
"""The most steps between numbers that are not whole: a float counts no further."""
_MAX_PARTS = 1_000
"""A step such as 1/3 of a unit is a fraction of so many parts at most."""


@dataclass(frozen=True)
class Frequency:
    """Times that follow each other: pandas' name of the step between dates, or a step between numbers."""

    name: str
    """The name of the frequency, such as "h", "15min", "W-SAT", "MS"; `NUMBERS` for times that are numbers."""
    step: float | int = 0
    """The difference between successive numbers; an int between whole ones."""
    of_a_year: int | None = field(default=None, compare=False)
    """Steps of a year, where the numbers are years with a fraction, as R writes months: 1949.0833."""

    def __str__(self) -> str:
        return f"every {self.step:.12g}" if self.name == NUMBERS else self.name

    @property
    def setting(self) -> str:
        """The setting that `as_frequency` reads."""
        return repr(self.step) if self.name == NUMBERS else self.name

    @property
    def nanoseconds(self) -> int | None:
        """The length of a step of minutes, days or other units that are always equally long."""
        return None if self.name == NUMBERS else _nanoseconds(_offset(self.name))

    @property
    def within_a_day(self) -> bool:
        """Whether a step is shorter than a day, so that it is counted in hours, whatever clocks do."""
        return self.nanoseconds is not None and self.nanoseconds < DAY

    def length(self, times: np.ndarray) -> float:
        """Steps from the first of some times to the last; 0 where only the calendar tells."""
        step = self.step if self.name == NUMBERS else self.nanoseconds
        return float((times[-1] - times[0]).astype(np.float64)) / step if step else 0.0

    def form(self, form: TimeForm) -> TimeForm:
        """The form in which times are written, with the decimals of numbers between them that no row has."""
        decimals = decimals_of(np.array([self.step], np.float64)) if self.name == NUMBERS else 0
        few = decimals <= MAX_DECIMALS or not form.decimals
        return replace(form, decimals=max(form.decimals, decimals)) if few else form

    def places(self, times: np.ndarray) -> np.ndarray:
        """(rows,), int64: steps from the first time to each, -1 where it is no whole number of them.

        Args:
            times: (rows,), rising: int64, float64, timedelta64[ns] or datetime64[ns].
        """
        step = self._equal_step(times)
        if isinstance(step, float):
            return _places_of_fractions(times.astype(np.float64), step)
        if step is not None:
            places, rest = np.divmod(times.astype(np.int64) - times[0].astype(np.int64), step)
            return np.where(rest == 0, places, -1)
        return np.asarray(self._calendar(times).get_indexer(pd.DatetimeIndex(times)), np.int64)

    def grid(self, times: np.ndarray) -> np.ndarray:
        """All times from the first of some, which lie on it, to the last; numbers as they are where they are known."""
        step, places = self._equal_step(times), self.places(times)
        if step is None:
            return np.asarray(self._calendar(times), "datetime64[ns]")
        steps = np.arange(places[-1] + 1)
        times_on_grid: np.ndarray = times[0] + step * (steps if isinstance(step, float) else steps.astype(_unit(times)))
        times_on_grid[places] = times
        return times_on_grid

    def _equal_step(self, times: np.ndarray) -> float | int | None:
        """A float where numbers are not whole; nanoseconds of dates; None of months and business days."""
        if self.name != NUMBERS:
            return self.nanoseconds
        return float(self.step) if times.dtype.kind == "f" or not isinstance(self.step, int) else self.step

    def _calendar(self, times: np.ndarray) -> pd.DatetimeIndex:
        shift = self._shift(times[0])
        try:
            return pd.date_range(times[0] - shift, times[-1] - shift, freq=_offset(self.name)) + shift
        except pd.errors.OutOfBoundsDatetime as error:
            raise DataError(
                f"a step of {self} ends too far from {times[0]} to be written; give a shorter one"
            ) from error

    def floor(self, times: np.ndarray) -> np.ndarray:
        """The begin of the step in which each time lies; of steps that are named by their end, such as ME, that end.

        Example:
            >>> str(Frequency("MS").floor(np.array(["2024-02-29T12:30"], "datetime64[ns]"))[0])[:10]
            '2024-02-01'
        """
        step = self._equal_step(times)
        if step is not None:
            whole = times if self.name == NUMBERS else times.astype(np.int64)
            return np.asarray(np.floor_divide(whole, step) * step).astype(times.dtype)
        # pandas rolls one moment at a time: each day once.
        days, rows = np.unique(times.astype("datetime64[D]"), return_inverse=True)
        offset, moments = _offset(self.name), map(pd.Timestamp, days)
        ends = self.name.partition("-")[0].lstrip("0123456789").endswith("E")
        begins = [offset.rollforward(moment) if ends else offset.rollback(moment) for moment in moments]
        return np.array(begins, "datetime64[ns]")[rows]

    def after(self, times: np.ndarray, steps: int) -> np.ndarray:
        """The `steps` times that follow the last of some.

        Raises:
            DataError: they are later than 64 bits hold.
        """
        last, ahead, step = times[-1], np.arange(1, steps + 1), self._equal_step(times)
        if isinstance(step, float):
            later = np.asarray(last + step * ahead)
            if not (np.diff(later, prepend=np.float64(last)) > 0).all():
                raise DataError(f"times of {last:g} are too large for 64 bits to hold a step ({self}) beside them")
            return later
        try:
            if step is not None:
                np.int64(int(last.astype(np.int64)) + step * steps)  # refuses what would wrap around
                return np.asarray(last + step * ahead.astype(_unit(times)))
            shift = self._shift(last)
            dates = pd.date_range(last - shift, periods=steps + 1, freq=_offset(self.name)) + shift
            return np.asarray(dates[1:], "datetime64[ns]")
        except (OverflowError, pd.errors.OutOfBoundsDatetime) as error:
            raise DataError(f"{steps} steps ({self}) after {last} end too late to be written; forecast less") from error

    def of_years(self, times: np.ndarray) -> "Frequency":
        """Itself, or with the steps of a year where times are years with a fraction of quarters, months or weeks."""
        if self.name != NUMBERS or not FIRST_YEAR <= times[0] <= times[-1] <= LAST_YEAR:
            return self
        count = next((count for count in OF_A_YEAR if abs(count * self.step - 1) < MAX_ROUNDED_YEAR), None)
        exact = self if count is None else replace(self, step=1 / count)
        return replace(exact if (exact.places(times) >= 0).all() else self, of_a_year=count)

    def _shift(self, moment: np.datetime64) -> np.timedelta64:
        """The distance of times from the first days of months."""
        day = pd.Timestamp(moment).day
        begins = self.name.partition("-")[0].lstrip("0123456789") in _BEGINS
        return np.timedelta64(day - 1 if begins and day <= _EVERY_MONTH_HAS else 0, "D")

    @property
    def seasons(self) -> tuple[int, ...]:
        """Steps after which a pattern usually repeats, the shortest first: a day and a week of hours, a year of
        months; 1 where nothing is known."""
        if self.name == NUMBERS:
            return (self.of_a_year or 1,)
        offset, nanoseconds = _offset(self.name), self.nanoseconds
        if nanoseconds is None or nanoseconds % DAY == 0:
            base, count = (
                ("D", nanoseconds // DAY) if nanoseconds else (offset.base.freqstr.partition("-")[0], offset.n)
            )
            pattern, year = PATTERNS.get(base, (1, 1))
            return (pattern // math.gcd(pattern, count) if count < pattern else max(1, round(year / count)),)
        counts = [
            tuple(round(whole / nanoseconds) for whole in wholes if whole % nanoseconds == 0)
            for wholes in ((DAY, WEEK), (HOUR,), (MINUTE,))
        ]
        periods = [tuple(count for count in several if 1 < count <= MAX_SEASON) for several in counts]
        return next((several for several in periods if several), (1,))


def as_frequency(name: str) -> Frequency:
    """A frequency by its name.

    Raises:
        DataError: pandas knows no such step, and it is no number; or it is not above 0.
    """
    try:
        number = int(name) if name.isdecimal() else float(name)
        frequency = Frequency(NUMBERS, int(number) if math.isfinite(number) and number == int(number) else number)
    except ValueError:
        try:
            frequency = Frequency(_offset(name).freqstr)
        except ValueError as error:
            raise DataError(
                f"--frequency {name}: must be a step such as h, 15min, D, W or MS, or a number between times that are "
                "numbers"
            ) from error
    step = frequency.step if frequency.name == NUMBERS else frequency.nanoseconds or _offset(frequency.name).n
    if not 0 < step < _MAX_STEP:
        raise DataError(f"--frequency {name}: the step must be above 0, and at most what 64 bits hold")
    return frequency


def named_alike(name: str) -> list[Frequency]:
    """The frequencies that a name without a weekday or month may mean, the likeliest first: W ends on any day, QS
    begins in any month, and M, Q and Y are their first days or their last.

    Raises:
        DataError: as `as_frequency`.
    """
    count, base = cast(re.Match[str], re.match(r"(\d*)(.*)", name)).groups()
    bases = [f"{base}S", f"{base}E"] if base in ("M", "Q", "Y") else [base]
    names = [f"{count}{candidate}{anchor}" for candidate in bases for anchor in ("", *_ANCHORS.get(candidate, ()))]
    return [as_frequency(candidate) for candidate in names]


def frequency_of(times: np.ndarray) -> Frequency | None:
    """The frequency of times in order, which may have gaps; None where one or two times say nothing, or no step fits.

    Args:
        times: (rows,), rising: int64, float64, timedelta64[ns] or datetime64[ns].
    """
    if len(times) < 3:
        return None
    if times.dtype.kind in "mM":
        times = times.astype(f"{'timedelta64' if times.dtype.kind == 'm' else 'datetime64'}[ns]")  # pandas 3 has others
    kinds = {"i": _of_whole_numbers, "f": _of_fractions, "m": _of_equal_steps, "M": _of_dates}
    frequency = next(
        (candidate for candidate in kinds[times.dtype.kind](times) if (candidate.places(times) >= 0).all()), None
    )
    return None if frequency is None else frequency.of_years(times)


_GATHERED = ("s", "min", "15min", "h", "D", "W-MON", "MS")
"""Steps that uneven times may be gathered in."""
_MIN_FILLED, _MIN_GATHERED = 0.8, 20
"""The part of the steps that has times, at least, and the steps that are enough to forecast."""


def frequency_to_gather(times: np.ndarray) -> str:
    """The shortest usual step of which most have one of some uneven dates, which are in order; D if there is none."""
    for name in _GATHERED:
        frequency = Frequency(name)
        begins = np.unique(frequency.floor(times))
        steps = frequency.length(begins) + 1 if frequency.nanoseconds else len(frequency.grid(begins))
        if len(begins) >= _MIN_GATHERED and len(begins) >= _MIN_FILLED * steps:
            return name
    return "D"


def _of_whole_numbers(times: np.ndarray) -> Iterator[Frequency]:
    yield Frequency(NUMBERS, int(np.diff(times).min()))


def _of_fractions(times: np.ndarray) -> Iterator[Frequency]:
    """The shortest difference as it is written; and what it is the rounding of, 1/3 of 0.333."""
    shortest = float(np.diff(times).min())
    yield Frequency(NUMBERS, round(shortest, decimals_of(times)))
    with np.errstate(over="ignore"):
        steps = float(np.rint(np.diff(times) / shortest).sum())
    if steps > MAX_STEPS:
        return
    mean = float(times[-1] - times[0]) / steps
    fraction = float(Fraction(mean).limit_denominator(_MAX_PARTS))
    yield Frequency(NUMBERS, fraction if abs(fraction - mean) * steps <= _rounding(times, mean) else mean)


def _of_equal_steps(times: np.ndarray) -> Iterator[Frequency]:
    """The frequency of equal steps; a whole number of weeks has its own name, W-SAT."""
    shortest = int(np.diff(times).min().astype(np.int64))
    weeks = shortest // WEEK if shortest % WEEK == 0 and times.dtype.kind == "M" else 0
    if weeks:
        yield Frequency(_times(weeks, f"W-{WEEKDAYS[pd.Timestamp(times[0]).day_of_week]}"))
    else:
        days = shortest % DAY == 0  # which pandas 3 would call 24h
        yield Frequency(_times(shortest // DAY, "D") if days else to_offset(pd.Timedelta(shortest)).freqstr)


def _of_dates(times: np.ndarray) -> Iterator[Frequency]:
    index = pd.DatetimeIndex(times)
    same_day = len(set(index.day)) == 1 and index.day[0] <= _EVERY_MONTH_HAS
    shifted = index - pd.Timedelta(int(index.day[0]) - 1, "D") if same_day else index
    inferred = _inferred(shifted)
    if inferred is not None:
        yield Frequency(inferred)
    equal = list(_of_equal_steps(times))
    if np.diff(times).min() < np.timedelta64(_EVERY_MONTH_HAS, "D"):
        if equal[0].name.endswith("D") and index.day_of_week.max() < 5:
            yield from _of_calendar(index, "B")
        yield from equal
    for name in CALENDAR:
        yield from _of_calendar(shifted, name)
    yield from equal


def _inferred(index: pd.DatetimeIndex) -> str | None:
    """The name of a frequency that pandas sees; pandas 4 will give the offset itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # which pandas 3 says of it
        inferred = pd.infer_freq(index)
    name = getattr(inferred, "freqstr", inferred)
    # pandas 2 names quarters by their last month of a year, QS-OCT, pandas 3 by the first, QS-JAN: they are one.
    return name and re.sub(r"(?<=QS-)(OCT|NOV|DEC)", lambda month: MONTHS[MONTHS.index(month[0]) - 9], name)


def _of_calendar(index: pd.DatetimeIndex, name: str) -> Iterator[Frequency]:
    """The most steps of a calendar that one of its own can be."""
    if _offset(name).is_on_offset(index[1]):  # soon says no to most
        places = Frequency(name).places(np.asarray(index))
        if (places >= 0).all():
            yield Frequency(_times(int(np.gcd.reduce(np.diff(places))), name))


def _times(count: int, name: str) -> str:
    return f"{count}{name}" if count > 1 else name


def _places_of_fractions(times: np.ndarray, step: float) -> np.ndarray:
    """`Frequency.places` of numbers that are not whole: they may be off by their own rounding, never more."""
    with np.errstate(over="ignore"):
        steps = np.concatenate([[0], np.rint(np.diff(times) / step).cumsum()])
    if steps[-1] > MAX_STEPS:
        return np.full(len(times), -1)
    return np.where(np.abs(times - times[0] - step * steps) <= _rounding(times, step), steps, -1).astype(np.int64)


def _rounding(times: np.ndarray, step: float) -> float:
    """The error that times may have: some of their last binary digits, which a sum of many steps gathers; or the
    last decimal where the step, such as 1/3, has more decimals than they.
    """
    decimals, binary = decimals_of(times), float(np.spacing(np.abs(times).max()))
    if decimals > MAX_DECIMALS:
        return max(4 * binary, min(len(times) * binary, _MAX_GATHERED * step))
    decimal = 10.0**-decimals
    written = abs(step / decimal - round(step / decimal)) < 1e-6
    return min(4 * binary if written or decimal > _MAX_ROUNDED * step else decimal, _MAX_ROUNDED * step)


def _unit(times: np.ndarray) -> str:
    return "int64" if times.dtype.kind == "i" else "timedelta64[ns]"


@lru_cache
def _offset(name: str) -> Any:
    """Pandas' offset; of the last Friday of a month, too, which it writes as LWOM-FRI and does not read.

    Raises:
        ValueError: there is none of that name.
    """
    last = re.fullmatch(r"(\d*)LWOM-(\w+)", name)
    if last is not None and last[2] in WEEKDAYS:
        return LastWeekOfMonth(n=int(last[1] or 1), weekday=WEEKDAYS.index(last[2]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of names that pandas has changed: H is h now
        try:
            return to_offset(name)
        except (OverflowError, TypeError) as error:
            raise ValueError(name) from error


def _nanoseconds(offset: Any) -> int | None:
    """The length of an offset that is always equally long."""
    if isinstance(offset, Day):
        return int(offset.n) * DAY
    return int(offset.nanos) if isinstance(offset, Tick) else None


_CALENDAR_FEATURES: Mapping[str, tuple[str, int]] = {
    "minute-of-hour": ("minute", 60), "hour-of-day": ("hour", 24), "day-of-week": ("day_of_week", 7),
    "day-of-month": ("day", 31), "day-of-year": ("day_of_year", 366), "month-of-year": ("month", 12),
}  # fmt: skip
"""The pandas attribute of each feature, and the number after which it begins anew."""


def calendar_features(times: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """(time, 2 · names), float32: sine and cosine of each, so that the last value lies next to the first.

    Args:
        times: (time,), datetime64, by the clock of their zone.
        names: of `_CALENDAR_FEATURES`.
    """
    features = np.empty((len(times), 2 * len(names)), np.float32)
    index = pd.DatetimeIndex(times) if names else None
    for place, name in enumerate(names):
        attribute, period = _CALENDAR_FEATURES[name]
        angle = 2 * np.pi * np.asarray(getattr(index, attribute)) / period
        features[:, 2 * place], features[:, 2 * place + 1] = np.sin(angle), np.cos(angle)
    return features
