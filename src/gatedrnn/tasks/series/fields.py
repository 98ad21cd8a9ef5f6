"""The labelled series that a file holds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from gatedrnn.records import Json


@dataclass(frozen=True, eq=False)
class LabelledSeries:
    """One file of series."""

    values: list[np.ndarray]
    """(time, channels), float64, or float32 of recordings whose samples fit it; NaN where a value is missing."""
    labels: list[str]
    """The labels as they are in the file; empty where it has none."""
    label_names: tuple[str, ...] | None
    """All of them in order, where the file says so."""
    channels: tuple[str, ...]
    places: list[str]
    """The place of each series in the file, for messages: "line 12", "id 7"."""
    source: dict[str, Json]
    """Name, rows and sha256, without any path."""
    times: list[np.ndarray] | None = None
    """(time,), rising: of the steps of uneven series; None where steps are equally far apart."""
    unit: str | None = None
    """The unit of these times: hours, or numbers of whatever they are."""
    rate: int | None = None
    """Samples a second, of recordings."""
    rows: list[np.ndarray] | None = None
    """(time,), from 1 on: of the steps of each series in a table with a row a time."""
    column: str = "series"
    """The column of the file that has the names of series."""
    names: list[str] | None = None
    """The name of each series in that column; None where the file has none and places are used instead."""
    groups: list[str] | None = None
    """The group that each series belongs to; None where no groups are asked for."""
    weights: np.ndarray | None = None
    """(series,): what each counts in the loss; None where no weights are asked for."""
    starts: np.ndarray | None = None
    """(series,): what rises with the time of each one's first step, in a table with a row a time."""
    said: str = ""
    """A line that says which columns of a table were taken as what; empty for a file without columns."""
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """The type of each column of the file, where it has types."""
    label_type: str | None = None
    """The type of the labels, by pyarrow's name; None of text."""

    def without_values(self) -> str | None:
        """A note on channels without any value, which are read as their mean of training; None if there is none."""
        empty = np.all([np.isnan(steps).all(0) for steps in self.values], axis=0)
        named = ", ".join(repr(self.channels[channel]) for channel in np.flatnonzero(empty))
        return f"{self.source['name']}: {named}: no value is there; the mean of training is read." if named else None
