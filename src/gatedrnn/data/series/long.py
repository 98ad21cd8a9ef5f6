"""Tables of series with a row a time: the series' name, the time, its channels, its label."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from datasets import Dataset

from gatedrnn.data.columns import said_columns, without_row_numbers
from gatedrnn.data.files import LABEL_COLUMNS, column_of, labels_in_column, read_all_columns
from gatedrnn.data.series.fields import numbers_of
from gatedrnn.data.series.labelled import LabelledSeries
from gatedrnn.data.times import Times, are_dates, read_times
from gatedrnn.errors import DataError
from gatedrnn.records import Json

SERIES_COLUMNS = ("unique_id", "id", "series", "series_id", "case", "record", "recordid")
LOOKED_AT = 100
"""Rows that say whether a column holds dates."""
TIME_COLUMNS = ("ds", "time", "timestamp", "date", "datetime", "t", "step")


def read_long(
    path: Path, series_column: str | None = None, time_column: str | None = None, label_column: str | None = None,
    missing: Sequence[str] = (), channels: Sequence[str] | None = None, *, uneven: bool = False, labelled: bool = True,
    quoting: bool = False,
) -> LabelledSeries:  # fmt: skip
    """The series of a CSV, TSV, JSON-lines or Parquet file; all columns but series, time, label and those that count
    the rows are channels.

    Args:
        missing: values that mean that nothing was measured.
        channels: those of training, which are kept even if they count the rows here.
        uneven: keep the times of steps.
        quoting: whether a TSV's fields may stand in quotation marks.

    Raises:
        DataError: a column is missing, a time is out of order or doubled, a value is no number, or a series has several
            labels; the row and the column are named.
    """
    data, place = read_all_columns(path, quoting=quoting), str(path)
    series = column_of(data.column_names, place, "series", series_column, SERIES_COLUMNS)
    time = time_column_of(data, place, time_column)
    label = None
    if labelled or label_column in data.column_names or any(n.lower() in LABEL_COLUMNS for n in data.column_names):
        label = column_of(data.column_names, place, "label", label_column, LABEL_COLUMNS)
    rest = [name for name in data.column_names if name not in (series, time, label)]
    channels, left_out = without_row_numbers(data, rest, channels or ())
    if not channels:
        raise DataError(f"{path}: no column is left for values beside {series} and {time}")
    if not len(data):
        raise DataError(f"{path}: there are columns but no rows")
    labels, names = ([], None) if label is None else labels_in_column(data, place, label)
    times = times_in_column(path, data, time)
    table = np.stack([numbers_in_column(path, data, name, missing) for name in channels], axis=1)
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(map(str, data[series])):
        own = rows.setdefault(name, [])
        if labels and own and labels[own[0]] != labels[row]:
            both = f"{labels[own[0]]} and {labels[row]}"
            raise DataError(f"{path}: row {row + 1}, column {label!r}: series {name} has the labels {both}")
        own.append(row)
    for name, own in rows.items():
        demand_rising(path, data, time, times, name, np.array(own))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    own_labels = [labels[own[0]] for own in rows.values()] if labels else []
    source: dict[str, Json] = {"name": path.name, "rows": len(rows), "sha256": digest}
    places = [f"{series} {name}" for name in rows]
    hours = times.hours()
    gaps = [hours[own] for own in rows.values()] if uneven else None
    values = [table[own] for own in rows.values()]
    roles = {"series": series, f"time ({times.form})": time, "label": label, "channels": channels}
    return LabelledSeries(
        values, own_labels, names, tuple(channels), places, source, gaps, times.unit if uneven else None,
        rows=[np.array(own) + 1 for own in rows.values()], column=series, names=list(rows),
        said=said_columns(path.name, roles, data.column_names, left_out),
    )  # fmt: skip


def demand_rising(
    path: Path, data: Dataset, column: str, times: Times, series: str, rows: np.ndarray, hint: str = ""
) -> None:
    """See that the times of a series rise from row to row.

    Raises:
        DataError: two rows have one time, which are named, or one is out of order.
    """
    order = times.order[rows]
    falls = np.flatnonzero(order[1:] <= order[:-1])
    if len(falls):
        place = int(falls[0]) + 1
        row, same = int(rows[place]) + 1, np.flatnonzero(order[:place] == order[place])
        where = f"rows {int(rows[same[0]]) + 1} and {row}" if len(same) else f"row {row}"
        word = "twice" if len(same) else "after a later one"
        raise DataError(f"{path}: {where}, column {column!r}: series {series} has {data[column][row - 1]} {word}{hint}")


def time_column_of(data: Dataset, place: str, wanted: str | None) -> str:
    """The column of times: the one asked for, or the only usual name; where there is none, the only column of dates, or
    that of years.

    Raises:
        DataError: it is not there, or several could be it.
    """
    names = data.column_names
    if wanted is None and not any(name.lower() in TIME_COLUMNS for name in names):
        first = data[:LOOKED_AT]
        dated = [name for name in names if are_dates(first[name])]
        years = [name for name in names if name.lower() == "year"]
        if len(found := dated or years) == 1:
            return found[0]
    return column_of(names, place, "time", wanted, TIME_COLUMNS)


def numbers_in_column(path: Path, data: Dataset, column: str, missing: Sequence[str] = ()) -> np.ndarray:
    """(rows,), float64; as `numbers_of`."""
    return numbers_of(data[column], lambda row: f"{path}: row {row + 1}, column {column!r}", missing)


def times_in_column(path: Path, data: Dataset, column: str) -> Times:
    """As `read_times`."""
    return read_times(data[column], lambda row: f"{path}: row {row + 1}, column {column!r}")
