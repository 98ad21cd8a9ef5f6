"""Tables of time series to forecast: columns with roles, one frequency, gaps marked; one ships with a library."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pyarrow as pa

from gatedrnn.data.windows import FLOAT32, OneSeries
from gatedrnn.errors import DataError, Question
from gatedrnn.records import Json
from gatedrnn.tables.date_forms import full_order
from gatedrnn.tables.files import (
    FILE,
    FOLDER,
    Source,
    column_of,
    names_in_column,
    read_csv,
    read_table,
    reader,
    said_columns,
    without_row_numbers,
)
from gatedrnn.tables.frequency import NUMBERS, Frequency, frequency_of, frequency_to_gather, named_alike
from gatedrnn.tables.keys import SERIES_COLUMNS, as_line, find_keys, is_constant, split_line, with_key_column
from gatedrnn.tables.layout import has_no_times, is_made, times_as_rows, with_steps
from gatedrnn.tables.numbers import (
    holds_flags,
    holds_words,
    missing_words,
    numbers_in_column,
    sentinels_of,
    unit_of_column,
)
from gatedrnn.tables.options import (
    AS_SHOWN,
    Absent,
    Decimal,
    DialectOptions,
    Duplicates,
    Fields,
    LastStep,
    Order,
    Thousands,
)
from gatedrnn.tables.questions import ask_at_once, first_rows
from gatedrnn.tables.table import Table
from gatedrnn.tables.time_columns import are_values, is_of_calendar, may_be_times, with_names_of_parts, with_time_column
from gatedrnn.tables.times import (
    TimeForm,
    Times,
    are_dates,
    check_rising,
    localized,
    times_in_column,
    zone_of_turning_clocks,
)

_TARGET_COLUMNS = ("y", "value", "target")
PARTIAL, MIN_BEFORE_PARTIAL = 0.5, 30
"""The part of the least value before that a last value is below where its step is not over, and the values that show
it.
"""
_MIN_AHEAD = 4
"""Steps at least for which a column goes on after another, where its future may be known."""
_MAX_GAPS = 20
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
    dialect: DialectOptions = AS_SHOWN
    decimal: Decimal | None = None
    date_order: Order | None = None
    thousands: Thousands | None = None
    duplicates: Duplicates | None = None
    absent: Absent = "missing"
    zone: str | None = None
    last_step: LastStep | None = None
    keys: tuple[str, ...] = ()
    """The columns that name a series together; () where one does."""
    rows_are_steps: bool = False
    """Whether rows are steps, so that no column holds times."""
    columns_are_steps: bool = False
    """Whether a row is a series, and its columns are steps."""

    @property
    def fields(self) -> Fields:
        """The way in which a table's fields are read."""
        return Fields(self.missing, self.decimal, self.date_order, self.thousands)


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


@dataclass(frozen=True)
class Grid:
    """The times on which the series of a table lie."""

    frequency: str
    series: int
    steps: tuple[int, int]
    """The fewest and the most steps of a series."""
    first: str
    """The first time of all series, as the file writes it."""
    last: str
    zone: str | None
    absent: Absent

    def __str__(self) -> str:
        few, many = self.steps
        steps = f"{many:,} steps" if few == many else f"{few:,} to {many:,} steps, each from its own begin to its end"
        series = "1 series" if self.series == 1 else f"{self.series:,} series"
        zone = "" if self.zone is None else f", zone {'UTC' if self.zone == 'Z' else self.zone}"
        absent = ", steps without a row are 0" if self.absent == "zero" else ""
        return f"{self.frequency}, {series} of {steps}, {self.first} to {self.last}{zone}{absent}"


def grid_of(table: SeriesTable) -> Grid:
    """The grid of a table."""
    lengths = [len(one.times) for one in table.series]
    first = min(table.series, key=lambda one: one.times[0])
    last = max(table.series, key=lambda one: one.times[-1])
    return Grid(
        str(table.frequency), len(lengths), (min(lengths), max(lengths)), str(first.form.written(first.times[:1])[0]),
        str(last.form.written(last.times[-1:])[0]), first.form.zone, table.columns.absent,
    )  # fmt: skip


class _Rows(NamedTuple):
    """The rows of one series, in the order of time."""

    name: str
    rows: np.ndarray
    target: str


@reader
def read_series_table(source: Source, columns: Columns) -> SeriesTable:
    """The series of a CSV, TSV, JSON-lines or Parquet file or of a table; their last times may hold covariates alone.

    Args:
        source: the file, or the table.
        columns: what is known of its columns.

    Raises:
        DataError: a column is missing, a time is doubled or off the grid, a value is no finite number, or a series has
            no value at all; row and column are named.
    """
    data = read_table(source, columns.dialect)
    if not len(data):
        raise DataError(f"{data.place}: there are columns but no rows")
    try:
        return ask_at_once(lambda answers: _read(data, _answered(columns, answers)))
    except Question as question:
        question.rows = first_rows(data)
        raise


_AS_COLUMNS = {"series_column": "series", "time_column": "time"}
"""The settings that `Columns` has by another name."""


def _answered(columns: Columns, answers: Mapping[str, Sequence[str]]) -> Columns:
    """Add answers of the caller to what is known of columns."""
    fields = dict[str, Any]()
    for setting, value in answers.items():
        name = _AS_COLUMNS.get(setting, setting)
        if name in _AS_COLUMNS.values():
            fields[name] = ",".join(value)
        elif name in ("target", "known", "past", "fixed", "missing"):
            fields[name] = tuple(value)
        else:
            fields[name] = value[0] if value else True
    return columns._replace(**fields)


def _read(data: Table, columns: Columns) -> SeriesTable:
    place, data = data.place, with_names_of_parts(data)
    if is_made(columns.time, data):
        columns = columns._replace(time=None)
    data, turned = (
        times_as_rows(data, place, columns.frequency, columns_are_steps=columns.columns_are_steps)
        if columns.time is None and not columns.rows_are_steps else (data, "")
    )  # fmt: skip
    if columns.series is not None:
        data, named, keys = with_key_column(data, place, columns.series)
        columns = columns._replace(series=named, keys=keys)
    data, time, counted = _with_times(data, place, columns)
    times = times_in_column(data, time, columns.date_order)
    guessed = not columns.target
    columns, data = _guessed(data, place, columns, time, times)
    columns = columns._replace(date_order=columns.date_order or full_order(times.form.pattern))
    of_numbers = {
        name: numbers_in_column(data, name, columns.fields)
        for name in (*columns.target, *columns.known, *columns.past, *columns.fixed)
    }
    measured = _sentence_on_sentinels(of_numbers)
    with_unit = [name for name in of_numbers if unit_of_column(data.head(name), columns.fields)]
    units = {name: unit_of_column(data[name], columns.fields) for name in with_unit}
    in_units = f"Units: {', '.join(f'{name!r} in {unit}' for name, unit in units.items())}." if units else ""
    times, there, zoned = _in_zone(data, columns, times, of_numbers)
    times, gathered = _gathered(columns, times)
    rows_of_series = _rows(data, columns, times, of_numbers, there)
    rows_of_series, unmeasured = _measured_rows(rows_of_series, of_numbers, place)
    said = (
        " Rows are put in the order of time." if any((np.diff(rows.rows) < 0).any() for rows in rows_of_series) else ""
    )
    frequency, times = _frequency_and_times(rows_of_series, columns, times, place)
    series = [_on_grid(rows, columns, times, of_numbers, frequency, place) for rows in rows_of_series]
    for rows in rows_of_series:
        _check_float32(rows, of_numbers[rows.target], place)
    series, partial = _without_partial_step(series, columns)
    ragged = _ragged_ends(series, columns, frequency, data, place) if columns.series is None and guessed else ""
    said += "".join(
        f" {sentence}"
        for sentence in (turned, counted, measured, in_units, zoned, gathered, unmeasured, partial, ragged)
        if sentence
    )
    others = [name for name in data.column_names if name not in (columns.series, columns.time, *columns.keys)]
    names, left_out = without_row_numbers(data, others, list(of_numbers))
    wide = columns.series is None
    roles = {
        f"time ({times.form})": columns.time, "series": columns.target if wide else columns.keys or columns.series,
        "target": () if wide else columns.target, "known": columns.known, "past": columns.past, "fixed": columns.fixed,
    }  # fmt: skip
    return SeriesTable(
        series, frequency, columns,
        {"name": data.name, "rows": len(data), "sha256": data.sha256},
        tuple(name for name in names if name not in of_numbers),
        said_columns(data.name, roles, [columns.time or "", *columns.keys, *others], left_out) + said, data.types,
    )  # fmt: skip


def _with_times(data: Table, place: str, columns: Columns) -> tuple[Table, str, str]:
    """The table, its column of times, and a sentence on rows that are steps.

    Raises:
        Question: several columns could hold times, or some could, and none has a usual name.
    """
    if columns.time is None and are_values(data.column_names) and has_no_times(data.without_header()):
        data = data.without_header()
    if columns.rows_are_steps or (columns.time is None and has_no_times(data)):
        series = columns.series or next((name for name in data.column_names if name.lower() in SERIES_COLUMNS), None)
        data, time = with_steps(data, series)
        said = "" if columns.rows_are_steps else "No column holds times: each row is a step; --time-column names one."
        return data, time, said
    try:
        return *with_time_column(data, place, columns.time), ""
    except Question as question:
        if any(are_dates(data.head(name)) for name in data.column_names):
            raise
        raise Question(question.asked, [*question.answers, {"rows_are_steps": ()}]) from question


def _guessed(data: Table, place: str, asked: Columns, time: str, times: Times) -> tuple[Columns, Table]:
    """The columns with all that is None or () replaced by what is obvious, and the table with a column of series where
    several name one.
    """
    names = data.column_names
    usual = [name for name in names if name.lower() in SERIES_COLUMNS and not _is_mostly_blank(data[name])]
    rows = {name for name in usual if len(set(data[name])) == len(data)}
    several = [name for name in usual if name not in rows]
    series = asked.series or (several[0] if len(several) == 1 else None)
    others = [
        name for name in names if name not in (time, FOLDER, *asked.target) and name.lower() not in _TARGET_COLUMNS
    ]
    if series is None and (len(names) > 2 or FILE in names) and _come_again(times):
        series = FILE if FILE in names else find_keys(data, place, others, times.order)
        if series is not None:
            data, series, keys = with_key_column(data, place, series)
            asked, names = asked._replace(keys=keys), data.column_names
    for name in (series, *asked.target, *asked.known, *asked.past, *asked.fixed):
        if name is not None:
            column_of(names, place, "series", name, ())
    named = (time, series, *asked.keys, *asked.known, *asked.past, *asked.fixed)
    roles = [name for name in named if name is not None]
    rest = [name for name in names if name not in (*roles, FILE, FOLDER) and name not in rows]
    rest = without_row_numbers(data, rest, _TARGET_COLUMNS)[0]
    numbers = [
        name for name in rest
        if not _holds_words(data, name, asked.fields) and not are_dates(data.head(name))
    ] or rest  # fmt: skip
    numbers = [name for name in numbers if not data.holds(name, partial(holds_flags, fields=asked.fields))] or numbers
    numbers = [name for name in numbers if not data.holds(name, partial(is_of_calendar, name))] or numbers
    if asked.rows_are_steps:
        numbers = [name for name in numbers if not data.holds(name, may_be_times)] or numbers
    target = asked.target or tuple(numbers)
    if series is not None and not asked.target and len(numbers) != 1:
        shown = [name for name in names if name not in (series, time) or not asked.keys]
        shown = [name for name in shown if name not in asked.keys]
        changing = [name for name in numbers if not is_constant(data, series, name)] or numbers
        try:
            one = changing[0] if len(changing) == 1 else None
            target = (column_of(shown, place, "target", one, _TARGET_COLUMNS, plausible=changing),)
        except Question as question:
            answers = [*question.answers, {"target": changing}] if len(changing) > 1 else question.answers
            raise Question(question.asked, answers) from question
    twice = next((name for name in (*roles, *target) if (*roles, *target).count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{place}: column {twice!r} is given two roles")
    if not target:
        raise DataError(f"{place}: no column is left to forecast beside {', '.join(roles)}; name it with --target")
    return asked._replace(time=time, series=series, target=target), data


def _holds_words(data: Table, name: str, fields: Fields) -> bool:
    """Whether a column holds words, by its first rows; by all where these say nothing."""
    says_nothing = missing_words(fields)
    first = data.head(name)
    blank = all(value is None or str(value).strip().lower() in says_nothing for value in first)
    return holds_words(data[name] if blank else first, fields)


def _sentence_on_sentinels(numbers: Mapping[str, np.ndarray]) -> str:
    """A sentence on numbers that may say that nothing was measured."""
    found = {name: words for name, column in numbers.items() if (words := sentinels_of(column))}
    if not found:
        return ""
    words = sorted({word for words in found.values() for word in words})
    return (
        f"{', '.join(words)} in {', '.join(map(repr, found))} is read as a number, far from all others: --missing "
        f"{' '.join(words)} reads it as missing."
    )


def _is_mostly_blank(values: Sequence[object]) -> bool:
    """Whether many rows have no value, as where a line of an order is told by the line above."""
    return sum(value is None or not str(value).strip() for value in values) > _MAX_BLANK * len(values)


_MAX_BLANK = 0.2
"""The part of the rows, at most, that lack the name of their series by mistake."""


def _gathered(columns: Columns, times: Times) -> tuple[Times, str]:
    """Dates that lie within steps of a frequency that is asked for, with the rows of a step in one: at its begin; and a
    sentence on it. Times on the grid of the frequency stay.
    """
    if columns.frequency is None or columns.duplicates is None or times.form.kind != "dates":
        return times, ""
    frequency, *others = named_alike(columns.frequency)
    # Steps begin by the clock of the zone: an hour of India at half past by that of Greenwich.
    off = times.values - frequency.floor(times.values)
    if any(len(np.unique(times.values - alike.floor(times.values))) == 1 for alike in (frequency, *others)):
        return times, ""
    row = {"first": "the first row", "last": "the last row", "mean": "the mean", "sum": "the sum"}[columns.duplicates]
    said = f"Of the rows within a step of {frequency}, {row} counts."
    instants = None if times.instants is None else times.instants - off
    if frequency.within_a_day:
        return Times(times.values - off, times.form, instants), said
    form = replace(times.form, hours=False, decimals=0, zone=None)
    return Times(times.values - off, form), said


def _come_again(times: Times) -> bool:
    return len(np.unique(times.order)) < len(times.order)


def _rows(
    data: Table, columns: Columns, times: Times, numbers: dict[str, np.ndarray], there: np.ndarray
) -> list[_Rows]:  # fmt: skip
    """The rows of each series, in the order of time; no two have one time. Of several that have, one stands for all,
    and its numbers are changed where it is their mean or sum.

    Args:
        there: (rows,), whether each is read.
    """
    if columns.series is None:
        groups = dict.fromkeys(columns.target, np.flatnonzero(there))
    else:
        names = np.array(names_in_column(data, data.place, columns.series))
        _, first, inverse = np.unique(names, return_index=True, return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        order = order[there[order]]
        parts = np.split(order, np.flatnonzero(np.diff(inverse[order])) + 1)
        groups = {str(names[part[0]]): part for part in sorted(parts, key=lambda part: first[inverse[part[0]]])}
    assert columns.time is not None
    groups = {name: rows[np.argsort(times.order[rows], kind="stable")] for name, rows in groups.items()}
    for name, rows in list(groups.items()):
        if columns.duplicates is None:
            try:
                check_rising(data, columns.time, times, name, rows)
            except DataError as error:
                raise Question(str(error), _answers_for_doubled_times(data, columns, times)) from error
        else:
            groups[name] = _one_a_time(rows, times, columns, numbers, last=name == [*groups][-1])
        if columns.series is None and columns.duplicates is None:
            break  # all have the same times
    if columns.series is None:
        return [_Rows(name, rows, name) for name, rows in groups.items()]
    if len(columns.target) == 1:
        return [_Rows(name, rows, columns.target[0]) for name, rows in groups.items()]
    keys = {name: split_line(name) if columns.keys else [name] for name in groups}
    return [_Rows(as_line([*keys[n], target]), rows, target) for n, rows in groups.items() for target in columns.target]


def _answers_for_doubled_times(data: Table, columns: Columns, times: Times) -> list[Mapping[str, Sequence[str]]]:
    """The settings that help where a series has a time twice."""
    keys = None
    with suppress(DataError):
        used = (columns.time, *columns.target, *columns.known, *columns.past, *columns.fixed)
        keys = find_keys(data, "", [name for name in data.column_names if name not in used], times.order)
    named = [] if keys in (None, columns.series) else [{"series_column": keys.split(",")}]
    if times.form.kind == "dates" and not named and _are_uneven(np.unique(times.values)):
        return _answers_for_uneven_times(times.values, times.form)
    return [*named, *({"duplicates": [row]} for row in get_args(Duplicates))]


def _are_uneven(moments: np.ndarray) -> bool:
    step = frequency_of(moments)
    return step is None or step.length(moments) > _most_steps(moments)


def _answers_for_uneven_times(moments: np.ndarray, form: TimeForm) -> list[Mapping[str, Sequence[str]]]:
    """The settings that gather dates in steps: measurements by their mean, amounts by their sum; none of numbers."""
    if form.kind != "dates":
        return []
    step = frequency_to_gather(np.unique(moments))
    return [
        {"frequency": [step], "duplicates": ["mean"]},
        {"frequency": [step], "duplicates": ["sum"], "absent": ["zero"]},
    ]


def _one_a_time(
    rows: np.ndarray, times: Times, columns: Columns, numbers: dict[str, np.ndarray], *, last: bool
) -> np.ndarray:  # fmt: skip
    """One row for each time."""
    moments = times.order[rows]
    begins = np.flatnonzero(np.append(True, moments[1:] != moments[:-1]))
    if columns.duplicates == "last":
        return rows[np.append(begins[1:], len(rows)) - 1]
    if columns.duplicates in ("mean", "sum") and (columns.series is not None or last):  # a wide table once
        for name in (*columns.target, *columns.known, *columns.past):
            values = numbers[name][rows]
            there = np.add.reduceat((~np.isnan(values)).astype(np.float64), begins)
            total = np.where(there > 0, np.add.reduceat(np.nan_to_num(values), begins), np.nan)
            with np.errstate(invalid="ignore", divide="ignore"):
                numbers[name][rows[begins]] = total / there if columns.duplicates == "mean" else total
    return rows[begins]


def _in_zone(
    data: Table, columns: Columns, times: Times, numbers: Mapping[str, np.ndarray]
) -> tuple[Times, np.ndarray, str]:  # fmt: skip
    """Times of a clock that goes back once a year, where it does: in the zone that is asked for, or in one whose clocks
    go back then; the rows that are read; and a sentence on it. Rows of hours that the clocks leave out are not read,
    where they have no value.

    Raises:
        DataError: there is a value in such an hour.
    """
    there = np.ones(len(times.values), bool)
    if times.form.kind != "dates" or times.instants is not None:
        return times, there, ""
    names = np.zeros(len(times.values), np.int64)
    if columns.series is not None:
        names = np.unique(names_in_column(data, data.place, columns.series), return_inverse=True)[1]
    # A grid operator writes a row for the hour that is left out, to have 24 each day.
    valued = np.any([~np.isnan(numbers[name]) for name in columns.target], axis=0)
    zone = columns.zone or zone_of_turning_clocks(times.values[valued & (names == names[0])])
    if zone is None:
        return times, there, ""
    zoned = localized(times, zone, names, data.place)
    assert zoned.instants is not None
    there = ~np.isnat(zoned.instants)
    if (wrong := np.flatnonzero(valued & ~there)).size:
        written = times.form.written(times.values[wrong[:1]])[0]
        raise DataError(f"{data.locate(columns.time or '')(int(wrong[0]))}: {written} is no time in {zone}")
    said = "" if columns.zone else f"Clocks go back: times are in {zone}; --zone names another."
    left_out = int((~there).sum())
    return zoned, there, said + (f" Rows of the hour that clocks leave out: {left_out}, not read." if left_out else "")


def _measured_rows(
    rows_of_series: list[_Rows], numbers: dict[str, np.ndarray], place: str
) -> tuple[list[_Rows], str]:  # fmt: skip
    """The series from their first value on, without those that have none, and a sentence on these.

    Raises:
        DataError: no series has a value.
    """
    there, empty = list[_Rows](), list[str]()
    for rows in rows_of_series:
        first = np.flatnonzero(~np.isnan(numbers[rows.target][rows.rows]))
        if len(first):
            there.append(rows._replace(rows=rows.rows[first[0] :]))
        else:
            empty.append(rows.name)
    if not there:
        raise DataError(f"{place}: series {empty[0]}: all values are missing")
    return there, f"Left out, as all values are missing: {', '.join(empty[:9])}." if empty else ""


def _ragged_ends(
    series: list[OneSeries], columns: Columns, frequency: Frequency, data: Table, place: str
) -> str:  # fmt: skip
    """A sentence on columns of a wide table that end at different times.

    Raises:
        DataError: one goes on for a season, so that its future may be known.
    """
    last = {one.name: one.times[np.flatnonzero(~np.isnan(one.values))[-1]] for one in series}
    first, end = min(last.values()), max(last.values())
    if first == end:
        return ""
    ahead = int(frequency.places(np.array([first, end]))[-1])
    shown = {name: series[0].form.written(np.array([time]))[0] for name, time in last.items()}
    if ahead >= max(_MIN_AHEAD, frequency.seasons[0]) and not (columns.known or columns.past):
        short = [name for name, time in last.items() if time == first]
        others = [name for name in data.column_names if name not in (columns.time, *short)]
        beyond = [name for name in others if not holds_words(data[name], columns.fields)]
        raise Question(
            f"{place}: {short[0]!r} ends at {shown[short[0]]}, and other columns go on for {ahead} steps: is their "
            "future known, or is each column forecast from its own end?",
            [{"target": short, "known": beyond}, {"target": [*last]}],
        )
    listed = ", ".join(f"{name} {time}" for name, time in list(shown.items())[:9])
    more = f" and {len(shown) - 9} more" if len(shown) > 9 else ""
    return f"Each column is forecast from its own end: {listed}{more}."


def _without_partial_step(series: list[OneSeries], columns: Columns) -> tuple[list[OneSeries], str]:
    """The series without a last step that is not over, and a sentence on it.

    Of a single series of sums, such as flights a day, the file may end within a step: its value is then far below all
    others.
    """
    first = series[0].values if len(series) == 1 or columns.series is None else np.empty(0)
    values = first[~np.isnan(first)]
    is_partial = len(values) > MIN_BEFORE_PARTIAL and 0 <= values[-1] < PARTIAL * values[:-1].min()
    if columns.last_step == "drop" and not len(values):
        raise DataError("--last-step drop is for one series; leave it out")
    if columns.last_step == "keep" or not (is_partial or columns.last_step == "drop"):
        return series, ""
    last = int(np.flatnonzero(~np.isnan(series[0].values))[-1])
    time = series[0].form.written(series[0].times[[last]])[0]
    cut = replace(series[0], values=np.where(np.arange(len(series[0].values)) == last, np.nan, series[0].values))
    return [cut, *series[1:]], (
        f"The last step, {time}, is left out: its value of {values[-1]:g} is less than half of any before, as of a "
        "step that is not over; --last-step keep reads it."
    )


def _frequency_and_times(
    rows_of_series: list[_Rows], columns: Columns, times: Times, place: str
) -> tuple[Frequency, Times]:  # fmt: skip
    """The one of all series, and times on the axis where it is regular: hours pass whatever clocks do, days and months
    go by the calendar of the zone.

    Raises:
        DataError: two series have unequal ones, or none is to be seen.
    """
    *instants, wall = times.axes()
    for some in instants:
        try:
            frequency = _frequency(rows_of_series, columns, some, place)
        except DataError:  # a series of days, over a change of its clock; or it is said below
            continue
        if frequency.within_a_day and all(
            (frequency.places(some.values[rows.rows]) >= 0).all() for rows in rows_of_series
        ):
            return frequency, some
    return _frequency(rows_of_series, columns, wall, place), wall


def _frequency(rows_of_series: list[_Rows], columns: Columns, times: Times, place: str) -> Frequency:
    if columns.frequency is not None:
        return _named_frequency(columns.frequency, rows_of_series, columns, times, place)
    named: dict[str, tuple[Frequency, str]] = {}
    seen = set[tuple[int, int]]()
    for rows in rows_of_series:
        part = int(rows.rows[0]), len(rows.rows)
        if columns.series is None and part in seen:  # the columns of a wide table have the same times
            continue
        seen.add(part)
        step_of_rows = frequency_of(times.values[rows.rows])
        if step_of_rows is not None:
            named.setdefault(str(step_of_rows), (step_of_rows, rows.name))
        elif len(rows.rows) > 2:
            series = {} if columns.series is None else {"series_column": columns.keys or (columns.series,)}
            steps = {"rows_are_steps": (), **series}
            by_step = _answers_for_uneven_times(times.values[rows.rows], times.form)
            raise Question(_irregular(rows, columns, times, place), [*by_step, steps])
    if not named:
        raise DataError(f"{place}: no series has the three times that show a frequency; name it with --frequency")
    for frequency, _ in named.values():
        if len(named) == 1 or all(_suits(frequency, times.values[rows.rows]) for rows in rows_of_series):
            return frequency
    (first, (_, one_name)), (second, (_, other)) = list(named.items())[:2]
    raise DataError(
        f"{place}: series of unequal frequency: {one_name} has {first}, {other} has {second}; forecast them apart"
    )


def _suits(frequency: Frequency, times: np.ndarray) -> bool:
    """Whether times lie on its grid, and some of them a step apart."""
    if frequency.length(times) > _most_steps(times):
        return False
    places = frequency.places(times)
    return bool((places >= 0).all()) and (len(places) < 3 or int(np.diff(places).min()) == 1)


def _most_steps(times: np.ndarray) -> int:
    return _MAX_GAPS * len(times) + 1000


def _named_frequency(name: str, rows_of_series: list[_Rows], columns: Columns, times: Times, place: str) -> Frequency:
    """The one that is asked for, where it is one of such times; of a name that may mean several, that of these."""
    what = f"--frequency {name}: column {columns.time!r} of {Path(place).name} holds {times.form}"
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


def _irregular(rows: _Rows, columns: Columns, times: Times, place: str) -> str:
    """The message on times without a regular grid."""
    said, moments = f"{place}: series {rows.name}: its times are not on a regular grid", times.values[rows.rows]
    if times.form.kind == "dates" and len(np.unique(moments.astype("datetime64[M]"))) == len(moments):
        return f"{said}; where each row is a month, write the first day of it"
    steps, counts = np.unique(np.diff(moments), return_counts=True)
    with np.errstate(over="ignore", invalid="ignore"):
        ratios = np.diff(moments) / steps[counts.argmax()]
        step = int(np.abs(ratios - np.rint(ratios)).argmax())
    before, after = times.form.written(moments[step : step + 2])
    return (
        f"{said}: row {rows.rows[step + 1] + 1}, column {columns.time!r}, has {after} after {before}, which is no "
        "whole number of the most frequent step"
    )


def _on_grid(
    raw: _Rows, columns: Columns, times: Times, numbers: dict[str, np.ndarray], frequency: Frequency, place: str
) -> OneSeries:  # fmt: skip
    moments = times.values[raw.rows]
    places, length = frequency.places(moments), int(frequency.length(moments)) + 1
    if length > _most_steps(moments):
        raise Question(
            f"{place}: series {raw.name}: {len(moments):,} times lie on a grid of {length:,} ({frequency}); name "
            "another step with --frequency", _answers_for_uneven_times(moments, times.form),
        )  # fmt: skip
    off = np.flatnonzero((places < 0) | (np.diff(places, prepend=-1) == 0))
    if len(off):
        row, written = int(raw.rows[off[0]]), times.form.written(moments[off[:1]])[0]
        raise Question(
            f"{place}: row {row + 1}, column {columns.time!r}: {written} of series {raw.name} is not on the grid of "
            f"its other times ({frequency})",
            [{"duplicates": [row_of]} for row_of in get_args(Duplicates)] if times.form.kind == "dates" else [],
        )  # fmt: skip

    if len(places) > 2 and np.diff(places).min() > 1:
        raise DataError(
            f"{place}: series {raw.name}: no two of its times are one step apart ({frequency}): its own step is "
            "longer, or not regular; name it with --frequency"
        )
    grid, form = frequency.grid(moments), frequency.form(times.form)

    def laid(names: tuple[str, ...], absent: float = np.nan) -> np.ndarray:
        on_grid: np.ndarray = np.full((len(grid), len(names)), absent)
        for column, name in enumerate(names):
            on_grid[places, column] = numbers[name][raw.rows]
        return on_grid

    fixed = laid(columns.fixed)[places]
    other = (fixed != fixed[:1]) & ~(np.isnan(fixed) & np.isnan(fixed[:1]))
    changing = other.any(0)
    if changing.any():
        column = columns.fixed[int(changing.argmax())]
        row = int(raw.rows[int(other[:, int(changing.argmax())].argmax())])
        raise DataError(
            f"{place}: row {row + 1}, column {column!r}: changes within series {raw.name}, which is --fixed"
        )
    absent = 0.0 if columns.absent == "zero" else np.nan
    return OneSeries(
        raw.name, grid, laid((raw.target,), absent)[:, 0], laid(columns.known), laid(columns.past), fixed[0], form
    )  # fmt: skip


def _check_float32(raw: _Rows, numbers: np.ndarray, place: str) -> None:
    """Check that float32 holds each value in units of any window, which are no less than the least step between two."""
    rows = raw.rows[~np.isnan(numbers[raw.rows])]
    off, steps = np.abs(numbers[rows] - np.median(numbers[rows])), np.abs(np.diff(numbers[rows]))
    least = steps[steps > 0].min(initial=np.inf)
    if off.max() / least > FLOAT32 / len(rows):
        row = int(rows[off.argmax()])
        raise DataError(
            f"{place}: row {row + 1}, column {raw.target!r}: {numbers[row]:g} does not fit float32 beside values of "
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
    """Carbon dioxide above Mauna Loa in parts per million, 2,284 weeks from 1958 to 2001, 59 of them missing.

    Keeling and Whorf 2004, Atmospheric CO2 concentrations derived from flask air samples at sites in the SIO network,
    Carbon Dioxide Information Analysis Center; in the public domain. The weekly means are those of statsmodels.
    """
    columns = read_csv(Path(__file__).with_name("co2.csv"))
    values = np.array([float(value or "nan") for value in columns["co2"]])
    times = np.array(columns["date"], "datetime64[ns]")
    nothing = np.empty((len(values), 0))
    return SeriesTable(
        [OneSeries("co2", times, values, nothing, nothing, np.empty(0), TimeForm("dates"))],
        Frequency("W-SAT"), Columns(("co2",), None, "date", frequency="W-SAT"),
        {"name": "statsmodels' co2", "rows": len(values), "sha256": hashlib.sha256(values.tobytes()).hexdigest()},
    )  # fmt: skip
