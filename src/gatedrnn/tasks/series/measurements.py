"""Tables of series: a row a time, or a row a measurement."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gatedrnn.data.files import LABEL_COLUMNS, labels_in_column
from gatedrnn.errors import DataError
from gatedrnn.records import Json
from gatedrnn.tables.files import (
    FILE,
    FOLDER,
    column_of,
    names_in_column,
    read_csv,
    said_columns,
    without_row_numbers,
)
from gatedrnn.tables.keys import SERIES_COLUMNS, is_constant, with_key_column
from gatedrnn.tables.numbers import numbers_in_column, numbers_of
from gatedrnn.tables.options import PLAIN, Fields
from gatedrnn.tables.table import Table, type_kept
from gatedrnn.tables.time_columns import TIME_COLUMNS, may_be_times, with_time_column
from gatedrnn.tables.times import check_rising, read_times, times_in_column
from gatedrnn.tasks.series.fields import LabelledSeries
from gatedrnn.tasks.series.formats import FILE_COLUMNS, named_file


def read_long(
    data: Table, series_column: str | None = None, time_column: str | None = None, label_column: str | None = None,
    fields: Fields = PLAIN, channels: Sequence[str] | None = None, *, uneven: bool = False, labelled: bool = True,
    group: str | None = None, weight: str | None = None,
) -> LabelledSeries:  # fmt: skip
    """The series of a table with a row a time; all columns but series, time, label and those that count
    the rows are channels.

    Args:
        fields: how they are read.
        channels: those of training, which are kept even if they count the rows here.
        uneven: keep the times of steps.
        group: column of what belongs together, which is no channel; only training must have it.
        weight: column of what each series counts, likewise.

    Raises:
        DataError: a column is missing, a time is doubled, a value is no number, or a series has several labels or
            groups; the row and the column are named.
    """
    place = data.place
    named = any(name.lower() in SERIES_COLUMNS for name in data.column_names)
    again = [name for name in data.column_names if len({*map(str, data[name])}) < len(data)]
    series = series_column or column_of(
        data.column_names, place, "series", None, SERIES_COLUMNS if named else (FILE,), plausible=again
    )
    if time_column is None and series == FILE:
        time_column = _rising_column(data)
    data, series, keys = with_key_column(data, place, series)
    data, time = with_time_column(data, place, time_column)
    label = None
    if labelled or label_column in data.column_names or any(n.lower() in LABEL_COLUMNS for n in data.column_names):
        others = [name for name in data.column_names if name not in (series, time)]
        usual = LABEL_COLUMNS if any(name.lower() in LABEL_COLUMNS for name in others) else (FOLDER,)
        may_be = [name for name in others if is_constant(data, series, name)]
        label = column_of(data.column_names, place, "label", label_column, usual, plausible=may_be)
    for what, name in (("group", group), ("weight", weight)):
        if channels is None and name is not None:
            column_of(data.column_names, place, what, name, ())
    rest = [name for name in data.column_names if name not in (series, *keys, time, label, group, weight, FOLDER)]
    expected = channels
    channels, left_out = without_row_numbers(data, rest, channels or ())
    if expected is not None and {*channels} == {*expected}:
        channels = list(expected)  # columns are read by name, in whatever order they stand
    if not channels:
        raise DataError(f"{place}: no column is left for values beside {series} and {time}")
    if not len(data):
        raise DataError(f"{place}: there are columns but no rows")
    labels, names = ([], None) if label is None else labels_in_column(data, place, label)
    times = times_in_column(data, time, fields.date_order)
    table = np.stack([numbers_in_column(data, name, fields) for name in channels], axis=1)
    rows: dict[str, list[int]] = {}
    groups = names_in_column(data, place, group, "group") if group in data.column_names else []
    weights = numbers_in_column(data, weight, fields).tolist() if weight in data.column_names else []
    of_series = ((labels, label, "labels"), (groups, group, "groups"), (weights, weight, "weights"))
    for row, name in enumerate(names_in_column(data, place, series)):
        indices = rows.setdefault(name, [])
        for target, column, what in of_series:
            if target and indices and target[indices[0]] != target[row]:
                both = f"{target[indices[0]]} and {target[row]}"
                raise DataError(f"{place}: row {row + 1}, column {column!r}: series {name} has the {what} {both}")
        indices.append(row)
    said = ""
    for name, indices in rows.items():
        if (np.diff(times.order[indices]) < np.zeros(1, np.diff(times.order).dtype)).any():
            indices.sort(key=times.order.__getitem__)
            said = " Rows are put in the order of time."
        check_rising(data, time, times, name, np.array(indices))
    if not uneven and any(map(_are_uneven, (times.hours()[indices] for indices in rows.values()))):
        said += " Times are uneven, and steps are read as equally far apart: --uneven reads how far."
    own_labels = [labels[indices[0]] for indices in rows.values()] if labels else []
    source: dict[str, Json] = {"name": data.name, "rows": len(rows), "sha256": data.sha256}
    places = [f"{series} {name}" for name in rows]
    hours = times.hours()
    gaps = [hours[indices] for indices in rows.values()] if uneven else None
    values = [table[indices] for indices in rows.values()]
    roles = {
        "series": series, f"time ({times.form})": time, "label": label, "group": group if groups else None,
        "weight": weight if weights else None, "channels": channels,
    }  # fmt: skip
    first = [indices[0] for indices in rows.values()]
    return LabelledSeries(
        values, own_labels, names, tuple(channels), places, source, gaps, times.unit if uneven else None,
        rows=[np.array(indices) + 1 for indices in rows.values()], column=series, names=list(rows),
        groups=[groups[row] for row in first] if groups else None,
        weights=np.array([weights[row] for row in first]) if weights else None, starts=times.order[first],
        types=data.types, label_type=type_kept(data.types.get(label or "")),
        said=said_columns(data.name, roles, data.column_names, left_out) + said,
    )  # fmt: skip


def _rising_column(data: Table) -> str | None:
    """The one column of the tables of a folder that rises in each; None if several do, or none, or one is a time by its
    name.
    """
    if any(name.lower() in TIME_COLUMNS for name in data.column_names):
        return None
    begins = np.flatnonzero([now != before for now, before in pairwise(data[FILE])]) + 1
    rising = [
        name for name in data.column_names
        if name not in (FILE, FOLDER) and all(may_be_times(part) for part in _parts(data[name], begins))
    ]  # fmt: skip
    return rising[0] if len(rising) == 1 else None


def _parts(values: Sequence[object], begins: np.ndarray) -> Iterator[Sequence[object]]:
    return (values[first:last] for first, last in pairwise([0, *begins.tolist(), len(values)]))


def _are_uneven(hours: np.ndarray) -> bool:
    """Whether most steps of a series differ from the typical one by more than a part of it."""
    steps = np.diff(hours)
    typical = float(np.median(steps)) if len(steps) else 0.0
    return bool((np.abs(steps - typical) > _UNEVEN * typical).sum() * 2 > len(steps))


_UNEVEN = 0.05
"""The part of the typical step by which steps of even times differ at most."""


_PARAMETER_COLUMNS = ("parameter", "variable", "channel", "feature", "item", "signal")
_VALUE_COLUMNS = ("value", "values", "measurement")
Columns: TypeAlias = Mapping[str, Sequence[Any]]
"""The fields of columns by name."""


class MeasuredSeries(NamedTuple):
    """The rows of one series, in any order."""

    hours: np.ndarray
    """(rows,), or in whatever unit times are numbers of."""
    parameters: Sequence[str]
    values: np.ndarray
    """(rows,), NaN where nothing was measured."""
    places: Sequence[int]
    """Rows in the file, from 1 on."""


def holds_measurements(columns: Sequence[str]) -> bool:
    """Whether a table's columns are those of measurements."""
    names = {name.lower() for name in columns}
    return bool(names & set(_PARAMETER_COLUMNS)) and bool(names & set(_VALUE_COLUMNS))


def read_measurements(
    data: Table, series_column: str | None = None, time_column: str | None = None, label_column: str | None = None,
    fields: Fields = PLAIN, channels: Sequence[str] | None = None, *, labelled: bool = True,
) -> LabelledSeries:  # fmt: skip
    """The series of one table with the columns series, time, parameter, value and, in every row, the series' label.

    Args:
        fields: how they are read.
        channels: the parameters that there may be; all that have a value if None.

    Raises:
        DataError: a column is missing, a field is no time or no number, a parameter is none of the channels, or a
            series has several labels or nothing measured; row and column are named.
    """
    place, names = data.place, data.column_names
    if not len(data):
        raise DataError(f"{place}: there are columns but no rows")
    series = column_of(names, place, "series", series_column, SERIES_COLUMNS)
    label = None
    if labelled or label_column in names or any(name.lower() in LABEL_COLUMNS for name in names):
        label = column_of(names, place, "label", label_column, LABEL_COLUMNS)
    labels, label_names = ([], None) if label is None else labels_in_column(data, place, label)
    (whole,), unit, roles = _measured({place: {name: data[name] for name in names}}, time_column, fields)
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names_in_column(data, place, series)):
        indices = rows.setdefault(name, [])
        if labels and indices and labels[indices[0]] != labels[row]:
            both = f"{labels[indices[0]]} and {labels[row]}"
            raise DataError(f"{place}: row {row + 1}, column {label!r}: series {name} has the labels {both}")
        indices.append(row)
    each = {
        f"{series} {name}": MeasuredSeries(
            whole.hours[indices], [whole.parameters[n] for n in indices], whole.values[indices],
            [whole.places[n] for n in indices],
        )
        for name, indices in rows.items()
    }  # fmt: skip
    own_labels = [labels[indices[0]] for indices in rows.values()] if labels else []
    source: dict[str, Json] = {"name": data.name, "rows": len(rows), "sha256": data.sha256}
    assembled = _assembled(dict.fromkeys(each, place), each, own_labels, label_names, channels, source)
    said = said_columns(data.name, {"series": series, **roles, "label": label}, names)
    return replace(
        assembled, unit=unit, column=series, names=list(rows), said=said + assembled.said, types=data.types,
        label_type=type_kept(data.types.get(label or "")),
    )  # fmt: skip


def read_measurement_files(
    path: Path, data: Table, time_column: str | None = None, label_column: str | None = None, fields: Fields = PLAIN,
    channels: Sequence[str] | None = None, data_root: Path | None = None, *, labelled: bool = True,
) -> LabelledSeries:  # fmt: skip
    """The series of a table that names a file for each (see `named_file`), with the columns time, parameter
    and value, separated by commas; the label stands in the table.

    Args, raises:
        As `read_measurements`; DataError for a file that is missing or elsewhere, too.
    """
    place = data.place
    column = column_of(data.column_names, place, "file", None, FILE_COLUMNS)
    labels, label_names, label = list[str](), None, None
    if labelled or any(name.lower() in LABEL_COLUMNS for name in data.column_names):
        label = column_of(data.column_names, place, "label", label_column, LABEL_COLUMNS)
        labels, label_names = labels_in_column(data, place, label)
    digest, tables, files = hashlib.sha256(path.read_bytes()), dict[str, Columns](), dict[str, str]()
    for row, name in enumerate(data[column], start=1):
        file = named_file(path, str(name), data_root, f"{path}: row {row}, column {column!r}: {name}")
        if str(name) in files:
            raise DataError(f"{path}: row {row}, column {column!r}: {name} is named twice")
        digest.update(file.read_bytes())
        files[str(name)], tables[str(file)] = str(file), read_csv(file)
    if not files:
        raise DataError(f"{path}: there are columns but no rows")
    measured, unit, roles = _measured(tables, time_column, fields)
    each = dict(zip(files, measured, strict=True))
    source: dict[str, Json] = {"name": path.name, "rows": len(each), "sha256": digest.hexdigest()}
    series = _assembled(files, each, labels, label_names, channels, source)
    said = said_columns(path.name, {"file": column, "label": label}, data.column_names)
    said += " " + said_columns("the files", roles, list(roles.values()))
    return replace(series, unit=unit, column=column, names=list(each), said=said + series.said)


def _measured(
    tables: Mapping[str, Columns], time_column: str | None, fields: Fields
) -> tuple[list[MeasuredSeries], str, dict[str, str]]:
    """The rows of each table, by its place; the unit of times; columns by role. What times mean is decided by those of
    all tables."""
    times = [column_of(list(table), place, "time", time_column, TIME_COLUMNS) for place, table in tables.items()]
    named = list(zip(tables.items(), times, strict=True))
    ends = np.cumsum([len(table[time]) for (_, table), time in named])

    def place_of(row: int) -> str:
        number = int(np.searchsorted(ends, row, side="right"))
        first = int(ends[number]) - len(named[number][0][1][times[number]])
        return f"{named[number][0][0]}: row {row - first + 1}, column {times[number]!r}"

    read = read_times([field for (_, table), time in named for field in table[time]], place_of, fields.date_order)
    hours = np.split(read.hours(), ends[:-1])
    measured = [
        _rows_of(place, table, hours_of_table, fields)
        for (place, table), hours_of_table in zip(tables.items(), hours, strict=True)
    ]
    parameter, value, _ = measured[0]
    roles = {f"time ({read.form})": times[0], "parameter": parameter, "value": value}
    return [rows for _, _, rows in measured], read.unit, roles


def _rows_of(place: str, table: Columns, hours: np.ndarray, fields: Fields) -> tuple[str, str, MeasuredSeries]:
    """The columns of parameters and values, and what they hold."""
    parameter = column_of(list(table), place, "parameter", None, _PARAMETER_COLUMNS)
    value = column_of(list(table), place, "value", None, _VALUE_COLUMNS)
    values = numbers_of(table[value], lambda row: f"{place}: row {row + 1}, column {value!r}", fields)
    return (
        parameter,
        value,
        MeasuredSeries(hours, [str(name) for name in table[parameter]], values, range(1, len(values) + 1)),
    )


def _assembled(
    files: dict[str, str], each: dict[str, MeasuredSeries], labels: list[str], label_names: tuple[str, ...] | None,
    channels: Sequence[str] | None, source: dict[str, Json],
) -> LabelledSeries:  # fmt: skip
    """A step for each time at which something was measured. Of two values of a parameter at one time the later row
    counts."""
    if channels is None:
        there = {
            name
            for measured in each.values()
            for name, value in zip(measured.parameters, measured.values, strict=True) if value == value
        }  # fmt: skip
        channels = sorted(there)
    number = {name: place for place, name in enumerate(channels)}
    values, times, again = list[np.ndarray](), list[np.ndarray](), 0
    for name, measured in each.items():
        real = np.flatnonzero(~np.isnan(measured.values)).tolist()
        if not len(real):
            raise DataError(f"{files[name]}: {name}: nothing is measured in it")
        for row in real:
            if measured.parameters[row] not in number:
                raise DataError(
                    f"{files[name]}: row {measured.places[row]}: the parameter {measured.parameters[row]!r} is in no "
                    f"training series; there are {', '.join(list(channels)[:30])}"
                )
        hours, step = np.unique(measured.hours[real], return_inverse=True)
        table = np.full((len(hours), len(channels)), np.nan)
        table[step, [number[measured.parameters[row]] for row in real]] = measured.values[real]
        again += len(real) - int((~np.isnan(table)).sum())
        values.append(table)
        times.append(hours)
    said = f" Values measured again at one time: {again:,}; the later row counts." if again else ""
    return LabelledSeries(values, labels, label_names, tuple(channels), list(each), source, times, said=said)
