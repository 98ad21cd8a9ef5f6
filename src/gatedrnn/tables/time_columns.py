"""The column of a table that holds its times, by its name and values together; a question where they do not tell."""

import logging
import re
from collections.abc import Mapping, Sequence

import numpy as np

from gatedrnn.errors import DataError, Question
from gatedrnn.tables.date_forms import MONTHS, WORDS
from gatedrnn.tables.files import SHOWN, WITHOUT_NAME, column_of
from gatedrnn.tables.numbers import numbers_of
from gatedrnn.tables.table import Table, is_number_of_column
from gatedrnn.tables.times import are_dates, read_times

LOG = logging.getLogger("gatedrnn")
LOOKED_AT = 100
"""Rows that say whether a column holds dates."""
TIME_COLUMNS = ("ds", "time", "timestamp", "date", "datetime", "t", "step")
_CALLED = r"date|time|datum|zeit|날짜|일시|시간|시각|日期|时间|日付|時刻"
"""Parts of the names of columns of times."""
STEP_COLUMNS = ("period", "obs", "observation", "month", "week", "quarter", "day", "hour")
"""Names of columns that hold times where their whole numbers rise by one."""
YEAR_COLUMNS = ("year", "yr", "years")
FIRST_YEAR, LAST_YEAR = 1600, 2500
_PARTS_OF_YEARS: Mapping[str, tuple[tuple[str, ...], int, str]] = {
    "week": (("week", "wk", "weekno", "weeknumber"), 53, "-W{:02}"), "quarter": (("quarter", "qtr"), 4, "Q{}"),
    "day": (("doy", "dayofyear", "yday", "julianday"), 366, "{:03}"),
}  # fmt: skip
"""The parts of a year beside it: the names of each, its largest number, and how both are written."""
_OF_YEARS = {name for usual, _, _ in _PARTS_OF_YEARS.values() for name in usual}
_HOUR_COLUMNS = ("hour", "hr", "hours", "he", "hourending", "stunde", "시", "시간")
_PERIOD_COLUMNS = ("period", "settlementperiod", "interval", "mtu", "slot")
_DAY_PERIODS = (24, 48, 96, 288)
"""The periods that grid operators part a day into."""
_CLOCK_OF_DAY = re.compile(r"([01]?\d|2[0-4]):[0-5]\d(:[0-5]\d(\.\d+)?)?( ?[AP]M)?", re.IGNORECASE)
PARTS: Mapping[str, tuple[tuple[str, ...], int, int]] = {
    "year": (YEAR_COLUMNS, FIRST_YEAR, LAST_YEAR), "month": (("month", "mon", "mo", "mnth"), 1, 12),
    "day": (("day", "dayofmonth", "dateofmonth", "mday"), 1, 31), "hour": (_HOUR_COLUMNS, 0, 24),
    "minute": (("minute", "min", "minutes"), 0, 59), "second": (("second", "sec", "seconds"), 0, 59),
}  # fmt: skip
"""The parts of a time that several columns hold: the names of each, and its least and largest number."""


def with_time_column(data: Table, place: str, wanted: str | None) -> tuple[Table, str]:
    """A table and the name of its column of times; where several hold a time's year, month, day and hour, one in their
    place, which is named by them all.

    Args:
        wanted: a column, or several with commas between; None for what is obvious.

    Raises:
        DataError: a column is not there, or several could be it.
    """
    names = data.column_names
    if wanted is None and are_values(names):
        data = data.without_header()
        names = data.column_names
        dated = [name for name in names if are_dates(data.head(name))]
        if len(dated) != 1:
            first = _listed([str(data[name][0]) for name in names])
            raise DataError(f"{place}: the first line holds values, {first}; write a line of names of columns above it")
        return _with_time_of_day(data, dated[0])
    if wanted is not None and wanted not in names and "," in wanted:
        parts = [column_of(names, place, "time", name.strip(), ()) for name in wanted.split(",")]
        return _joined(data, parts, place)
    if wanted is not None:
        return data, column_of(names, place, "time", wanted, ())
    usual = [name for name in names if name.lower() in TIME_COLUMNS]
    dated = [name for name in names if are_dates(data.head(name))]
    if len(dated) > 1:
        # A grid operator writes a date and an hour next to a whole time, which is the better one.
        unique = [name for name in dated if _rises(data[name])]
        regular = [name for name in unique if _is_regular(data[name])] if not {*usual} & {*unique} else []
        dated = regular if len(regular) == 1 else dated
        dated = [name for name in dated if name in usual] or [name for name in dated if _rises(data[name])] or dated
    if len(dated) == 1:
        return _with_time_of_day(data, dated[0])
    if dated:
        raise Question(
            f"{place}: which column is the time? {_listed(dated)} hold dates",
            [{"time_column": [name]} for name in dated],
        )
    parts = _parts(names, data)
    if len(parts) > 1:
        joined, name = _joined(data, parts, place)
        # A week or a quarter beside a year may be a covariate.
        if _letters(parts[-1]) not in _OF_YEARS or (not usual and are_dates(joined[name])):
            return joined, name
    if len(usual) == 1:
        return data, usual[0]
    called = [name for name in names if re.search(_CALLED, name.lower()) and data.holds(name, may_be_times)]
    if not usual and len(called) == 1:
        return data, called[0]
    years = [name for name in names if _are_years(data[name], named=name.lower() in YEAR_COLUMNS)]
    named = [name for name in years if name.lower() in YEAR_COLUMNS] or [n for n in years if WITHOUT_NAME.fullmatch(n)]
    if len(named or years) == 1:
        return data, (named or years)[0]
    counting = [name for name in names if name.lower() in STEP_COLUMNS and _count_up(data[name])]
    if not usual and len(counting) == 1:
        return data, counting[0]
    return data, column_of(
        names, place, "time", None, TIME_COLUMNS, plausible=[name for name in names if data.holds(name, may_be_times)]
    )


_CALENDAR_COLUMNS = {
    *(name for usual, _, _ in (*PARTS.values(), *_PARTS_OF_YEARS.values()) for name in usual),
    "dayofweek", "weekday", "wday", "dow", "dayofyear", "yday", "doy", "season", "weekofyear", "monthofyear",
    "hourofday", "요일", "월", "일", "연도",
}  # fmt: skip
_MAX_CALENDAR = 366
"""The largest part of a calendar: the day of a leap year."""


def is_of_calendar(name: str, values: Sequence[object]) -> bool:
    """Whether a column holds a part of each row's time, which is known and no measurement: its name says so and it
    holds whole numbers; or it counts the rows, or holds years with decimals that rise.
    """
    try:
        numbers = numbers_of(values, str)
    except DataError:
        return False
    there = numbers[~np.isnan(numbers)]
    if len(there) < _LEAST_COUNTED or len(there) < len(numbers):
        return False
    steps = np.diff(there)
    whole = bool((there == np.rint(there)).all())
    of_years = bool(((there >= FIRST_YEAR) & (there <= LAST_YEAR)).all())
    if whole and (of_years or 0 <= there.min() <= there.max() <= _MAX_CALENDAR) and _letters(name) in _CALENDAR_COLUMNS:
        return True
    counts = whole and {*steps} in ({1.0}, {-1.0})
    return counts or (of_years and not whole and bool((steps > 0).all()) and float(steps.max()) <= 1.0)


_LEAST_COUNTED = 10
"""Rows from which a column of another name counts by chance no longer."""


def are_values(names: Sequence[str]) -> bool:
    """Whether the first line of a table is a row. The numbers 0, 1, 2 … are names: pandas gives them to columns that
    have none."""
    counted = list(names) == [str(number) for number in range(len(names))]
    return not counted and all(_whole([name]) is not None or _is_number_or_date(name) for name in names)


def _is_number_or_date(field: str) -> bool:
    try:
        return np.isfinite(float(field)) or are_dates([field])
    except ValueError:
        return are_dates([field])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:SHOWN]))


def _whole(values: Sequence[object]) -> np.ndarray | None:
    """(rows,), int64; None where one is no whole number."""
    try:
        numbers = np.array([str(value).strip() for value in values], np.float64)
    except ValueError:
        return None
    whole = np.isfinite(numbers) & (numbers == np.rint(numbers)) & (np.abs(numbers) < 2**53)
    return numbers.astype(np.int64) if whole.all() else None


def may_be_times(values: Sequence[object]) -> bool:
    """Whether values are different words, or numbers that rise."""
    try:
        return bool((np.diff(numbers_of(values, str)) > 0).all())
    except DataError:
        return _rises(values)


def _rises(values: Sequence[object]) -> bool:
    return len(set(map(str, values))) == len(values)


def _is_regular(values: Sequence[object]) -> bool:
    """Whether dates have one step."""
    try:
        return len(np.unique(np.diff(read_times(values, str).values))) == 1
    except DataError:
        return False


def without_row_as_header(data: Table) -> Table:
    """A table whose first line is a row, with the numbers of its columns as names; any other as it is. Such a line
    holds numbers, and words that come again below them.
    """
    names = data.column_names if data.dialect is not None else []
    words = [name for name in names if not _is_number_or_date(name.rstrip("; "))]
    again = (name in map(str, data.head(name)) for name in words)
    return data.without_header() if 0 < len(words) * 2 < len(names) and all(again) else data


def with_names_of_parts(data: Table) -> Table:
    """A table without names whose first columns hold a year and parts of it, and together rise from row to row, with
    the names of these parts; any other as it is.
    """
    if not (are_values(data.column_names) or all(map(is_number_of_column, data.column_names))):
        return data
    unnamed = data.without_header() if are_values(data.column_names) else data
    names = unnamed.column_names
    numbers = [_whole(unnamed[name]) for name in names[: len(_UNNAMED_PARTS[0])]]
    for parts in _UNNAMED_PARTS:
        columns = [column for column in numbers[: len(parts)] if column is not None]
        if len(parts) < len(names) and len(columns) == len(parts) and _are_parts(columns, parts):
            renamed = dict(zip(names, parts, strict=False))
            return unnamed.with_columns({renamed.get(name, name): unnamed.columns[name] for name in names})
    return data


_UNNAMED_PARTS = (("year", "month", "day", "hour"), ("year", "month", "day"), ("year", "doy"), ("year", "month"))


def _are_parts(columns: Sequence[np.ndarray], parts: Sequence[str]) -> bool:
    """Whether columns are in the ranges of a year and its parts, and rise together."""
    ranges = [PARTS[part][1:] if part in PARTS else (1, _MAX_CALENDAR) for part in parts]
    inside = (
        least <= column.min() and column.max() <= most for column, (least, most) in zip(columns, ranges, strict=True)
    )
    if not all(inside) or len(np.unique(columns[0])) * 2 > len(columns[0]):
        return False
    order = np.lexsort(columns[::-1])
    return bool((order == np.arange(len(order))).all()) and len({*zip(*columns, strict=True)}) == len(order)


def _count_up(values: Sequence[object]) -> bool:
    numbers = _whole(values)
    return numbers is not None and len(numbers) > 2 and {*np.diff(numbers)} == {1}


def _are_years(values: Sequence[object], *, named: bool = False) -> bool:
    """Whether a column holds years that follow each other by one step, once or for one series after another."""
    years = _whole(values)
    if years is None or len(years) < 3 or years.min() < FIRST_YEAR or years.max() > LAST_YEAR:
        return False
    steps = np.diff(years)
    if named:  # one series above another, or one beside another
        return len(np.unique(years)) >= 3 and len(np.unique(np.diff(np.unique(years)))) == 1
    return bool((steps != 0).all()) and len({*steps[steps > 0]}) == 1 and int((steps < 0).sum()) * 2 < len(steps)


def _with_time_of_day(data: Table, date: str) -> tuple[Table, str]:
    """A table and its column of times: of days, joined with the column of the time of day beside them, if there is
    one.
    """
    if len(data) == 0 or any(":" in str(value) for value in data.head(date)):
        return data, date
    columns = [name for name in data.column_names if name != date and _are_times_of_day(name, data[name], data[date])]
    return _joined(data, [date, columns[0]], "") if len(columns) == 1 else (data, date)


def _are_times_of_day(name: str, values: Sequence[object], dates: Sequence[object]) -> bool:
    """Whether a column holds the time of day: as 18:00; or by its name and as whole numbers that are the same on most
    days, of which there are as many as a day has hours or periods.
    """
    if all(_CLOCK_OF_DAY.fullmatch(str(value).strip()) for value in values[:LOOKED_AT]):
        return all(_CLOCK_OF_DAY.fullmatch(str(value).strip()) for value in values)
    numbers = _whole(values) if _letters(name) in (*_HOUR_COLUMNS, *_PERIOD_COLUMNS) else None
    if numbers is None or numbers.min() not in (0, 1) or len(set(map(str, dates))) == len(dates):
        return False
    return _periods_a_day(numbers) is not None


def _periods_a_day(numbers: np.ndarray) -> int | None:
    """The periods that part a day, of which numbers are all, from 0 or from 1 on; None where they are others."""
    different = np.unique(numbers)
    count = len(different)
    # The days on which clocks change have an hour more, which grid operators number too.
    return next((periods for periods in _DAY_PERIODS if periods <= count <= periods + periods // 24), None)


def _parts(names: Sequence[str], data: Table) -> list[str]:
    """Columns of a year, a month and so on, as far as there is each of them."""
    parts = list[str]()
    for usual, least, most in PARTS.values():
        columns = [name for name in names if _letters(name) in usual]
        if usual is PARTS["month"][0]:
            columns = columns or [
                name for name in names if _letters(name).startswith("mon") or _are_month_names(data.head(name))
            ]
        numbers = _part_numbers(data[columns[0]]) if len(columns) == 1 else None
        if numbers is None or numbers.min() < least or numbers.max() > most:
            break
        parts.append(columns[0])
    if len(parts) == 1 and not _are_years(data[parts[0]]):
        for usual, most, _ in _PARTS_OF_YEARS.values():
            columns = [name for name in names if _letters(name) in usual]
            numbers = _whole(data[columns[0]]) if len(columns) == 1 else None
            if numbers is not None and numbers.min() >= 1 and numbers.max() <= most:
                return [*parts, columns[0]]
    return parts


def _letters(name: str) -> str:
    return re.sub(r"[\W\d_]", "", name.lower())


def _joined(data: Table, parts: Sequence[str], place: str) -> tuple[Table, str]:
    """The table with one column of dates in the place of several, which are in any order where their names tell it."""
    usual_names = [usual for usual, *_ in (*PARTS.values(), *_PARTS_OF_YEARS.values())]
    ranks = {name: next((n for n, usual in enumerate(usual_names) if _letters(name) in usual), None) for name in parts}
    if None not in ranks.values():
        parts = sorted(parts, key=lambda name: ranks[name] or 0)
    joined = ", ".join(parts)
    if len(parts) == 2 and are_dates(data.head(parts[0])):
        texts = _dates_with_time_of_day(data[parts[0]], data[parts[1]], f"{place}: column {parts[1]!r}")
    else:
        texts = _dates_of_parts(data, parts, place)
    columns = {name: values for name, values in data.columns.items() if name not in parts}
    return data.with_columns({joined: texts, **columns}), joined


def _dates_with_time_of_day(dates: Sequence[object], values: Sequence[object], where: str) -> list[str]:
    """Days with their time of day. Numbers from 1 on are the hours or periods that end then, 24 the end of the day;
    those from 0 on begin then.

    Raises:
        DataError: the values are no times of day.
    """
    if all(_CLOCK_OF_DAY.fullmatch(str(value).strip()) for value in values):
        return [f"{date} {str(value).strip()}" for date, value in zip(dates, values, strict=True)]
    numbers = _whole(values)
    periods = (
        None
        if numbers is None
        else _periods_a_day(numbers) or (24 if 0 <= numbers.min() <= numbers.max() <= 24 else None)
    )
    if numbers is None or periods is None:
        raise DataError(f"{where}: must hold the time of day, as 18:00, or hours from 0 to 23 or 1 to 24")
    if numbers.min() == 1:
        LOG.info("%s: 1 to %d are read as periods that end then, %d at 24:00", where, periods, periods)
    minutes = numbers * (24 * 60 // periods)
    return [f"{date} {minute // 60:02}:{minute % 60:02}" for date, minute in zip(dates, minutes.tolist(), strict=True)]


def _part_numbers(values: Sequence[object]) -> np.ndarray | None:
    """Whole numbers, or the numbers of months that are named; None of others."""
    numbers = _whole(values)
    if numbers is not None:
        return numbers
    months = [MONTH_NUMBERS.get(str(value).strip().rstrip(".").casefold()) for value in values]
    return np.array(months) if None not in months else None


def _are_month_names(values: Sequence[object]) -> bool:
    return {str(value).strip().rstrip(".").casefold() for value in values[:LOOKED_AT]} <= {*MONTH_NUMBERS}


MONTH_NUMBERS = {
    name.casefold(): number for words in (MONTHS, *(WORDS[form] for form in ("Mon", "Monat", "Mrz", "Mär")))
    for number, name in enumerate(words, start=1)
} | {f"{number}월": number for number in range(1, 13)}  # fmt: skip


def _dates_of_parts(data: Table, parts: Sequence[str], place: str) -> list[str]:
    """Dates of their year, month and so on, or of a year and its week or quarter.

    Raises:
        DataError: a column is no part of a time.
    """
    numbers = [_part_numbers(data[name]) for name in parts]
    for name, column in zip(parts, numbers, strict=True):
        if column is None:
            raise DataError(f"{place}: column {name!r}: must hold whole numbers, to be a part of a time")
    of_year = [form for usual, _, form in _PARTS_OF_YEARS.values() if _letters(parts[-1]) in usual and len(parts) == 2]
    marks = ("", "-", "-", " ", ":", ":")
    rows = zip(*(column.tolist() for column in numbers if column is not None), strict=True)
    return [
        f"{row[0]}{of_year[0].format(row[1])}" if of_year else
        "".join(f"{mark}{number:02}" for mark, number in zip(marks, row, strict=False))
        + (":00" if len(row) == 4 else "")
        for row in rows
    ]  # fmt: skip
