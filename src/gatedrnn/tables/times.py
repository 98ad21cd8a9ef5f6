"""The meaning of a column of times: numbers, hours and minutes, or dates, with an offset from UTC or without; and how
its times are written.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from itertools import chain
from typing import Any, Literal, NamedTuple, get_args
from zoneinfo import available_timezones

import numpy as np

from gatedrnn.errors import DataError, Question
from gatedrnn.tables.date_forms import (
    PATTERNS,
    dates_by,
    follows,
    has_order,
    order_of,
    patterns_of,
    plain_texts,
    shown,
    written_by,
)
from gatedrnn.tables.numbers import SHOWN, Place
from gatedrnn.tables.options import MISSING, Order
from gatedrnn.tables.table import Table

CLOCK = re.compile(r"(\d{1,6}):([0-5]\d)(?::([0-5]\d(?:\.\d{1,9})?))?")
_DATE = re.compile(
    r"(\d{1,6}-\d\d(?:-\d\d)?(?:[T ]\d\d(?::\d\d(?::\d\d(?:\.\d{1,9})?)?)?)?) ?(Z|UTC|[+-]\d\d(?::?\d\d)?)?"
)
_FULL_DATE = re.compile(r"\d{4,6}[-/]\d\d[-/]\d\d")
FIRST_YEAR, LAST_YEAR = 1678, 2261
"""Whole years that 64 bits of nanoseconds hold."""
_USUAL_ZONES = (
    "Europe/Berlin", "Europe/London", "Europe/Athens", "America/New_York", "America/Chicago", "America/Denver",
    "America/Los_Angeles", "America/Sao_Paulo", "Australia/Sydney",
)  # fmt: skip
"""Tried first where offsets change: many zones change alike."""
_UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}
"""The units of numpy, by the decimals of a second."""
MIN_ROWS = 10
"""The rows from which times that are numbers follow a pattern of dates by chance no longer."""
_MAX_SLIPS = 0.1
"""The largest part of a column's rows that may be mistyped and so not follow its pattern."""
_EXCEL_DAY_0 = np.datetime64("1899-12-30", "ns")
FIRST_SERIAL, LAST_SERIAL = 20_000, 80_000
"""Excel's numbers of days between 1954 and 2119."""
_PERIOD_DAYS = ((28, 31), (90, 92), (181, 184), (365, 366))
"""The days of a month, a quarter, a half year and a year: the fewest and the most."""
EPOCHS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
"""Units of numbers that count from 1970, by numpy's name."""
FIRST_EPOCH, LAST_EPOCH = np.array(["1990", "2100"], "datetime64[Y]")
"""The years between which whole numbers may be dates."""
MAX_DECIMALS = 12
"""The most decimals of a number in a table; more are those of a binary fraction, such as 0.30000000000000004."""


@dataclass(frozen=True)
class TimeForm:
    """The form in which a column writes its times, and the values of an array of them."""

    kind: Literal["numbers", "clock", "dates"] = "numbers"
    """int64 or float64; timedelta64[ns]; datetime64[ns]."""
    pattern: str | None = None
    """The pattern of dates, as `date_forms` has it; None for dates as 2024-01-31 18:00."""
    zone: str | None = None
    """The zone of dates: "+09:00" or "Z" of all, or "Europe/Berlin" where offsets change; None without offsets."""
    instants: bool = False
    """Whether arrays are UTC, not local time in `zone`."""
    decimals: int = 0
    """The decimals of numbers, or of seconds: 0, 3, 6 or 9."""
    hours: bool = False
    """Whether dates have the time of day is written."""
    since_1970: str | None = None
    """The unit that dates count which are whole numbers; "excel" of days since 1899-12-30."""
    marks: str = "- "
    """The marks of dates: between year and month, and between day and hour."""

    def __str__(self) -> str:
        if self.kind != "dates":
            return "hours and minutes" if self.kind == "clock" else "numbers"
        form = "" if self.pattern is None else f" as {shown(self.pattern)}"
        if self.since_1970 is not None:
            form += (
                " as Excel's numbers of days"
                if self.since_1970 == "excel"
                else f" as {EPOCHS[self.since_1970]} since 1970"
            )
        return f"dates{form}" + ("" if self.zone is None else f" in {self.zone}" if "/" in self.zone else
                                  " in UTC" if self.zone == "Z" else f" at {self.zone}")  # fmt: skip

    def local(self, times: np.ndarray) -> np.ndarray:
        """Dates by the clock and calendar of their zone."""
        if not self.instants:
            return times
        import pandas as pd

        zone = "UTC" if self.zone == "Z" else self.zone
        return np.asarray(pd.DatetimeIndex(times, tz="UTC").tz_convert(zone).tz_localize(None), "datetime64[ns]")

    def written(self, times: np.ndarray) -> list[str | float]:
        """Times as the column writes them; whole numbers without a point."""
        if self.kind == "numbers":
            return [_number_written(moment, self.decimals) for moment in times.tolist()]
        decimals = max(self.decimals, _decimals_of_seconds(times))
        if self.kind == "clock":
            return [_clock_written(int(moment), decimals) for moment in times.astype(np.int64)]
        if self.since_1970 == "excel":
            return list(((times - _EXCEL_DAY_0) // np.timedelta64(1, "D")).tolist())
        if self.since_1970 is not None:
            return list(times.astype(f"datetime64[{self.since_1970}]").astype(np.int64).tolist())
        wall = self.local(times)
        if self.pattern is not None:
            import pandas as pd

            by_pattern = [written_by(self.pattern, moment) for moment in pd.DatetimeIndex(wall)]
            again = dates_by(self.pattern, by_pattern)
            same = again is not None and (again == wall).all()
            if same or ("{yy}" in self.pattern and again is not None and _same_but_century(again, wall)):
                return list(by_pattern)
        unit: Any = _UNITS[decimals] if self.hours or (wall != wall.astype("datetime64[D]")).any() else "D"
        texts = [str(text).replace("T", self.marks[1]) for text in np.datetime_as_string(wall, unit=unit)]
        if self.marks[0] != "-":
            texts = [text.replace("-", self.marks[0]) for text in texts]
        return [text + offset for text, offset in zip(texts, self._offsets(times, wall), strict=True)]

    def _offsets(self, times: np.ndarray, wall: np.ndarray) -> list[str]:
        if self.zone is None or "/" not in self.zone:
            return [self.zone or ""] * len(times)
        if not self.instants:  # an hour that comes twice is the first of them
            import pandas as pd

            first = np.ones(len(wall), bool)
            zoned = pd.DatetimeIndex(wall).tz_localize(self.zone, ambiguous=first, nonexistent="shift_forward")
            times, wall = np.asarray(zoned.tz_convert("UTC").tz_localize(None)), np.asarray(zoned.tz_localize(None))
        return [_offset_written(int(minutes)) for minutes in (wall - times) // np.timedelta64(1, "m")]


class Times(NamedTuple):
    """A column of times."""

    values: np.ndarray
    """(rows,), as `TimeForm.kind` says; dates by the clock and calendar of their zone."""
    form: TimeForm
    instants: np.ndarray | None = None
    """(rows,), UTC; None where times have no offset."""

    @property
    def order(self) -> np.ndarray:
        """(rows,): what rises with time."""
        return self.values if self.instants is None else self.instants

    def axes(self) -> "list[Times]":
        """The times with values in UTC, where they have offsets, and as they are."""
        if self.instants is None:
            return [self]
        return [Times(self.instants, replace(self.form, instants=True)), self]

    def _shifted(self, rows: np.ndarray) -> "Times":
        """The times with some rows a day later: those that are written as 24:00."""
        day = np.where(rows, np.timedelta64(1, "D"), np.timedelta64(0, "D"))
        form = replace(self.form, hours=True)
        return Times(self.values + day, form, None if self.instants is None else self.instants + day)

    @property
    def unit(self) -> str:
        """The unit of `hours`."""
        return "numbers" if self.form.kind == "numbers" else "hours"

    def hours(self) -> np.ndarray:
        """(rows,), float64: dates as hours since the first of them, clocks as hours, numbers as they are."""
        if self.form.kind == "numbers":
            return self.values.astype(np.float64)
        begin = self.order.min() if self.form.kind == "dates" else np.timedelta64(0, "ns")
        since_begin: np.ndarray = (self.order - begin) / np.timedelta64(1, "h")
        return since_begin


def read_times(values: Sequence[object], place: Place, order: Order | None = None) -> Times:
    """Times as a column holds them: numbers, hours and minutes as 07:30 or 31:15:00, or dates.

    Whole numbers are dates where each of them is one: as YYYYMM, YYYYMMDD or another of `PATTERNS`, or as seconds since
    1970 and its parts; others, where each follows a pattern of the first.

    Args:
        order: of year, month and day, where numbers do not tell.

    Raises:
        DataError: a field is none of these, or not as the first; a time is missing, infinite, or a date that 64 bits of
            nanoseconds do not hold; or dates could be read in two orders.
    """
    texts = [_text(value) for value in values]
    for row, text in enumerate(texts):
        if text.lower() in MISSING or text == "NaT":
            raise DataError(f"{place(row)}: there is no time")
    if not texts:
        return Times(np.empty(0), TimeForm())
    texts, late = plain_texts(texts)
    if CLOCK.fullmatch(texts[0]):
        return _clocks(texts, place)
    times = _patterned(texts, place, order)
    if times is None and _is_number(texts[0]):
        times = _numbers(texts, place)
    times = times or _dates(values, texts, place)
    return times._shifted(late) if late.any() else times


def times_in_column(data: Table, column: str, order: Order | None) -> Times:
    """The times of a column; as `read_times`."""
    return read_times(data[column], data.locate(column), order)


def check_rising(data: Table, column: str, times: Times, series: str, rows: np.ndarray) -> None:
    """Check that no two rows of a series, which are in the order of time, have one time.

    Raises:
        DataError: two have, which are named.
    """
    again = np.flatnonzero(times.order[rows][1:] == times.order[rows][:-1])
    if len(again):
        first, second = sorted(int(row) + 1 for row in rows[again[0] : again[0] + 2])
        twice = data[column][second - 1]
        raise DataError(
            f"{data.place}: rows {first} and {second}, column {column!r}: series {series} has {twice} twice"
        )


def are_dates(values: Sequence[object]) -> bool:
    """Whether every field is a date, with year, month and day, or all are as one of `PATTERNS`."""
    texts, _ = plain_texts([_text(value) for value in values])
    if not texts or not (_DATE.fullmatch(texts[0].replace("/", "-")) or any(_fitting(texts[:1]))):
        return False
    for order in (None, *get_args(Order)):  # of days that may be months, some are dates by one order alone
        with suppress(DataError):
            return read_times(values, str, order).form.kind == "dates"
    return False


def _text(value: object) -> str:
    """A field as a table has it; a whole number without a point."""
    text = "" if value is None else str(value).strip()
    whole, _, rest = text.partition(".")
    return whole if whole.isdecimal() and rest and not rest.strip("0") else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _numbers(texts: list[str], place: Place) -> Times:
    try:
        whole = np.array([int(text) for text in texts], np.int64)
    except OverflowError:
        row = next(row for row, text in enumerate(texts) if abs(int(text)) >= 1 << 63)
        raise DataError(f"{place(row)}: {texts[row][:SHOWN]} is too large; times of 64 bits are read") from None
    except ValueError:
        pass
    else:
        return _since_1970(whole) or _excel_days(whole) or Times(whole, TimeForm())
    numbers = np.empty(len(texts))
    for row, text in enumerate(texts):
        if not _is_number(text):
            raise DataError(f"{place(row)}: {text[:SHOWN]!r} is no number, as the first time of the column is")
        numbers[row] = float(text)
        if not np.isfinite(numbers[row]):
            raise DataError(f"{place(row)}: a time must be finite, got {text[:SHOWN]}")
    if (numbers == np.rint(numbers)).all() and np.abs(numbers).max() < 2**53:
        return Times(numbers.astype(np.int64), TimeForm())
    return Times(numbers, TimeForm(decimals=decimals_of(numbers)))


def _since_1970(times: np.ndarray) -> Times | None:
    """Whole numbers that are dates all, as computers count them; None where they are not."""
    if len(np.unique(times)) < MIN_ROWS:
        return None
    for unit in EPOCHS:
        first, last = (edge.astype(f"datetime64[{unit}]").astype(np.int64) for edge in (FIRST_EPOCH, LAST_EPOCH))
        if first <= times.min() and times.max() < last:
            return Times(
                times.astype(f"datetime64[{unit}]").astype("datetime64[ns]"), TimeForm("dates", since_1970=unit)
            )
    return None


def _excel_days(times: np.ndarray) -> Times | None:
    """Whole numbers that are dates as Excel counts them: those whose steps are as unequal as those of months."""
    steps = np.diff(np.unique(times))
    few, most = (int(steps.min(initial=1 << 40)), int(steps.max(initial=0)))
    if (
        len(steps) < MIN_ROWS - 1
        or few == most
        or not any(least <= few and most <= last for least, last in _PERIOD_DAYS)
    ):
        return None
    if times.min() < FIRST_SERIAL or times.max() > LAST_SERIAL:
        return None
    days = _EXCEL_DAY_0 + times.astype("timedelta64[D]").astype("timedelta64[ns]")
    return Times(days, TimeForm("dates", since_1970="excel"))


def decimals_of(times: np.ndarray) -> int:
    """The most decimals with which one of some numbers is written; of a binary fraction, more than `MAX_DECIMALS`."""
    with np.errstate(over="ignore", invalid="ignore"):
        few = (decimals for decimals in range(MAX_DECIMALS + 1) if (np.round(times, decimals) == times).all())
        return next(few, MAX_DECIMALS + 1)


def _clocks(texts: list[str], place: Place) -> Times:
    clocks = np.empty(len(texts), "timedelta64[ns]")
    for row, text in enumerate(texts):
        clock = CLOCK.fullmatch(text)
        if clock is None:
            raise DataError(f"{place(row)}: {text[:SHOWN]!r} is no time of hours and minutes as the first one")
        seconds = 3600 * int(clock[1]) + 60 * int(clock[2]) + Decimal(clock[3] or 0)
        clocks[row] = np.timedelta64(int(seconds * 10**9), "ns")
    return Times(clocks, TimeForm("clock", decimals=_decimals_of_seconds(clocks)))


def _patterned(texts: list[str], place: Place, order: Order | None) -> Times | None:
    """Dates by a pattern that all texts follow; None where there is none. Of several, that by which times rise."""
    days_by_pattern = {pattern: days for pattern, days in _fitting(texts) if order is None or has_order(pattern, order)}
    whole = next(iter(days_by_pattern), None)
    if _is_number(texts[0]) and len({*texts}) >= MIN_ROWS:
        _check_no_slip(texts, place, PATTERNS[: PATTERNS.index(whole)] if whole else PATTERNS, whole)
    by_order: dict[tuple[str, ...], str] = {}
    for pattern in days_by_pattern:
        by_order.setdefault(order_of(pattern), pattern)
    falls = {pattern: _turns(days_by_pattern[pattern]) for pattern in by_order.values()}
    best = [pattern for pattern, count in falls.items() if count == min(falls.values())]
    # Hours one after another by one order are hours of some days of all months by the other.
    hours = [pattern for pattern in best if _are_even_hours(days_by_pattern[pattern])]
    best = hours if len(hours) == 1 else best
    # Months one after another by one order are the first days of each year by the other.
    months = [pattern for pattern in best if _are_even_months(days_by_pattern[pattern])]
    best = months if len(months) == 1 and len(texts) > _MAX_MONTHS_OF_DAYS else best
    for other in best[1:]:
        unlike = np.flatnonzero(days_by_pattern[other] != days_by_pattern[best[0]])
        if len(unlike):
            row = int(unlike[0])
            both = (best[0], other)
            dates = {str(days_by_pattern[pattern][row])[:10]: "-".join(order_of(pattern)) for pattern in both}
            raise Question(
                f"{place(row)}: {texts[row]} may be {' or '.join(dates)}, and no row tells",
                [{"date_order": [order]} for order in dates.values()],
            )
    return Times(days_by_pattern[best[0]], TimeForm("dates", best[0])) if best else None


_MAX_MONTHS_OF_DAYS = 12
"""Dates 1/1 to 1/12 are days of a month or months of a year."""


def _turns(times: np.ndarray) -> int:
    """The steps that do not rise, or of times from the newest to the oldest those that do not fall."""
    steps = np.diff(times)
    return min(int((steps <= np.timedelta64(0)).sum()), int((steps >= np.timedelta64(0)).sum()))


def _are_even_months(times: np.ndarray) -> bool:
    months = np.unique(times).astype("datetime64[M]").astype(np.int64)
    return len({*np.diff(months)}) == 1 and 0 not in np.diff(months)


def _are_even_hours(times: np.ndarray) -> bool:
    steps = np.unique(np.diff(np.unique(times)))
    return len(steps) == 1 and bool(steps[0] < np.timedelta64(1, "D"))


def _check_no_slip(texts: list[str], place: Place, patterns: Iterable[str], pattern_of_all: str | None = None) -> None:
    """Check that a column does not follow a pattern but for some few rows, as it does where a date is mistyped.

    Args:
        patterns: those that it may follow so.
        pattern_of_all: the pattern that all follow, if there is one.

    Raises:
        DataError: it does; the first of those rows is named.
    """
    for pattern in patterns:
        if follows(pattern, texts[0]) or follows(pattern, texts[-1]):
            slips = [row for row, text in enumerate(texts) if not follows(pattern, text)]
            if 0 < len(slips) <= _MAX_SLIPS * len(texts) and not _evenly_spaced(texts, pattern_of_all):
                said = f"{place(slips[0])}: {texts[slips[0]][:SHOWN]!r} is no date as {shown(pattern)}"
                raise DataError(f"{said}, as {len(texts) - len(slips):,} of {len(texts):,} times of the column are")


def _evenly_spaced(texts: list[str], pattern: str | None) -> bool:
    """Whether numbers, or dates by a pattern, go up by one step."""
    if pattern is not None:
        dates = dates_by(pattern, texts)
        steps = np.diff(np.unique(dates)) if dates is not None else np.empty(0)
    else:
        steps = np.diff(np.unique([float(text) for text in texts])) if all(map(_is_number, texts)) else np.empty(0)
    return len(np.unique(steps)) == 1


def _fitting(texts: list[str]) -> Iterator[tuple[str, np.ndarray]]:
    """The patterns that all texts follow, and the dates that they are then."""
    first = next(((pattern, days) for pattern in PATTERNS if (days := dates_by(pattern, texts)) is not None), None)
    if first is not None:
        yield first
        return
    if _is_number(texts[0]) or (_DATE.fullmatch(texts[0].replace("/", "-")) and _FULL_DATE.match(texts[0])):
        return
    for pattern in dict.fromkeys(patterns_of(texts[0])):
        if (days := dates_by(pattern, texts)) is not None:
            yield pattern, days


def _dates(values: Sequence[object], texts: list[str], place: Place) -> Times:
    matches = [_DATE.fullmatch(text.replace("/", "-")) for text in texts]
    written, offsets = (
        [match[1] if match else "" for match in matches],
        [match[2] if match else None for match in matches],
    )
    try:
        moments = np.array(written, "datetime64[us]")  # NaT of ""
    except ValueError:
        moments = np.array([_moment(text) for text in written])
    years = moments.astype("datetime64[Y]").astype(np.int64) + 1970
    wrong = np.isnat(moments) | (years < FIRST_YEAR) | (years > LAST_YEAR)
    if wrong.any():
        row = int(wrong.argmax())
        if np.isnat(moments[row]):
            _check_no_slip(texts, place, dict.fromkeys(chain(*map(patterns_of, (texts[0], texts[-1])))))
            raise DataError(
                f"{place(row)}: {repr(values[row])[:SHOWN]} is neither a number nor a date such as 2024-01-31 18:00"
            )
        raise DataError(
            f"{place(row)}: {texts[row]} is in the year {years[row]}; dates of the years {FIRST_YEAR} to {LAST_YEAR} "
            "are read"
        )
    dates = np.array(written, "datetime64[ns]")
    for row, offset in enumerate(offsets):
        if (offset is None) != (offsets[0] is None):
            raise DataError(f"{place(row)}: {text_of_offset(offset)}, unlike the first time of the column")
    days = dates.astype("datetime64[D]")
    form = TimeForm(
        "dates", decimals=_decimals_of_seconds(dates), hours=bool((days != dates).any()) or offsets[0] is not None,
        marks=("/" if "/" in texts[0] else "-") + ("T" if "T" in texts[0] else " "),
    )  # fmt: skip
    return Times(dates, form) if offsets[0] is None else _zoned(dates, offsets, form, _named_zone(values[0]))


def _moment(text: str) -> np.datetime64:
    try:
        return np.datetime64(text, "us")
    except ValueError:  # 30 February
        return np.datetime64("NaT", "us")


def text_of_offset(offset: str | None) -> str:
    """The words of a message on an offset."""
    return "has no offset from UTC" if offset is None else f"has an offset from UTC, {offset}"


def _zoned(wall: np.ndarray, offsets: Sequence[str | None], form: TimeForm, named: str | None) -> Times:
    """Dates with offsets: of one offset, of a zone whose offset changes, or else in UTC."""
    by_text = {text: _minutes(text or "") for text in set(offsets)}
    minutes = np.array([by_text[text] for text in offsets])
    instants = wall - minutes.astype("timedelta64[m]")
    if named is None and (minutes == minutes[0]).all():
        zone = "Z" if {*offsets} <= {"Z", "UTC"} else _offset_written(int(minutes[0]))
        return Times(wall, replace(form, zone=zone), instants)
    turns = np.flatnonzero(np.diff(minutes))
    some = np.unique(np.concatenate([[0, len(minutes) - 1], turns, turns + 1]))
    for zone in [named] if named is not None else [*_USUAL_ZONES, *sorted(available_timezones())]:
        if "/" in zone and all((_local(instants[rows], zone) == wall[rows]).all() for rows in (some, slice(None))):
            return Times(wall, replace(form, zone=zone), instants)
    return Times(instants, replace(form, zone="Z"), instants)


def localized(times: Times, zone: str, series: np.ndarray, place: str) -> Times:
    """Dates without an offset as those of a zone; NaT in hours that its clocks leave out. Of an hour that comes twice
    the first is before the clocks go back.

    Args:
        times: dates.
        zone: a name such as Europe/Berlin.
        series: (rows,), the number of the series of each row, whose hours come twice by itself.
        place: the file, for messages.

    Raises:
        DataError: there is no such zone, or the dates are not of its clocks.
    """
    import pandas as pd

    index = pd.DatetimeIndex(times.values)
    again = pd.MultiIndex.from_arrays([series, index]).duplicated()
    try:
        zoned = index.tz_localize(zone, ambiguous=~again, nonexistent="NaT")
    except (KeyError, ValueError, OSError) as error:
        raise DataError(f"{place}: --zone {zone}: {error}; give a name such as Europe/Berlin") from error
    instants = np.asarray(zoned.tz_convert("UTC").tz_localize(None), "datetime64[ns]")
    return Times(times.values, replace(times.form, zone=zone), instants)


_HOUR = np.timedelta64(1, "h")


def zone_of_turning_clocks(wall: np.ndarray) -> str | None:
    """The zone whose clocks go back where times of one series come again, one after the other, and then go on; None
    where they do so nowhere, or no zone's do.

    Args:
        wall: (rows,), datetime64[ns], as they stand in the file.
    """
    import pandas as pd

    steps = np.diff(wall)
    back = steps <= np.timedelta64(0)
    # Clocks go back by an hour or half of one, once a year; a table of longer steps has no time twice for it.
    too_many = back.sum() > 1 + len(wall) // 24
    if not back.any() or steps.min() < -_HOUR or np.median(steps) > _HOUR or too_many:
        return None
    index = pd.DatetimeIndex(wall)
    for zone in (*_USUAL_ZONES, *sorted(available_timezones())):
        try:
            instants = index.tz_localize(zone, ambiguous="infer", nonexistent="raise")
        except Exception:  # hours that its clocks leave out, of which pytz has classes of its own; names of no zone
            continue
        if instants.is_monotonic_increasing and instants.is_unique:
            return zone
    return None


def joined_form(before: tuple[TimeForm, np.ndarray], after: tuple[TimeForm, np.ndarray]) -> TimeForm:
    """The form in which a series of dates that goes on in another file writes its times: in the zone in which both have
    their offsets.

    Args:
        before, after: a form, with its times.

    Raises:
        DataError: they are of unlike kinds, or no zone has both offsets.
    """
    (form, times), (other, more) = before, after
    if (form.kind, form.zone is None, form.instants) != (other.kind, other.zone is None, other.instants):
        raise DataError(f"its times are {other}; those before are {form}")
    if form.zone is None or form.zone == other.zone:
        return form
    offsets = [*form._offsets(times, form.local(times)), *other._offsets(more, other.local(more))]
    wall = np.concatenate([form.local(times), other.local(more)])
    zone = _zoned(wall, offsets, form, None).form.zone
    if zone == "Z" and not form.instants:
        raise DataError(f"its times are {other}, those before {form}, and no zone has both")
    return replace(form, zone=zone)


def _local(instants: np.ndarray, zone: str) -> np.ndarray:
    return TimeForm("dates", zone=zone, instants=True).local(instants)


def _named_zone(value: object) -> str | None:
    """The zone that a Parquet file names."""
    named = str(value.tzinfo) if isinstance(value, datetime) and value.tzinfo is not None else None
    return named if named is not None and "/" in named else None


def _minutes(offset: str) -> int:
    if offset in ("Z", "UTC"):
        return 0
    digits = offset[1:].replace(":", "").ljust(4, "0")
    return (-1 if offset[0] == "-" else 1) * (60 * int(digits[:2]) + int(digits[2:]))


def _same_but_century(one: np.ndarray, other: np.ndarray) -> bool:
    parts = (np.datetime_as_string(times, unit="s") for times in (one, other))
    return all(first[2:] == second[2:] for first, second in zip(*parts, strict=True))


def _offset_written(minutes: int) -> str:
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02}:{rest:02}"


def _decimals_of_seconds(times: np.ndarray) -> int:
    """0, 3, 6 or 9: with so many all are written."""
    parts = times.astype(np.int64)
    return next(decimals for decimals in _UNITS if not (parts % 10 ** (9 - decimals)).any())


def _number_written(moment: float, decimals: int) -> float:
    number = round(moment, decimals) if decimals <= MAX_DECIMALS else float(f"{moment:.15g}")
    return int(number) if float(number).is_integer() else number


def _clock_written(nanoseconds: int, decimals: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}"
    if seconds % 60 or rest or decimals:
        text += f":{seconds % 60:02}" + (f".{rest:09}"[: decimals + 1] if decimals else "")
    return text
