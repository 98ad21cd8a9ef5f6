"""The column of a table that holds its times, by its name and values together; a question where they do not tell."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gatedrnn.data.rows import RawTable
from gatedrnn.data.tables import SHOWN, WITHOUT_NAME, column_of
from gatedrnn.data.times import are_dates
from gatedrnn.errors import DataError

LOOKED_AT = 100
"""Rows that say whether a column holds dates."""
TIME_COLUMNS = ("ds", "time", "timestamp", "date", "datetime", "t", "step")
STEP_COLUMNS = ("period", "obs", "observation", "month", "week", "quarter", "day", "hour")
"""Names of columns that hold times where their whole numbers rise by one."""
YEAR_COLUMNS = ("year", "yr", "years")
FIRST_YEAR, LAST_YEAR = 1600, 2200
PERIOD = re.compile(r"(\d{4}-\d\d?-\d\d?)(?:/| ?– ?| - | to )\d{4}-\d\d?-\d\d?")
PARTS_OF_YEARS: Mapping[str, tuple[tuple[str, ...], int, str]] = {
    "week": (("week", "wk", "weekno", "weeknumber"), 53, "-W{:02}"), "quarter": (("quarter", "qtr"), 4, "Q{}"),
}  # fmt: skip
"""The parts of a year beside it: the names of each, its largest number, and how both are written."""
OF_YEARS = {name for usual, _, _ in PARTS_OF_YEARS.values() for name in usual}
PARTS: Mapping[str, tuple[tuple[str, ...], int, int]] = {
    "year": (YEAR_COLUMNS, FIRST_YEAR, LAST_YEAR), "month": (("month", "mon", "mo", "mnth"), 1, 12),
    "day": (("day", "dayofmonth", "mday"), 1, 31), "hour": (("hour", "hr", "hours"), 0, 23),
    "minute": (("minute", "min", "minutes"), 0, 59), "second": (("second", "sec", "seconds"), 0, 59),
}  # fmt: skip
"""The parts of a time that several columns hold: the names of each, and its least and largest number."""


def with_time_column(data: RawTable, place: str, wanted: str | None) -> tuple[RawTable, str]:
    """A table and the name of its column of times; where several hold a time's year, month, day and hour, one in their
    place, which is named by them all.

    Args:
        wanted: a column, or several with commas between; None for what is obvious.

    Raises:
        DataError: a column is not there, or several could be it.
    """
    names = data.column_names
    if wanted is None and _are_values(names):
        data = _from_the_first_day(data.without_header())
        names = data.column_names
        dated = [name for name in names if are_dates(data[name][:LOOKED_AT])]
        if len(dated) != 1:
            first = _listed([str(values[0]) for values in data.columns.values()])
            raise DataError(f"{place}: the first line holds values, {first}; write a line of names of columns above it")
        return data, dated[0]
    data = _from_the_first_day(data)
    if wanted is not None and wanted not in names and "," in wanted:
        parts = [column_of(names, place, "time", name.strip(), ()) for name in wanted.split(",")]
        return _joined(data, parts, place)
    if wanted is not None:
        return data, column_of(names, place, "time", wanted, ())
    usual = [name for name in names if name.lower() in TIME_COLUMNS]
    dated = [name for name in names if are_dates(data[name][:LOOKED_AT])]
    if len(dated) > 1:
        dated = [name for name in dated if name in usual] or [name for name in dated if _rises(data[name])] or dated
    if len(dated) == 1:
        return data, dated[0]
    if dated:
        raise DataError(f"{place}: which column is the time? {_listed(dated)} hold dates; name it with --time-column")
    parts = _parts(names, data)
    if len(parts) > 1:
        joined, name = _joined(data, parts, place)
        # A week or a quarter beside a year may be a covariate.
        if _letters(parts[-1]) not in OF_YEARS or (not usual and are_dates(joined[name])):
            return joined, name
    if len(usual) == 1:
        return data, usual[0]
    years = [name for name in names if _are_years(data[name])]
    named = [name for name in years if name.lower() in YEAR_COLUMNS] or [n for n in years if WITHOUT_NAME.fullmatch(n)]
    if len(named or years) == 1:
        return data, (named or years)[0]
    counting = [name for name in names if name.lower() in STEP_COLUMNS and _count_up(data[name])]
    if not usual and len(counting) == 1:
        return data, counting[0]
    return data, column_of(names, place, "time", None, TIME_COLUMNS)


def _from_the_first_day(data: RawTable) -> RawTable:
    """Columns of periods, 2015-01-05/2015-01-11, as their first days."""
    columns = dict[str, list[Any]]()
    for name, values in data.columns.items():
        periods = [PERIOD.fullmatch(value) if isinstance(value, str) else None for value in values]
        first = [period[1] for period in periods if period is not None]
        columns[name] = first if first and len(first) == len(periods) else values
    return replace(data, columns=columns)


def _are_values(names: Sequence[str]) -> bool:
    """Whether the first line of a table is a row. The numbers 0, 1, 2 … are names: pandas gives them to columns that
    have none."""
    counted = list(names) == [str(number) for number in range(len(names))]
    return len(names) > 1 and not counted and all(_whole([name]) is not None or _is_value(name) for name in names)


def _is_value(field: str) -> bool:
    if PERIOD.fullmatch(field):
        return True
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


def _rises(values: Sequence[object]) -> bool:
    return len(set(map(str, values))) == len(values)


def _count_up(values: Sequence[object]) -> bool:
    numbers = _whole(values)
    return numbers is not None and len(numbers) > 2 and {*np.diff(numbers)} == {1}


def _are_years(values: Sequence[object]) -> bool:
    """Whether a column holds years that follow each other by one step, once or for one series after another."""
    years = _whole(values)
    if years is None or len(years) < 3 or years.min() < FIRST_YEAR or years.max() > LAST_YEAR:
        return False
    steps = np.diff(years)
    return bool((steps != 0).all()) and len({*steps[steps > 0]}) == 1 and int((steps < 0).sum()) * 2 < len(steps)


def _parts(names: Sequence[str], data: RawTable) -> list[str]:
    """Columns of a year, a month and so on, as far as there is each of them."""
    parts = list[str]()
    for usual, least, most in PARTS.values():
        columns = [name for name in names if _letters(name) in usual]
        numbers = _whole(data[columns[0]]) if len(columns) == 1 else None
        if numbers is None or numbers.min() < least or numbers.max() > most:
            break
        parts.append(columns[0])
    if len(parts) == 1 and not _are_years(data[parts[0]]):
        for usual, most, _ in PARTS_OF_YEARS.values():
            columns = [name for name in names if _letters(name) in usual]
            numbers = _whole(data[columns[0]]) if len(columns) == 1 else None
            if numbers is not None and numbers.min() >= 1 and numbers.max() <= most:
                return [*parts, columns[0]]
    return parts


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _joined(data: RawTable, parts: Sequence[str], place: str) -> tuple[RawTable, str]:
    """The table with one column of dates in the place of several, which are in any order where their names tell it."""
    usual_names = [usual for usual, *_ in (*PARTS.values(), *PARTS_OF_YEARS.values())]
    ranks = {name: next((n for n, usual in enumerate(usual_names) if _letters(name) in usual), None) for name in parts}
    if None not in ranks.values():
        parts = sorted(parts, key=lambda name: ranks[name] or 0)
    numbers = [_whole(data[name]) for name in parts]
    for name, column in zip(parts, numbers, strict=True):
        if column is None:
            raise DataError(f"{place}: column {name!r}: must hold whole numbers, to be a part of a time")
    joined = ", ".join(parts)
    of_year = [form for usual, _, form in PARTS_OF_YEARS.values() if _letters(parts[-1]) in usual and len(parts) == 2]
    marks = ("", "-", "-", " ", ":", ":")
    rows = zip(*(column.tolist() for column in numbers if column is not None), strict=True)
    texts = [
        f"{row[0]}{of_year[0].format(row[1])}" if of_year else
        "".join(f"{mark}{number:02}" for mark, number in zip(marks, row, strict=False))
        + (":00" if len(row) == 4 else "")
        for row in rows
    ]  # fmt: skip
    columns = {name: values for name, values in data.columns.items() if name not in parts}
    return RawTable({**columns, joined: texts}, data.class_names, types=data.types), joined
