"""Files of series by their kind: .ts, tables with a row a time, and tables that name WAV files."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gatedrnn.data.series.labelled import LabelledSeries
from gatedrnn.data.series.long import read_long
from gatedrnn.data.series.ts import read_ts
from gatedrnn.data.series.wav import names_recordings, read_recordings
from gatedrnn.data.settings import Frames
from gatedrnn.errors import DataError


class Reading(NamedTuple):
    """How a file is read; a column that is None is guessed."""

    series_column: str | None = None
    time_column: str | None = None
    label_column: str | None = None
    frames: Frames = "log-mel"


def read_series(path: Path, reading: Reading, *, labelled: bool = True) -> LabelledSeries:
    """A file of series, by its ending and its columns.

    Args:
        path: .ts, .ts.gz, or a CSV, TSV, JSON-lines or Parquet table.
        reading: names of columns, and what recordings become.
        labelled: whether every series must have a label; if not, labels are read where there are some.

    Raises:
        DataError: it cannot be read; row or line, and column, are named.
    """
    if ".ts" in path.suffixes:
        return read_ts(path, labelled=labelled)
    if names_recordings(path):
        return read_recordings(path, reading.label_column, reading.frames, labelled=labelled)
    return read_long(path, reading.series_column, reading.time_column, reading.label_column, labelled=labelled)


def demand_channels(series: LabelledSeries, expected: Sequence[str], place: str) -> None:
    """See that a file has the channels of training.

    Raises:
        DataError: it has others.
    """
    if list(series.channels) != list(expected):
        raise DataError(
            f"{place}: has the channels {', '.join(series.channels[:30])}; training had {', '.join(expected[:30])}"
        )
