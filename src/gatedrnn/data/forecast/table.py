"""Tables of series: long (a row for each series and time) or wide (a row a time, a column for each series)."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from datasets import Dataset

from gatedrnn.data.files import column_of, read_all_columns
from gatedrnn.data.forecast.frequency import Frequency, as_frequency, frequency_of
from gatedrnn.data.series.long import SERIES_COLUMNS, numbers_in_column, time_column_of, times_in_column
from gatedrnn.data.windows import OneSeries
from gatedrnn.errors import DataError
from gatedrnn.records import Json

TARGET_COLUMNS = ("y", "value", "target")
MOST_GAPS = 20
"""Times of a series' grid over times that are in the file, at most: beyond, the frequency is wrong."""


class Columns(NamedTuple):
    """Which columns are what; None and () where they are guessed."""

    target: tuple[str, ...] = ()
    series: str | None = None
    time: str | None = None
    known: tuple[str, ...] = ()
    """Covariates whose future is known."""
    past: tuple[str, ...] = ()
    """Covariates whose past alone is known."""
    fixed: tuple[str, ...] = ()
    """Covariates that a series has for all times."""
    frequency: str | None = None


@dataclass(frozen=True, eq=False)
class SeriesTable:
    """All series of a file."""

    series: list[OneSeries]
    frequency: Frequency
    columns: Columns
    """None of them left to guess; `series` is None where the table is wide."""
    source: dict[str, Json]
    """Name, rows and sha256, without any path."""
    unused: tuple[str, ...] = ()
    """Columns that nothing reads."""


class _Rows(NamedTuple):
    """The rows of one series, in the order of time."""

    name: str
    rows: np.ndarray
    target: str


def read_table(path: Path, columns: Columns, *, future: bool = False) -> SeriesTable:
    """The series of a CSV, TSV, JSON-lines or Parquet file.

    Args:
        path: the file.
        columns: what is known of its columns.
        future: whether the last times may hold covariates alone, for which a forecast is asked.

    Raises:
        DataError: a column is missing, a time is out of order or doubled or off the grid, a value is no finite number,
            or a series has no value at all; row and column are named.
    """
    data = read_all_columns(path)
    place = str(path)
    if not len(data):
        raise DataError(f"{path}: there are columns but no rows")
    columns = _guessed(data, place, columns)
    assert columns.time is not None
    times = times_in_column(path, data, columns.time)
    of_numbers = {
        name: numbers_in_column(path, data, name)
        for name in (*columns.target, *columns.known, *columns.past, *columns.fixed)
    }
    found = _rows(data, columns, path, times)
    frequency = _frequency(found, columns, times, path)
    series = [_on_grid(one, columns, times, of_numbers, frequency, path) for one in found]
    for one in series:
        if np.isnan(one.values).all():
            raise DataError(f"{path}: series {one.name}: all values are missing")
    used = {columns.series, columns.time, *of_numbers}
    return SeriesTable(
        [one if future else _without_future(one) for one in series], frequency, columns,
        {"name": path.name, "rows": len(data), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()},
        tuple(name for name in data.column_names if name not in used),
    )  # fmt: skip


def _guessed(data: Dataset, place: str, asked: Columns) -> Columns:
    """The columns with all that is None or () replaced by what is obvious."""
    names, time = data.column_names, time_column_of(data, place, asked.time)
    usual = [name for name in names if name.lower() in SERIES_COLUMNS]
    series = asked.series or (usual[0] if len(usual) == 1 else None)
    for name in (series, *asked.target, *asked.known, *asked.past, *asked.fixed):
        if name is not None:
            column_of(names, place, "series", name, ())
    roles = [name for name in (time, series, *asked.known, *asked.past, *asked.fixed) if name]
    if asked.target:
        target = asked.target
    elif series is not None:
        target = (column_of(names, place, "target", None, TARGET_COLUMNS),)
    else:
        target = tuple(name for name in names if name not in roles)
    twice = next((name for name in (*roles, *target) if (*roles, *target).count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{place}: column {twice!r} is given two roles")
    if not target:
        raise DataError(f"{place}: no column is left to forecast beside {', '.join(roles)}; name it with --target")
    if series is not None and len(target) > 1:
        got = ", ".join(target)
        raise DataError(f"{place}: a table with a column of series ({series}) has one --target, got {got}")
    return asked._replace(time=time, series=series, target=target)


def _rows(data: Dataset, columns: Columns, path: Path, times: np.ndarray) -> list[_Rows]:
    """The rows of each series; times of a series must rise."""
    if columns.series is None:
        groups = {name: np.arange(len(data)) for name in columns.target}
    else:
        names = np.array([str(name) for name in data[columns.series]])
        _, first, inverse = np.unique(names, return_index=True, return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(inverse[order])) + 1)
        groups = {str(names[part[0]]): part for part in sorted(parts, key=lambda part: first[inverse[part[0]]])}
    for name, rows in groups.items():
        steps = np.diff(times[rows])
        wrong = np.flatnonzero(steps <= np.zeros(1, steps.dtype))
        if len(wrong):
            row = int(rows[wrong[0] + 1])
            word = "twice" if times[row] == times[rows[wrong[0]]] else "after a later one"
            where = f"{path}: row {row + 1}, column {columns.time!r}"
            hint = "" if columns.series else _column_of_series(data, columns, times)
            raise DataError(f"{where}: series {name} has {data[columns.time][row]} {word}{hint}")
        if columns.series is None:
            break  # all have the same times
    return [
        _Rows(name, rows, columns.target[0] if columns.series is not None else name) for name, rows in groups.items()
    ]


def _column_of_series(data: Dataset, columns: Columns, times: np.ndarray) -> str:
    """What to do where times rise for each value of a column of text, such as the names of several series."""
    for name in (name for name in data.column_names if name not in (columns.time, *columns.target)):
        found = data[name]
        if all(isinstance(value, str) for value in found):
            order = np.lexsort((np.arange(len(times)), found))
            same = np.array(found)[order][1:] == np.array(found)[order][:-1]
            if (np.diff(times[order])[same] > 0).all():
                return f"; if {name!r} holds the names of series, give --series-column {name}"
    return ""


def _frequency(found: list[_Rows], columns: Columns, times: np.ndarray, path: Path) -> Frequency:
    """The one of all series.

    Raises:
        DataError: two series have unequal ones, or none is to be seen.
    """
    if columns.frequency is not None:
        return as_frequency(columns.frequency)
    named: dict[str, tuple[Frequency, str]] = {}
    for one in found:
        own = frequency_of(times[one.rows])
        if own is not None:
            named.setdefault(str(own), (own, one.name))
        elif len(one.rows) > 2:
            raise DataError(
                f"{path}: series {one.name}: its times are not on a regular grid; name the step with --frequency, such "
                "as h or D"
            )
    if not named:
        raise DataError(f"{path}: no series has the three times that show a frequency; name it with --frequency")
    if len(named) > 1:
        (first, _), (_, (_, other)) = next(iter(named.items())), list(named.items())[1]
        raise DataError(
            f"{path}: series of unequal frequency: {named[first][1]} has {first}, {other} has {list(named)[1]}; "
            "forecast them apart"
        )
    return next(iter(named.values()))[0]


def _on_grid(
    one: _Rows, columns: Columns, times: np.ndarray, numbers: dict[str, np.ndarray], frequency: Frequency, path: Path
) -> OneSeries:  # fmt: skip
    own = times[one.rows]
    try:
        grid = frequency.grid(own)
    except ValueError as error:
        raise DataError(f"{path}: series {one.name}: its times do not fit the frequency {frequency}") from error
    if len(grid) > MOST_GAPS * len(own) + 1000:
        raise DataError(
            f"{path}: series {one.name}: {len(own):,} times lie on a grid of {len(grid):,} ({frequency}); name another "
            "step with --frequency"
        )
    places = np.searchsorted(grid, own)
    same = np.isclose if frequency.step else np.equal
    off = ~same(grid[np.minimum(places, len(grid) - 1)], own)
    if off.any():
        row = int(one.rows[int(off.argmax())])
        raise DataError(
            f"{path}: row {row + 1}, column {columns.time!r}: {own[int(off.argmax())]} of series {one.name} is not on "
            f"the grid of its other times ({frequency})"
        )

    if len(places) > 2 and np.diff(places).min() > 1:
        raise DataError(
            f"{path}: series {one.name}: no two of its times are one step apart ({frequency}); its own step is longer"
        )

    def laid(names: tuple[str, ...], kind: type) -> np.ndarray:
        found: np.ndarray = np.full((len(grid), len(names)), np.nan, kind)
        for column, name in enumerate(names):
            found[places, column] = numbers[name][one.rows]
        return found

    fixed = laid(columns.fixed, np.float32)[places]
    other = (fixed != fixed[:1]) & ~(np.isnan(fixed) & np.isnan(fixed[:1]))
    changing = other.any(0)
    if changing.any():
        column = columns.fixed[int(changing.argmax())]
        row = int(one.rows[int(other[:, int(changing.argmax())].argmax())])
        raise DataError(f"{path}: row {row + 1}, column {column!r}: changes within series {one.name}, which is --fixed")
    return OneSeries(
        one.name, grid, laid((one.target,), np.float64)[:, 0], laid(columns.known, np.float32),
        laid(columns.past, np.float32), fixed[0],
    )  # fmt: skip


def _without_future(one: OneSeries) -> OneSeries:
    """Up to the last value: what follows are times that nothing is known of."""
    last = int(np.flatnonzero(~np.isnan(one.values))[-1]) + 1
    return OneSeries(one.name, one.times[:last], one.values[:last], one.known[:last], one.past[:last], one.fixed)
