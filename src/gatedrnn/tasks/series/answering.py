"""Classes and numbers of new series by a finished model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from gatedrnn.data.frames import NewData
from gatedrnn.errors import DataError
from gatedrnn.models.opening import Finished
from gatedrnn.tables.files import Source, place_of
from gatedrnn.tables.options import recorded_dialect
from gatedrnn.tables.table import Table
from gatedrnn.tasks.series.files import Reading, check_alike, check_float32, read_series
from gatedrnn.tasks.series.read import gaps_of, labels_as_numbers
from gatedrnn.training.answering import LabelAnswering
from gatedrnn.training.predict import Rows, label_number, numbered, one_column, row_names
from gatedrnn.training.task import Asked


class SeriesAnswering(LabelAnswering):
    """Rows are series, in a file as that of training or in memory."""

    def rows(self, new: NewData, asked: Asked, *, labelled: bool) -> Rows:
        if new.series is not None:
            return rows_of_series(self.finished, new.series, new.labels)
        if new.text_column is not None:
            raise DataError("this model reads numbers, and these are texts; give what it was trained on")
        recorded = self.finished.model.config.series
        if recorded is None:
            return super().rows(new, asked, labelled=labelled)
        return _series_rows(self.finished, recorded, new.source, asked.label_column, asked.data_root, labelled)


def _series_rows(
    finished: Finished, how: dict[str, Any], source: Source, label_column: Sequence[str], data_root: Path | None,
    labelled: bool,
) -> Rows:  # fmt: skip
    """The series of a file, read as those of training; a row of the table that is written is the name of one."""
    recorded = {name: value for name, value in how.items() if name in Reading._fields}
    recorded |= {
        "missing": tuple(recorded.get("missing", ())),
        "data_root": data_root,
        "dialect": recorded_dialect(how),
    }
    reading = Reading(**recorded | ({} if not label_column else {"label_column": one_column(label_column)}))
    place = place_of(source)
    series = read_series(source, reading, channels=how["channels"], labelled=labelled)
    check_alike(series, how["channels"], how.get("rate"), how.get("unit"), place)
    config = finished.model.config
    if config.channel_means is not None and config.channel_deviations is not None:
        check_float32(series, config.channel_means, config.channel_deviations, place)
    data = Table({series.column: series.places if series.names is None else series.names}, types=series.types)
    if (series.times is None) != (finished.model.config.gap_unit is None):
        raise DataError(f"{place}: the model was trained on series at uneven times, or this file has them: not both")
    gaps = None if series.times is None else [gaps_of(times) for times in series.times]
    notes = [note for note in (series.said, series.without_values()) if note]
    if finished.model.config.problem_type == "regression":
        return Rows(data, series.values, list(labels_as_numbers(series)) if labelled else None, notes, gaps)
    labels = numbered(series.labels, series.places, finished.model.config, place) if labelled else None
    return Rows(data, series.values, labels, notes, gaps)


def rows_of_series(finished: Finished, series: list[np.ndarray], labels: Sequence[str] | None = None) -> Rows:
    """Series in memory, with their labels where these are given.

    Args:
        series: each (time, channels).
        labels: of each, a class or a number, as text.

    Raises:
        DataError: the model reads no series, or those of other channels or at uneven times; or a label is unknown.
    """
    config = finished.model.config
    if config.series is None:
        raise DataError("this model was not trained on series of numbers; give what it reads")
    if config.gap_unit is not None:
        raise DataError("this model reads series at uneven times; give a table with a column of times")
    channels = len(cast(list[str], config.series["channels"]))
    if series and series[0].shape[1] != channels:
        raise DataError(f"the series have {series[0].shape[1]} channels, those of training had {channels}")
    if labels is not None and len(labels) != len(series):
        raise DataError(f"there are {len(series):,} series and {len(labels):,} labels")
    data, known, places = Table({"series": list(range(len(series)))}), None, row_names(labels or ())
    if labels is not None and config.problem_type == "regression":
        known = [
            np.array(label_number(label, f"the data: {place}")) for label, place in zip(labels, places, strict=True)
        ]
    elif labels is not None:
        known = numbered(labels, places, config, "the data")
    return Rows(data, series, known, [])
