"""Forecasts of new tables by a finished model, and their scores."""

from pathlib import Path
from typing import cast

import numpy as np
import torch

from gatedrnn.data import Windows
from gatedrnn.data.frames import Frame, NewData
from gatedrnn.errors import DataError, UsageError, unknown
from gatedrnn.models import GatedRNNForForecasting
from gatedrnn.tables.files import Source, place_of
from gatedrnn.tables.table import Table
from gatedrnn.tasks.forecast.baselines import forecast_methods
from gatedrnn.tasks.forecast.forecasts import (
    asked_of_file,
    forecast_of_file,
    last_windows_of_file,
    read_forecast,
    table_of,
    types_of,
)
from gatedrnn.tasks.forecast.scores import tally_streams, tally_windows
from gatedrnn.training.finished import data_of, open_finished, open_tested
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.predict import Predicted
from gatedrnn.training.result import PLAIN_PART
from gatedrnn.training.score import Scored
from gatedrnn.training.task import Answering, Asked


class ForecastAnswering(Answering):
    """A table's series are forecast after their last values."""

    answers = "forecasts"

    @property
    def model(self) -> GatedRNNForForecasting:
        """The model, which is opened when it is first asked for."""
        self._finished = self._finished or open_finished(self.path)
        return cast(GatedRNNForForecasting, self._finished.model)

    def predict(self, new: NewData, asked: Asked, baseline: str | None = None) -> Predicted:
        if new.series is not None or new.text_column is not None:
            raise DataError("this model forecasts a table with a column of times; give one")
        if baseline is not None and baseline != PLAIN_PART:
            return forecast_of_baseline(self.path, new.source, baseline)
        if baseline is not None:
            self.model.config.shrinkage = 1.0
        columns, notes, types = forecast_of_file(self.model, new.source)
        return Predicted(Table(columns), {}, notes, types)

    def read(self, file: Path, backend: str) -> Frame:
        return read_forecast(file, self.model.config, backend)

    def score(self, split: str, new: NewData | None, asked: Asked) -> Scored:
        if asked.text_column is not None or asked.label_column or (new is not None and new.series is not None):
            raise UsageError("models that forecast are scored on a split of their own data or on a table; give --file")
        return score_forecasts(self.path, split) if new is None else score_forecasts_of_file(self.path, new.source)


def score_forecasts(path: Path, split: str) -> Scored:
    """Scores of forecasts on a split of a run's own data.

    Raises:
        DataError: no finished run, no such split, or data that have changed.
    """
    folder = RunFolder(path)
    data = data_of(folder)
    windows = data.evaluation.get(split)
    if not isinstance(windows, Windows):
        raise DataError(f"{path}: has no split {split!r}; there are {', '.join(data.evaluation) or 'none'}")
    if split == "validation" and folder.tested.exists():
        raise DataError(
            f"{path}: its models were trained on the validation part in the end; what it scored there before stands in "
            "result.json; --no-refit leaves such training out"
        )
    model = cast(GatedRNNForForecasting, open_tested(path).model)
    fresh, streamed = (
        tally.scores(loss) for tally, loss in (tally_windows(model, windows), tally_streams(model, windows))
    )
    return Scored(run=path.name, cell=model.config.cell, source=split, scores=fresh, streamed=streamed)


def score_forecasts_of_file(path: Path, source: Source) -> Scored:
    """Scores of the last steps of each series of a table, as many as the model forecasts, from those before.

    Raises:
        DataError: no finished model, or the table does not fit it.
    """
    model = cast(GatedRNNForForecasting, open_finished(path).model)
    windows, notes = last_windows_of_file(model, source)
    tally, loss = tally_windows(model, windows)
    return Scored(
        run=path.name,
        cell=model.config.cell,
        source=source.name,
        scores=tally.scores(loss),
        rows=len(windows),
        notes=notes,
    )


def forecast_of_baseline(path: Path, source: Source, name: str) -> Predicted:
    """The steps after the last value of each series of a file by a plain method, fitted to the training part of a run
    of forecasts, as `predicted_columns` has them.

    Raises:
        UsageError: there is no such method.
        DataError: the run is not of forecasts, its data have changed, or the file has other series.
    """
    folder = RunFolder(path)
    model = cast(GatedRNNForForecasting, open_finished(path).model)
    data, threads = data_of(folder), folder.settings().threads
    methods = forecast_methods(data, threads)
    if name not in methods:
        raise UsageError(unknown("baseline", name, [PLAIN_PART, *methods]))
    asked, train = asked_of_file(model, source), cast(Windows, data.train)
    if [series.name for series in asked.table.series] != [series.name for series in train.series]:
        raise DataError(f"{place_of(source)}: has other series than the run, whose training data {name!r} is fitted to")
    places = np.stack([np.arange(len(asked.origins)), asked.origins], axis=1)
    quantiles = methods[name]().forecast(asked.windows, places)
    columns = table_of(asked, model.bounded(torch.from_numpy(quantiles)).numpy(), model.config.levels)
    notes = [asked.table.said, f"{name}, fitted to the training part of {path.name}"]
    return Predicted(Table(columns), {}, notes, types_of(asked))
