"""A forecaster of tables: fit, predict, go on with new rows, score from many origins."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias, cast

import numpy as np
import pyarrow as pa
import torch
from numpy.random import RandomState
from sklearn.utils.validation import check_is_fitted

from gatedrnn.data import FORECAST, Windows
from gatedrnn.data.frames import Data, Frame, InMemory, frame_of, table_of
from gatedrnn.data.windows import OneSeries, deviation_of
from gatedrnn.errors import DataError
from gatedrnn.estimators.base import GatedEstimator, Settings, as_value_errors
from gatedrnn.models import GatedRNNForForecasting
from gatedrnn.models.forecast_units import naive_forecast
from gatedrnn.models.forecasting import ForecastState
from gatedrnn.tables.options import recorded_dialect
from gatedrnn.tables.table import Table
from gatedrnn.tasks.forecast.forecasts import Forecasts, drawn_after, quantiles_of
from gatedrnn.tasks.forecast.forecasts import table_of as table_of_forecast
from gatedrnn.tasks.forecast.read import Asked, asked_of, check_float32, naive_error, over_series, with_calendar
from gatedrnn.tasks.forecast.scores import ForecastTally
from gatedrnn.tasks.forecast.table import Columns, SeriesTable, read_series_table, until_last_values

if TYPE_CHECKING:
    import plotly.graph_objects as go

Names: TypeAlias = str | Sequence[str] | None
"""Names of columns."""
Season: TypeAlias = int | Sequence[int] | Literal["auto"]
SCORES = ("mase", "mae", "scaled_mae", "smape", "weighted_quantile_loss", "coverage")


class Backtest(NamedTuple):
    """Forecasts from many origins, and how good they are."""

    forecasts: Frame
    """A row for each series, origin and step: the columns of `Forecaster.predict`, the last time before the forecast as
    `origin`, and the value that came as `actual`."""
    scores: Frame
    """A row for the model, and for the last value and the season before as forecasts: mean scores over all of them."""


class Forecaster(GatedEstimator):
    """A forecaster of one series or many, with covariates or without, in frames of pandas, polars or pyarrow.

    Args:
        cell: name of the cell, with options as in "gru:reset_after=false".
        horizon: steps to forecast; a season if None.
        season: steps after which a pattern repeats, one number or several; "auto" to guess it from times and values.
        quantiles: rising, with 0.5 among them.
        context: steps that a forecast is made from; by the season if None.
        frequency: step between times, such as "h" or "MS"; guessed if None.
        calendar: features of the dates, such as "day-of-week".
        hidden_size: channels of the cell's state.
        num_layers: layers of cells.
        total_steps: optimizer steps.
        learning_rate: its highest value.
        batch_size: windows in a step.
        members: networks whose quantiles are averaged.
        random_state: the seed: initialisation, order of batches and dropout follow from it.
        threads: threads of torch while it trains.
        settings: any other setting of `gatedrnn forecast`, as in `Settings(refit=False)`.

    What is None is what the recipe of `gatedrnn forecast` has; `settings_` tells it after `fit`.

    Attributes:
        scores_: the scores of the parts that were set apart before the model was trained again on all.
        columns_: the roles of the columns.

    Example:
        >>> import numpy as np, pandas as pd
        >>> from gatedrnn.estimators import Forecaster
        >>> days = pd.date_range("2024-01-01", periods=120, freq="D")
        >>> frame = pd.DataFrame({"ds": days, "y": np.sin(np.arange(120) * 2 * np.pi / 7)})
        >>> model = Forecaster(horizon=7, total_steps=10).fit(frame)
        >>> model.predict().columns.tolist()
        ['ds', 'y', 'y_0.1', 'y_0.9']
    """

    _task = FORECAST

    def __init__(
        self, cell: str = "mingru", *, horizon: int | None = None, season: Season = "auto",
        quantiles: Sequence[float] = (0.1, 0.5, 0.9), context: int | None = None, frequency: str | None = None,
        calendar: Sequence[str] = (), hidden_size: int | None = None, num_layers: int | None = None,
        total_steps: int | None = None, learning_rate: float | None = None, batch_size: int | None = None,
        members: int | None = None, random_state: int | RandomState | None = 0, threads: int | None = None,
        settings: Settings | None = None,
    ) -> None:  # fmt: skip
        self.cell = cell
        self.horizon = horizon
        self.season = season
        self.quantiles = quantiles
        self.context = context
        self.frequency = frequency
        self.calendar = calendar
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.total_steps = total_steps
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.members = members
        self.random_state = random_state
        self.threads = threads
        self.settings = settings

    def fit(
        self, X: Data, y: None = None, *, target: Names = None, time: str | None = None, series: str | None = None,
        known: Names = None, past: Names = None, fixed: Names = None,
    ) -> Self:  # fmt: skip
        """Train on a table: on its first part, to be scored on the last, then on everything.

        Args:
            X: a frame, long with a row for each series and time, or wide with a row for each time; a series of pandas
                with its times as index; or a file. Rows after the last values may hold known covariates.
            y: not read; for scikit-learn.
            target: columns to forecast; guessed if None.
            time, series: columns of times, and of the names of series; guessed if None.
            known: columns whose future is known.
            past: columns whose past alone is known.
            fixed: columns that a series has for all times.

        Raises:
            ValueError: a column is missing, or a value or a time cannot be used; row and column are named.
        """
        roles = {"target": target, "known": known, "past": past, "fixed": fixed}
        asked = {name: [columns] if isinstance(columns, str) else columns for name, columns in roles.items()}
        named = {"time_column": time, "series_column": series, **asked}
        own: dict[str, Any] = self._asked(without=("season",)) | {
            name: value for name, value in named.items() if value is not None
        }
        if self.season != "auto":
            own["season"] = [self.season] if isinstance(self.season, int) else list(self.season)
        with as_value_errors():
            table, backend = _read(X)
            finished = self._trained(InMemory({"train": table}), own)
            model = cast(GatedRNNForForecasting, finished.model)
            held = model.config.table
            assert held is not None
            columns = Columns(**{n: _tuple(held[n]) for n in Columns._fields if n in held})
            columns = columns._replace(dialect=recorded_dialect(held))
            seen = _table(table, columns)
        self.model_, self.columns_, self._calendar_ = model, columns, tuple(cast(list[str], held["calendar"]))
        self._types_, self._backend_ = {name: table.schema.field(name).type for name in table.column_names}, backend
        self._seen_, self._streams_ = seen, dict[str, ForecastState]()
        return self

    def predict(self, X: Data = None, *, known: Frame | None = None) -> Frame:
        """Forecast the steps after the last value of each series.

        Args:
            X: a frame like that of `fit`; None for the rows of `fit` and `update`.
            known: rows with the covariates of the steps ahead, unless those rows have them.

        Returns:
            A frame with the names that came in: time, the name of the series where there is one, the median under the
            target's name, and a column for each other quantile, as in `y_0.9`.

        Raises:
            NotFittedError: it has not been fitted.
            ValueError: columns are missing, or known covariates of a step ahead.
        """
        check_is_fitted(self)
        with as_value_errors():
            seen = self._seen_ if X is None else _table(_read(X)[0], self.columns_)
            if known is not None:
                seen = _with_known(seen, _table(table_of(known)[0], self.columns_, valued=False))
            asked = self._after(seen)
            quantiles = quantiles_of(self.model_, asked)
            if X is None and self._streams_:
                quantiles = self._of_streams(asked, quantiles)
            return self._frame(table_of_forecast(asked, quantiles, self.model_.config.levels))

    def update(self, rows: Data) -> Self:
        """Read rows that came since, in constant time, whatever was read before; `predict()` goes on from them.

        Args:
            rows: a frame like that of `fit`, with the next times of the series in it. Other series stay as they are.

        Raises:
            NotFittedError: it has not been fitted.
            ValueError: a series is unknown, or its times do not continue; nothing is read then.
        """
        check_is_fitted(self)
        with as_value_errors():
            came = until_last_values(_table(_read(rows)[0], self.columns_))
            joined = {one.name: one for one in self._seen_.series}
            for one in came.series:
                if one.name not in joined:
                    raise DataError(f"series {one.name}: was not there in fit; predict(frame) forecasts other series")
                joined[one.name] = self._continued(joined[one.name], one)
            streams = dict(self._streams_) or self._started()
            for one in came.series:
                streams[one.name] = self._go_on(copy.deepcopy(streams[one.name]), one)
        self._streams_ = streams
        self._seen_ = replace(self._seen_, series=[self._kept(joined[one.name]) for one in self._seen_.series])
        return self

    def backtest(self, X: Data, *, stride: int | None = None, origins: int | None = None) -> Backtest:
        """Forecast from many origins of a table, with the model as it is, and score each forecast by what came.

        Origins are those after the last value that the model was fitted on; of a table that does not go on from there,
        all that have a context, which the model may have learned from.

        Args:
            X: a frame like that of `fit`.
            stride: steps from one origin to the next; the horizon if None.
            origins: the last so many of each series; all if None.

        Raises:
            NotFittedError: it has not been fitted.
            ValueError: no series is long enough.
        """
        check_is_fitted(self)
        with as_value_errors():
            table = with_calendar(until_last_values(_table(_read(X)[0], self.columns_)), self._calendar_)
            windows = self._windows(table, stride or self.model_.config.horizon, origins)
            return self._scored(table, windows)

    def plot(self) -> "dict[str, go.Figure]":
        """Return a figure for each of a few series: the last values and the forecast."""
        from gatedrnn.tasks.forecast.figures import forecast_figures

        check_is_fitted(self)
        asked = self._after(self._seen_)
        drawn = drawn_after(self.model_, asked, range(min(4, len(asked.origins))))
        return forecast_figures(Forecasts(levels=self.model_.config.levels, test=[], future=drawn))

    def _after(self, table: SeriesTable, horizon: int | None = None) -> Asked:
        config = self.model_.config
        if config.channel_means is not None and config.channel_deviations is not None:
            check_float32(table, config.channel_means, config.channel_deviations)
        return asked_of(table, self._calendar_, config.context, config.horizon if horizon is None else horizon)

    def _frame(self, columns: Mapping[str, Sequence[object]]) -> Frame:
        """Columns with the types that the names had in `fit`, as a frame of the same library."""
        names = (self.columns_.time, self.columns_.series)
        return frame_of(
            columns, {n: self._types_[n] for n in names if n is not None and n in self._types_}, self._backend_
        )

    def _started(self) -> dict[str, ForecastState]:
        """A stream of each series after what has been read of it."""
        series = [_without_ahead(one) for one in self._seen_.series]
        batch = self._after(replace(self._seen_, series=series), 0).batch()
        model, rows = self.model_.eval(), range(len(series))
        return {
            series[row].name: model.start(**cast(dict[str, Any], {k: v[row : row + 1] for k, v in batch.items()}))
            for row in rows
        }  # fmt: skip

    def _go_on(self, stream: ForecastState, came: OneSeries) -> ForecastState:
        (one,) = with_calendar(replace(self._seen_, series=[came]), self._calendar_).series
        covariates = {"known_covariates": one.known, "past_covariates": one.past}
        given = {name: torch.from_numpy(values)[None] for name, values in covariates.items() if values.shape[1]}
        return self.model_.update(stream, torch.from_numpy(one.values)[None], **given)

    def _of_streams(self, asked: Asked, quantiles: np.ndarray) -> np.ndarray:
        """Forecasts, with those of the series that have gone on in the place of their windows'."""
        found, horizon = quantiles.copy(), self.model_.config.horizon
        for number, one in enumerate(asked.table.series):
            if one.name in self._streams_:
                ahead = torch.from_numpy(one.known[-horizon:])[None] if one.known.shape[1] else None
                found[number] = self.model_.forecast(self._streams_[one.name], ahead)[0].double().numpy()
        return found

    def _continued(self, before: OneSeries, came: OneSeries) -> OneSeries:
        """A series with the rows that came."""
        before = _without_ahead(before)
        due = self._seen_.frequency.after(before.times, len(came.times))
        if not np.array_equal(due, came.times):
            first, expected = came.form.written(came.times[:1])[0], before.form.written(due[:1])[0]
            raise DataError(f"series {came.name}: its times do not continue: {expected} is next, and {first} came")
        return replace(
            before, times=np.concatenate([before.times, came.times]),
            values=np.concatenate([before.values, came.values]), known=np.concatenate([before.known, came.known]),
            past=np.concatenate([before.past, came.past]),
        )  # fmt: skip

    def _kept(self, one: OneSeries) -> OneSeries:
        """The last steps of a series, as many as a window may need: what is kept does not grow."""
        return _cut(one, slice(-2 * (self.model_.config.context + self.model_.config.horizon), None))

    def _windows(self, table: SeriesTable, stride: int, origins: int | None) -> Windows:
        config = self.model_.config
        ends = {one.name: _without_ahead(one).times[-1] for one in self._seen_.series}
        lengths = np.array([len(one.times) for one in table.series])
        fitted = [
            int(np.searchsorted(one.times, ends[one.name], side="right")) if one.name in ends else 0
            for one in table.series
        ]
        first = np.array([
            after if 0 < after <= length - config.horizon else min(config.context, length // 2)
            for after, length in zip(fitted, lengths, strict=True)
        ])  # fmt: skip
        if origins is not None:
            first = np.maximum(first, lengths - config.horizon - (origins - 1) * stride)
        deviation = over_series(deviation_of, table, first)
        naive = over_series(lambda values: naive_error(values, config.seasons[0]), table, first)
        windows = Windows(table.series, first, lengths, naive, deviation, config.context, config.horizon, 1, stride)
        if not len(windows):
            raise DataError(f"no series has {config.horizon} steps after a context to forecast them from")
        return windows

    def _scored(self, table: SeriesTable, windows: Windows) -> Backtest:
        config, levels = self.model_.config, self.model_.config.levels
        tallies = {name: ForecastTally(windows, levels) for name in ("model", "last value", "season before")}
        found, done = list[np.ndarray](), 0
        for batch in windows.evaluation_batches():
            labels = batch.pop("labels").numpy()
            quantiles = self.model_.predict(**cast(dict[str, Any], batch)).numpy()
            found.append(quantiles)
            tallies["model"].add(done, quantiles, labels)
            for name, steps in (("last value", 1), ("season before", config.seasons[0])):
                naive = naive_forecast(batch["past_values"], steps, windows.horizon).numpy()
                tallies[name].add(done, naive[..., None].repeat(len(levels), axis=2), labels, may_lack=True)
            done += len(labels)
        scores: dict[str, list[object]] = {"method": [*tallies]}
        for name in SCORES[:-2]:
            scores[name] = [getattr(tally.scores(0.0), name) for tally in tallies.values()]
        for name in SCORES[-2:]:  # of a naive forecast, which has no quantiles, there is none
            scores[name] = [getattr(tallies["model"].scores(0.0), name), None, None]
        return Backtest(self._forecasts(table, windows, np.concatenate(found)), frame_of(scores, {}, self._backend_))

    def _forecasts(self, table: SeriesTable, windows: Windows, quantiles: np.ndarray) -> Frame:
        """A row for each window and step."""
        config, columns = self.model_.config, self.columns_
        time, middle = cast(str, columns.time), config.levels.index(0.5)
        name = columns.series or "series"
        rows: dict[str, list[object]] = {name: [], time: [], "origin": [], "actual": []}
        for number, origin in windows.places:
            one = table.series[number]
            times = one.form.written(one.times[origin - 1 : origin + config.horizon])
            rows[name] += [one.name] * config.horizon
            rows[time] += times[1:]
            rows["origin"] += [times[0]] * config.horizon
            rows["actual"] += one.values[origin : origin + config.horizon].tolist()
        target = columns.target[0] if len(columns.target) == 1 else "forecast"
        for place in (middle, *(place for place in range(len(config.levels)) if place != middle)):
            ending = "" if place == middle else f"_{config.levels[place]!r}"
            rows[f"{target}{ending}"] = quantiles[..., place].ravel().tolist()
        types = {n: self._types_[n] for n in (time, name) if n in self._types_}
        return frame_of(rows, types | ({"origin": types[time]} if time in types else {}), self._backend_)


def _read(data: Data) -> tuple[pa.Table, str]:
    """A frame, or a file, as a table, and the library of the frame."""
    if not isinstance(data, str | Path):
        return table_of(data)
    from gatedrnn.tables.files import read_table

    return pa.table(read_table(Path(data)).lists()), "pandas"


def _table(table: pa.Table, columns: Columns, *, valued: bool = True) -> SeriesTable:
    """A table, read as that of training.

    Args:
        table: its columns.
        columns: their roles.
        valued: whether there are values; if not, they are set to 0, to be left out.
    """
    if not valued:
        rest = [name for name in columns.target if name not in table.column_names]
        for name in columns.target:
            zeros = pa.array(np.zeros(len(table)))
            if name in rest:
                table = table.append_column(name, zeros)
            else:
                table = table.set_column(table.column_names.index(name), name, zeros)
        for name in (*columns.past, *columns.fixed):
            if name not in table.column_names:
                table = table.append_column(name, pa.array(np.zeros(len(table))))
    return read_series_table(Table.of_arrow(table), columns)


def _with_known(table: SeriesTable, ahead: SeriesTable) -> SeriesTable:
    """A table with the known covariates of the steps after its last values."""
    rows, joined = {one.name: one for one in ahead.series}, []
    for one in table.series:
        if one.name not in rows:
            raise DataError(f"series {one.name}: has no rows among the known covariates")
        seen, more = _without_ahead(one), rows[one.name]
        due = table.frequency.after(seen.times, len(more.times))
        if not np.array_equal(due, more.times):
            first, expected = more.form.written(more.times[:1])[0], seen.form.written(due[:1])[0]
            raise DataError(f"series {one.name}: known covariates begin at {first}, and {expected} is next")
        nothing = np.full(len(due), np.nan)
        joined.append(replace(
            seen, times=np.concatenate([seen.times, due]), values=np.concatenate([seen.values, nothing]),
            known=np.concatenate([seen.known, more.known]),
            past=np.concatenate([seen.past, np.full((len(due), seen.past.shape[1]), np.nan)]),
        ))  # fmt: skip
    return replace(table, series=joined)


def _without_ahead(one: OneSeries) -> OneSeries:
    """A series up to its last value."""
    return _cut(one, slice(int(np.flatnonzero(~np.isnan(one.values))[-1]) + 1))


def _cut(one: OneSeries, steps: slice) -> OneSeries:
    return replace(one, times=one.times[steps], values=one.values[steps], known=one.known[steps], past=one.past[steps])


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
