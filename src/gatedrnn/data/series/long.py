"""Tables of series with a row a time: the series' name, the time, its channels, its label."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gatedrnn.data.columns import said_columns, without_row_numbers
from gatedrnn.data.files import LABEL_COLUMNS, labels_in_column
from gatedrnn.data.rows import RawTable
from gatedrnn.data.series.fields import AS_SHOWN, Fields, numbers_of
from gatedrnn.data.series.labelled import LabelledSeries
from gatedrnn.data.tables import FILE, column_of, read_all_columns
from gatedrnn.data.time_columns import with_time_column
from gatedrnn.data.times import Times, read_times
from gatedrnn.errors import DataError
from gatedrnn.records import Json

SERIES_COLUMNS = ("unique_id", "id", "series", "series_id", "case", "record", "recordid")


def read_long(
    path: Path, series_column: str | None = None, time_column: str | None = None, label_column: str | None = None,
    fields: Fields = AS_SHOWN, channels: Sequence[str] | None = None, *, uneven: bool = False, labelled: bool = True,
    quoting: bool = False, group: str | None = None, weight: str | None = None,
) -> LabelledSeries:  # fmt: skip
    """The series of a CSV, TSV, JSON-lines or Parquet file; all columns but series, time, label and those that count
    the rows are channels.

    Args:
        fields: how they are read.
        channels: those of training, which are kept even if they count the rows here.
        uneven: keep the times of steps.
        quoting: whether a TSV's fields may stand in quotation marks.
        group: column of what belongs together, which is no channel; only training must have it.
        weight: column of what each series counts, likewise.

    Raises:
        DataError: a column is missing, a time is doubled, a value is no number, or a series has several labels or
            groups; the row and the column are named.
    """
    data, place = read_all_columns(path, quoting=quoting), str(path)
    named = any(name.lower() in SERIES_COLUMNS for name in data.column_names)
    series = column_of(data.column_names, place, "series", series_column, SERIES_COLUMNS if named else (FILE,))
    data, time = with_time_column(data, place, time_column)
    label = None
    if labelled or label_column in data.column_names or any(n.lower() in LABEL_COLUMNS for n in data.column_names):
        label = column_of(data.column_names, place, "label", label_column, LABEL_COLUMNS)
    for what, name in (("group", group), ("weight", weight)):
        if channels is None and name is not None:
            column_of(data.column_names, place, what, name, ())
    rest = [name for name in data.column_names if name not in (series, time, label, group, weight)]
    channels, left_out = without_row_numbers(data, rest, channels or ())
    if not channels:
        raise DataError(f"{path}: no column is left for values beside {series} and {time}")
    if not len(data):
        raise DataError(f"{path}: there are columns but no rows")
    labels, names = ([], None) if label is None else labels_in_column(data, place, label)
    times = times_in_column(path, data, time, fields)
    table = np.stack([numbers_in_column(path, data, name, fields) for name in channels], axis=1)
    rows: dict[str, list[int]] = {}
    groups = [str(value) for value in data[group]] if group in data.column_names else []
    weights = numbers_in_column(path, data, weight, fields).tolist() if weight in data.column_names else []
    of_series = ((labels, label, "labels"), (groups, group, "groups"), (weights, weight, "weights"))
    for row, name in enumerate(map(str, data[series])):
        indices = rows.setdefault(name, [])
        for target, column, what in of_series:
            if target and indices and target[indices[0]] != target[row]:
                both = f"{target[indices[0]]} and {target[row]}"
                raise DataError(f"{path}: row {row + 1}, column {column!r}: series {name} has the {what} {both}")
        indices.append(row)
    said = ""
    for name, indices in rows.items():
        if (np.diff(times.order[indices]) < np.zeros(1, np.diff(times.order).dtype)).any():
            indices.sort(key=times.order.__getitem__)
            said = " Rows are put in the order of time."
        check_rising(path, data, time, times, name, np.array(indices))
    own_labels = [labels[indices[0]] for indices in rows.values()] if labels else []
    source: dict[str, Json] = {"name": path.name, "rows": len(rows), "sha256": data.sha256}
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
        said=said_columns(path.name, roles, data.column_names, left_out) + said,
    )  # fmt: skip


def check_rising(path: Path, data: RawTable, column: str, times: Times, series: str, rows: np.ndarray) -> None:
    """Check that no two rows of a series, which are in the order of time, have one time.

    Raises:
        DataError: two have, which are named.
    """
    again = np.flatnonzero(times.order[rows][1:] == times.order[rows][:-1])
    if len(again):
        first, second = sorted(int(row) + 1 for row in rows[again[0] : again[0] + 2])
        twice = data[column][second - 1]
        raise DataError(f"{path}: rows {first} and {second}, column {column!r}: series {series} has {twice} twice")


def numbers_in_column(path: Path, data: RawTable, column: str, fields: Fields) -> np.ndarray:
    """(rows,), float64; as `numbers_of`."""
    return numbers_of(data[column], lambda row: f"{path}: row {row + 1}, column {column!r}", fields)


def times_in_column(path: Path, data: RawTable, column: str, fields: Fields) -> Times:
    """Read the times of a column, as `read_times` does."""
    return read_times(data[column], lambda row: f"{path}: row {row + 1}, column {column!r}", fields.date_order)
