"""The steps that a table does not have yet: the times and covariates of a forecast."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gatedrnn.data.batches import Batch
from gatedrnn.data.forecast.table import Columns, SeriesTable, read_table
from gatedrnn.data.forecast.task import over_series, with_calendar
from gatedrnn.data.windows import OneSeries, Windows, deviation_of
from gatedrnn.errors import DataError


class Asked(NamedTuple):
    """The inputs of a forecast, and the steps that it is for."""

    table: SeriesTable
    """Each series with `horizon` steps after its last value."""
    origins: np.ndarray
    """(series,): steps up to the last value."""
    windows: Windows

    def batch(self) -> Batch:
        """The context of every series, and its known covariates."""
        contexts = self.windows.collate(np.stack([np.arange(len(self.origins)), self.origins], axis=1))
        del contexts["labels"]
        return contexts


def read_asked(path: Path, columns: Columns, calendar: tuple[str, ...], context: int, horizon: int) -> Asked:
    """A file whose series are to be forecast. Its last rows may hold known covariates alone.

    Raises:
        DataError: as `read_table`; or known covariates of a step of the horizon are missing.
    """
    return asked_of(read_table(path, columns, future=True), calendar, context, horizon)


def asked_of(table: SeriesTable, calendar: tuple[str, ...], context: int, horizon: int) -> Asked:
    """The steps after the last value of each series.

    Raises:
        DataError: known covariates of one of them are missing.
    """
    origins = np.array([int(np.flatnonzero(~np.isnan(series_ahead.values))[-1]) + 1 for series_ahead in table.series])
    series = [
        _extended(series_ahead, int(origin), horizon, table)
        for series_ahead, origin in zip(table.series, origins, strict=True)
    ]
    whole = with_calendar(replace(table, series=series), calendar)
    deviation = over_series(deviation_of, table, origins)
    nothing = np.full(len(series), np.nan)
    windows = Windows(whole.series, origins, origins + horizon, nothing, deviation, context, horizon)
    return Asked(whole, origins, windows)


def _extended(series: OneSeries, origin: int, horizon: int, table: SeriesTable) -> OneSeries:
    more = max(0, origin + horizon - len(series.times))
    times = np.concatenate([series.times, table.frequency.after(series.times, more)])[: origin + horizon]

    def longer(values: np.ndarray) -> np.ndarray:
        padding = np.full((more, *values.shape[1:]), np.nan, values.dtype)
        return np.concatenate([values, padding])[: origin + horizon]

    known = longer(series.known)
    missing = np.isnan(known[origin:])
    if missing.any():
        step, column = np.argwhere(missing)[0]
        moment = series.form.written(times[[origin + step]])[0]
        raise DataError(
            f"{table.source['name']}: series {series.name}: column {table.columns.known[column]!r} has no value at "
            f"{moment}; a forecast of {horizon} steps needs the known covariates of each of them, in rows without a "
            "value of the target"
        )
    return replace(series, times=times, values=longer(series.values), known=known, past=longer(series.past))
