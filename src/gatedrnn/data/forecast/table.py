"""Tables of time series to forecast: columns with roles, one frequency, gaps marked; one ships with a library."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gatedrnn.data.date_forms import full_order
from gatedrnn.data.forecast.frequency import NUMBERS, Frequency, frequency_of, named_alike
from gatedrnn.data.rows import RawTable
from gatedrnn.data.series.fields import Fields, holds_words
from gatedrnn.data.series.measurements import SERIES_COLUMNS, check_rising, numbers_in_column, times_in_column
from gatedrnn.data.settings import Decimal, Order
from gatedrnn.data.tables import (
    FILE,
    column_of,
    names_in_column,
    read_all_columns,
    reader,
    said_columns,
    without_row_numbers,
)
from gatedrnn.data.time_columns import LOOKED_AT, with_time_column
from gatedrnn.data.times import TimeForm, Times
from gatedrnn.data.windows import FLOAT32, OneSeries
from gatedrnn.errors import DataError
from gatedrnn.extras import require
from gatedrnn.records import Json

TARGET_COLUMNS = ("y", "value", "target")
MIN_STEPS = 3
"""The fewest steps of each series, where none of the columns has a usual name for them."""
MAX_GAPS = 20
"""Times of a series' grid over times that are in the file, at most: beyond, the frequency is wrong."""


class Columns(NamedTuple):
    """The roles of columns; None and () where they are guessed."""

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
    missing: tuple[str, ...] = ()
    """Fields that say that nothing was measured, beside the usual ones."""
    quoting: bool = False
    """Whether a TSV's fields may stand in quotation marks."""
    decimal: Decimal | None = None
    date_order: Order | None = None

    @property
    def fields(self) -> Fields:
        """The way in which a table's fields are read."""
        return Fields(self.missing, self.decimal, self.date_order)


@dataclass(frozen=True, eq=False)
class SeriesTable:
    """All series of a file."""

    series: list[OneSeries]
    frequency: Frequency
    columns: Columns
    """The roles of columns, none of them left to guess; `series` is None where the table is wide."""
    source: dict[str, Json]
    """Name, rows and sha256, without any path."""
    unused: tuple[str, ...] = ()
    """Columns that nothing reads, but those that only count the rows."""
    said: str = ""
    """A line that says which columns were taken as what."""
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """The type of each column, where the file has types."""


class _Rows(NamedTuple):
    """The rows of one series, in the order of time."""

    name: str
    rows: np.ndarray
    target: str


@reader
def read_table(path: Path, columns: Columns) -> SeriesTable:
    """The series of a CSV, TSV, JSON-lines or Parquet file; their last times may hold covariates alone.

    Args:
        path: the file.
        columns: what is known of its columns.

    Raises:
        DataError: a column is missing, a time is doubled or off the grid, a value is no finite number, or a series has
            no value at all; row and column are named.
    """
    data = read_all_columns(path, quoting=columns.quoting)
    place = str(path)
    if not len(data):
        raise DataError(f"{path}: there are columns but no rows")
    data, time = with_time_column(data, place, columns.time)
    times = times_in_column(path, data, time, columns.fields)
    columns = _guessed(data, place, columns, time, times)
    columns = columns._replace(date_order=columns.date_order or full_order(times.form.pattern))
    of_numbers = {
        name: numbers_in_column(path, data, name, columns.fields)
        for name in (*columns.target, *columns.known, *columns.past, *columns.fixed)
    }
    rows_of_series = _rows(data, columns, path, times)
    said = (
        " Rows are put in the order of time." if any((np.diff(rows.rows) < 0).any() for rows in rows_of_series) else ""
    )
    frequency, times = _frequency_and_times(rows_of_series, columns, times, path)
    series = [_on_grid(rows, columns, times, of_numbers, frequency, path) for rows in rows_of_series]
    for on_grid, rows in zip(series, rows_of_series, strict=True):
        if np.isnan(on_grid.values).all():
            raise DataError(f"{path}: series {on_grid.name}: all values are missing")
        _check_float32(rows, of_numbers[rows.target], path)
    others = [name for name in data.column_names if name not in (columns.series, columns.time)]
    names, left_out = without_row_numbers(data, others, list(of_numbers))
    wide = columns.series is None
    roles = {
        f"time ({times.form})": columns.time, "series": columns.target if wide else columns.series,
        "target": () if wide else columns.target, "known": columns.known, "past": columns.past, "fixed": columns.fixed,
    }  # fmt: skip
    return SeriesTable(
        series, frequency, columns,
        {"name": path.name, "rows": len(data), "sha256": data.sha256},
        tuple(name for name in names if name not in of_numbers),
        said_columns(path.name, roles, data.column_names, left_out) + said, data.types,
    )  # fmt: skip


def _guessed(data: RawTable, place: str, asked: Columns, time: str, times: Times) -> Columns:
    """The columns with all that is None or () replaced by what is obvious."""
    names = data.column_names
    usual = [name for name in names if name.lower() in SERIES_COLUMNS]
    rows = {name for name in usual if len(set(data[name])) == len(data)}
    several = [name for name in usual if name not in rows]
    series = asked.series or (several[0] if len(several) == 1 else None)
    others = [name for name in names if name not in (time, *asked.target) and name.lower() not in TARGET_COLUMNS]
    if series is None and (len(others) + len(asked.target) > 1 or FILE in names) and _come_again(times):
        series = FILE if FILE in names else _column_of_series(data, place, others, times.order)
    for name in (series, *asked.target, *asked.known, *asked.past, *asked.fixed):
        if name is not None:
            column_of(names, place, "series", name, ())
    roles = [name for name in (time, series, *asked.known, *asked.past, *asked.fixed) if name is not None]
    rest = [name for name in names if name not in (*roles, FILE) and name not in rows]
    rest = without_row_numbers(data, rest, TARGET_COLUMNS)[0]
    numbers = [name for name in rest if not holds_words(data[name][:LOOKED_AT], asked.fields)] or rest
    target = asked.target or tuple(numbers)
    if series is not None and not asked.target and len(numbers) != 1:
        target = (column_of(names, place, "target", None, TARGET_COLUMNS),)
    twice = next((name for name in (*roles, *target) if (*roles, *target).count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{place}: column {twice!r} is given two roles")
    if not target:
        raise DataError(f"{place}: no column is left to forecast beside {', '.join(roles)}; name it with --target")
    if series is not None and len(target) > 1:
        got = ", ".join(target)
        raise DataError(f"{place}: a table with a column of series ({series}) has one --target, got {got}")
    return asked._replace(time=time, series=series, target=target)


def _come_again(times: Times) -> bool:
    return len(np.unique(times.order)) < len(times.order)


def _rows(data: RawTable, columns: Columns, path: Path, times: Times) -> list[_Rows]:
    """The rows of each series, in the order of time; no two have one time."""
    if columns.series is None:
        groups = {name: np.arange(len(data)) for name in columns.target}
    else:
        names = np.array(names_in_column(data, str(path), columns.series))
        _, first, inverse = np.unique(names, return_index=True, return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(inverse[order])) + 1)
        groups = {str(names[part[0]]): part for part in sorted(parts, key=lambda part: first[inverse[part[0]]])}
    assert columns.time is not None
    groups = {name: rows[np.argsort(times.order[rows], kind="stable")] for name, rows in groups.items()}
    for name, rows in groups.items():
        check_rising(path, data, columns.time, times, name, rows)
        if columns.series is None:
            break  # all have the same times
    return [
        _Rows(name, rows, columns.target[0] if columns.series is not None else name) for name, rows in groups.items()
    ]


def _column_of_series(data: RawTable, place: str, names: Sequence[str], order: np.ndarray) -> str | None:
    """The column whose values part rows at the same times into series of some length.

    Raises:
        DataError: several do, each in its own way.
    """
    names_by_bytes: dict[bytes, str] = {}
    for name in names:
        values = [str(value) for value in data[name]]
        _, first, inverse, counts = np.unique(values, return_index=True, return_inverse=True, return_counts=True)
        rows = np.lexsort((order, inverse))
        again = (inverse[rows][1:] == inverse[rows][:-1]) & (order[rows][1:] == order[rows][:-1])
        if len(counts) > 1 and counts.min() >= MIN_STEPS and not again.any():
            names_by_bytes.setdefault(first[inverse].tobytes(), name)
    if len(names_by_bytes) > 1:
        several = ", ".join(map(repr, names_by_bytes.values()))
        raise DataError(
            f"{place}: times come more than once: which column holds the series? {several} could be it; name it with "
            "--series-column"
        )
    return next(iter(names_by_bytes.values()), None)


def _frequency_and_times(
    rows_of_series: list[_Rows], columns: Columns, times: Times, path: Path
) -> tuple[Frequency, Times]:  # fmt: skip
    """The one of all series, and times on the axis where it is regular: hours pass whatever clocks do, days and months
    go by the calendar of the zone.

    Raises:
        DataError: two series have unequal ones, or none is to be seen.
    """
    *instants, wall = times.axes()
    for some in instants:
        try:
            frequency = _frequency(rows_of_series, columns, some, path)
        except DataError:  # a series of days, over a change of its clock; or it is said below
            continue
        if frequency.within_a_day and all(
            (frequency.places(some.values[rows.rows]) >= 0).all() for rows in rows_of_series
        ):
            return frequency, some
    return _frequency(rows_of_series, columns, wall, path), wall


def _frequency(rows_of_series: list[_Rows], columns: Columns, times: Times, path: Path) -> Frequency:
    if columns.frequency is not None:
        return _named_frequency(columns.frequency, rows_of_series, columns, times, path)
    named: dict[str, tuple[Frequency, str]] = {}
    for rows in rows_of_series:
        step_of_rows = frequency_of(times.values[rows.rows])
        if step_of_rows is not None:
            named.setdefault(str(step_of_rows), (step_of_rows, rows.name))
        elif len(rows.rows) > 2:
            raise DataError(_irregular(rows, columns, times, path))
    if not named:
        raise DataError(f"{path}: no series has the three times that show a frequency; name it with --frequency")
    for frequency, _ in named.values():
        if len(named) == 1 or all(_suits(frequency, times.values[rows.rows]) for rows in rows_of_series):
            return frequency
    (first, (_, one_name)), (second, (_, other)) = list(named.items())[:2]
    raise DataError(
        f"{path}: series of unequal frequency: {one_name} has {first}, {other} has {second}; forecast them apart"
    )


def _suits(frequency: Frequency, times: np.ndarray) -> bool:
    """Whether times lie on its grid, and some of them a step apart."""
    if frequency.length(times) > _most_steps(times):
        return False
    places = frequency.places(times)
    return bool((places >= 0).all()) and (len(places) < 3 or int(np.diff(places).min()) == 1)


def _most_steps(times: np.ndarray) -> int:
    return MAX_GAPS * len(times) + 1000


def _named_frequency(name: str, rows_of_series: list[_Rows], columns: Columns, times: Times, path: Path) -> Frequency:
    """The one that is asked for, where it is one of such times; of a name that may mean several, that of these."""
    what = f"--frequency {name}: column {columns.time!r} of {path.name} holds {times.form}"
    frequency, *others = named_alike(name)
    if times.form.kind == "numbers" and frequency.name != NUMBERS:
        raise DataError(f"{what}; give the step as a number, or write dates such as 2024-01-31")
    if times.form.kind != "numbers" and frequency.name == NUMBERS:
        raise DataError(f"{what}; give a step such as h, 15min, D, W or MS")
    if times.form.kind == "clock" and frequency.nanoseconds is None:
        raise DataError(f"{what}; give a step such as h or 15min")
    alike = (
        candidate
        for candidate in (frequency, *others)
        if all((candidate.places(times.values[r.rows]) >= 0).all() for r in rows_of_series)
    )
    return next(alike, frequency) if others else frequency.of_years(np.sort(times.order))


def _irregular(rows: _Rows, columns: Columns, times: Times, path: Path) -> str:
    """The message on times without a regular grid."""
    said, moments = f"{path}: series {rows.name}: its times are not on a regular grid", times.values[rows.rows]
    if times.form.kind == "dates" and len(np.unique(moments.astype("datetime64[M]"))) == len(moments):
        return f"{said}; where each row is a month, write the first day of it"
    steps, counts = np.unique(np.diff(moments), return_counts=True)
    with np.errstate(over="ignore", invalid="ignore"):
        ratios = np.diff(moments) / steps[counts.argmax()]
        step = int(np.abs(ratios - np.rint(ratios)).argmax())
    before, after = times.form.written(moments[step : step + 2])
    such = "" if times.form.kind == "numbers" else ", such as h or D"
    return (
        f"{said}: row {rows.rows[step + 1] + 1}, column {columns.time!r}, has {after} after {before}, which is no "
        f"whole number of the most frequent step; mend it, or name the step with --frequency{such}"
    )


def _on_grid(
    raw: _Rows, columns: Columns, times: Times, numbers: dict[str, np.ndarray], frequency: Frequency, path: Path
) -> OneSeries:  # fmt: skip
    moments = times.values[raw.rows]
    places, length = frequency.places(moments), int(frequency.length(moments)) + 1
    if length > _most_steps(moments):
        raise DataError(
            f"{path}: series {raw.name}: {len(moments):,} times lie on a grid of {length:,} ({frequency}); name "
            "another step with --frequency"
        )
    off = np.flatnonzero((places < 0) | (np.diff(places, prepend=-1) == 0))
    if len(off):
        row, written = int(raw.rows[off[0]]), times.form.written(moments[off[:1]])[0]
        raise DataError(
            f"{path}: row {row + 1}, column {columns.time!r}: {written} of series {raw.name} is not on the grid of its "
            f"other times ({frequency})"
        )

    if len(places) > 2 and np.diff(places).min() > 1:
        raise DataError(
            f"{path}: series {raw.name}: no two of its times are one step apart ({frequency}): its own step is longer, "
            "or not regular; name it with --frequency"
        )
    grid, form = frequency.grid(moments), frequency.form(times.form)

    def laid(names: tuple[str, ...]) -> np.ndarray:
        on_grid: np.ndarray = np.full((len(grid), len(names)), np.nan)
        for column, name in enumerate(names):
            on_grid[places, column] = numbers[name][raw.rows]
        return on_grid

    fixed = laid(columns.fixed)[places]
    other = (fixed != fixed[:1]) & ~(np.isnan(fixed) & np.isnan(fixed[:1]))
    changing = other.any(0)
    if changing.any():
        column = columns.fixed[int(changing.argmax())]
        row = int(raw.rows[int(other[:, int(changing.argmax())].argmax())])
        raise DataError(f"{path}: row {row + 1}, column {column!r}: changes within series {raw.name}, which is --fixed")
    return OneSeries(
        raw.name, grid, laid((raw.target,))[:, 0], laid(columns.known), laid(columns.past), fixed[0], form
    )  # fmt: skip


def _check_float32(raw: _Rows, numbers: np.ndarray, path: Path) -> None:
    """Check that float32 holds each value in units of any window, which are no less than the least step between two."""
    rows = raw.rows[~np.isnan(numbers[raw.rows])]
    off, steps = np.abs(numbers[rows] - np.median(numbers[rows])), np.abs(np.diff(numbers[rows]))
    least = steps[steps > 0].min(initial=np.inf)
    if off.max() / least > FLOAT32 / len(rows):
        row = int(rows[off.argmax()])
        raise DataError(
            f"{path}: row {row + 1}, column {raw.target!r}: {numbers[row]:g} does not fit float32 beside values of "
            f"series {raw.name} that differ by {least:g}"
        )


def until_last_values(table: SeriesTable) -> SeriesTable:
    """The table with each series cut after its last value: nothing is known of later times."""

    def cut(series: OneSeries) -> OneSeries:
        last = int(np.flatnonzero(~np.isnan(series.values))[-1]) + 1
        parts = {name: getattr(series, name)[:last] for name in ("times", "values", "known", "past")}
        return replace(series, **parts)

    return replace(table, series=[cut(series) for series in table.series])


def weekly_co2() -> SeriesTable:
    """Carbon dioxide above Mauna Loa in parts per million, 2,284 weeks from 1958 to 2001, 59 of them missing; as it
    ships with statsmodels (C. D. Keeling and T. P. Whorf, Scripps Institution of Oceanography)."""
    require("series")
    from statsmodels.datasets import co2

    data = co2.load_pandas().data
    values = data["co2"].to_numpy(np.float64)
    times = data.index.to_numpy().astype("datetime64[ns]")
    nothing = np.empty((len(values), 0))
    return SeriesTable(
        [OneSeries("co2", times, values, nothing, nothing, np.empty(0), TimeForm("dates"))],
        Frequency("W-SAT"), Columns(("co2",), None, "date", frequency="W-SAT"),
        {"name": "statsmodels' co2", "rows": len(values), "sha256": hashlib.sha256(values.tobytes()).hexdigest()},
    )  # fmt: skip
