"""Files of series by their kind: .ts, tables with a row a time or a measurement, and tables that name files."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gatedrnn.data.files import LABEL_COLUMNS
from gatedrnn.data.settings import Frames
from gatedrnn.data.windows import first_beyond
from gatedrnn.errors import DataError
from gatedrnn.tables.files import Source, read_table, reader
from gatedrnn.tables.layout import numbered_columns
from gatedrnn.tables.numbers import holds_words
from gatedrnn.tables.options import AS_SHOWN, Decimal, DialectOptions, Fields, Order, Thousands
from gatedrnn.tables.table import Table
from gatedrnn.tables.time_columns import without_row_as_header
from gatedrnn.tasks.series.fields import LabelledSeries
from gatedrnn.tasks.series.formats import FILE_COLUMNS, is_unnamed, read_curves, read_recordings, read_ts, read_unnamed
from gatedrnn.tasks.series.measurements import holds_measurements, read_long, read_measurement_files, read_measurements


class Reading(NamedTuple):
    """The way in which a file is read; a column that is None is guessed, and files that a table names are below its
    folder.
    """

    series_column: str | None = None
    time_column: str | None = None
    label_column: str | None = None
    frames: Frames = "log-mel"
    uneven: bool = False
    missing: tuple[str, ...] = ()
    data_root: Path | None = None
    dialect: DialectOptions = AS_SHOWN
    decimal: Decimal | None = None
    date_order: Order | None = None
    thousands: Thousands | None = None
    group: str | None = None
    weight_column: str | None = None
    columns_are_steps: bool = False

    @property
    def fields(self) -> Fields:
        """The way in which a table's fields are read."""
        return Fields(self.missing, self.decimal, self.date_order, self.thousands)


@reader
def read_series(
    source: Source, reading: Reading, *, channels: Sequence[str] | None = None, labelled: bool = True
) -> LabelledSeries:
    """A file of series, by its ending and its columns, or a table of them.

    Args:
        source: .ts, .ts.gz, or a CSV, TSV, JSON-lines or Parquet table; a CSV or TSV without names of columns has a row
            a series, its class first.
        reading: names of columns, and what recordings become.
        channels: those of training; None for training itself.
        labelled: whether every series must have a label; if not, labels are read where there are some.

    Raises:
        DataError: it cannot be read; row or line, and column, are named.
    """
    if not isinstance(source, Table) and (found := _of_other_form(source, reading, channels, labelled)) is not None:
        return found
    data = without_row_as_header(read_table(source, reading.dialect))
    series, time, label, fields = reading.series_column, reading.time_column, reading.label_column, reading.fields
    if holds_measurements(data.column_names):
        return read_measurements(data, series, time, label, fields, channels, labelled=labelled)
    values = [name for name in data.column_names if name != label and name.lower() not in LABEL_COLUMNS]
    numbers = [name for name in values if not holds_words(data[name], fields)]
    steps = numbers if reading.columns_are_steps else numbered_columns(data.column_names)
    if time is None and series is None and steps:
        return read_curves(data, steps, label, fields, labelled=labelled)
    return read_long(
        data, series, time, label, fields, channels, uneven=reading.uneven, group=reading.group,
        weight=reading.weight_column, labelled=labelled,
    )  # fmt: skip


def _of_other_form(
    path: Path, reading: Reading, channels: Sequence[str] | None, labelled: bool
) -> LabelledSeries | None:  # fmt: skip
    """The series of a file that is no table with a row a time or a series: .ts, rows without names of columns, or a
    table that names files; None of any other.
    """
    columns = (reading.series_column, reading.time_column, reading.label_column)
    of_long = [name for name in ("group", "weight_column") if getattr(reading, name) is not None]
    if columns == (None, None, None) and not (reading.uneven or of_long) and is_unnamed(path):
        return read_unnamed(path, reading.fields)
    is_ts = ".ts" in path.suffixes
    named = None if is_ts else named_files(path, reading.dialect)
    if not is_ts and named is None:
        return None
    of_sound = named is not None and named.lower().endswith(".wav")
    of_times = ("uneven", "missing", "decimal", "date_order") if is_ts or of_sound else ()
    for name in (*of_long, *(name for name in of_times if getattr(reading, name))):
        what = "tables of times" if name in of_times else "tables with a row a time"
        raise DataError(f"{path}: --{name.replace('_', '-')} is for {what}; leave it out")
    if is_ts:
        return read_ts(path, labelled=labelled)
    data, label = read_table(path, reading.dialect), reading.label_column
    if of_sound:
        return read_recordings(path, data, label, reading.frames, reading.data_root, labelled=labelled)
    return read_measurement_files(
        path, data, reading.time_column, label, reading.fields, channels, reading.data_root, labelled=labelled
    )


def named_files(path: Path, dialect: DialectOptions = AS_SHOWN) -> str | None:
    """The first of the files that a table names; None where it has no column of them."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        return None
    data = read_table(path, dialect)
    columns = [name for name in data.column_names if name.lower() in FILE_COLUMNS]
    if len(columns) != 1 or not len(data):
        return None
    first = str(data[columns[0]][0])
    return first if Path(first).suffix else None


def check_alike(
    series: LabelledSeries, channels: Sequence[str], rate: int | None, unit: str | None, place: str
) -> None:  # fmt: skip
    """Check that a file has the channels of training, its rate and its kind of times, as far as these are known.

    Raises:
        DataError: it has others.
    """
    check_channels(series, channels, place)
    check_rate(series, rate, place)
    check_unit(series, unit, place)


def check_channels(series: LabelledSeries, expected: Sequence[str], place: str) -> None:
    """Check that a file has the channels of training.

    Raises:
        DataError: it has others.
    """
    if list(series.channels) != list(expected):
        raise DataError(
            f"{place}: has the channels {', '.join(series.channels[:30])}; training had {', '.join(expected[:30])}"
        )


def check_float32(series: LabelledSeries, means: Sequence[float], deviations: Sequence[float], place: str) -> None:
    """Check that values fit float32 once they are in units of training's deviations.

    Raises:
        DataError: one does not; its row and column are named.
    """
    for number, values in enumerate(series.values):
        if (at := first_beyond(values, means, deviations)) is not None:
            step, channel = at
            row = f"{series.places[number]}, step {step + 1}"
            if series.rows is not None:
                row = f"row {series.rows[number][step]}"
            raise DataError(
                f"{place}: {row}, column {series.channels[channel]!r}: {values[at]:g} does not fit float32 in units "
                f"of training's deviation there, {deviations[channel]:g}"
            )


def check_rate(series: LabelledSeries, expected: int | None, place: str) -> None:
    """Check that recordings have the rate of training, if that is known.

    Raises:
        DataError: they have another.
    """
    if expected is not None and series.rate != expected:
        got = "no recordings" if series.rate is None else f"recordings of {series.rate:,} samples a second"
        raise DataError(f"{place}: has {got}; training had {expected:,} samples a second")


def check_unit(series: LabelledSeries, expected: str | None, place: str) -> None:
    """Check that uneven times are hours, from dates or clocks, or numbers as those of training.

    Raises:
        DataError: they are not.
    """
    if expected is not None and series.unit not in (None, expected):
        raise DataError(f"{place}: its times are read as {series.unit}, those of training as {expected}")
