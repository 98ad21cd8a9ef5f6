"""Forecasts of a finished model, for tables and pictures: of the steps after a table's end, and of its own test."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa
from pydantic import Field

from gatedrnn import manifest
from gatedrnn.data import TaskData, Windows
from gatedrnn.data.frames import Frame, frame_of, write_predictions
from gatedrnn.data.windows import deviation_of
from gatedrnn.errors import DataError
from gatedrnn.models import GatedRNNForForecasting
from gatedrnn.models.forecast_configuration import GatedRNNForecastConfig
from gatedrnn.models.forecast_units import naive_forecast
from gatedrnn.pages import plural
from gatedrnn.records import Json
from gatedrnn.tables.files import Source, read_csv
from gatedrnn.tables.keys import split_line
from gatedrnn.tables.options import recorded_dialect
from gatedrnn.tables.table import Table, type_named
from gatedrnn.tables.times import MAX_DECIMALS, decimals_of
from gatedrnn.tasks.forecast.read import (
    Asked,
    asked_of,
    check_float32,
    naive_error,
    over_series,
    read_asked,
    with_calendar,
)
from gatedrnn.tasks.forecast.scores import ForecastTally
from gatedrnn.tasks.forecast.table import Columns, read_series_table, until_last_values
from gatedrnn.training.finished import data_of, open_tested
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.result import Record

FORECAST_FILE = "forecast.csv"
"""The file in a run's folder with the steps after the last values of its table."""
ROWS = 256
"""Series that are forecast together."""
SHOWN = 4
"""Series that are drawn."""
HARDEST = 2
"""Forecasts of the test that are drawn because they are furthest off."""
_LEANS = 0.2
"""The fraction of the mean error below which a bias is not worth a number."""


class Drawn(Record):
    """One forecast, to be drawn."""

    series: str
    times: list[str | float]
    """The times of the context and the horizon."""
    past: list[float | None]
    """Values of the context."""
    truth: list[float | None]
    """Values of the horizon; empty after a table's end."""
    quantiles: list[list[float]]
    """(horizon, quantiles)"""


class Forecasts(Record):
    """forecasts.json of a run's folder: what its page draws."""

    VERSION: ClassVar[int] = 1

    version: int = Field(VERSION, alias="schema")
    levels: list[float]
    unused: list[str] = []
    """Columns of covariates that have no part in the forecast."""
    test: list[Drawn]
    """The last forecast of the test part of a few series."""
    future: list[Drawn]
    """The forecasts of the same series after their end; empty where known covariates are missing there."""
    mase: dict[str, float] = {}
    """The scaled error of the test as `mase` of its scores, over all its labels: of the model, and of naive forecasts;
    empty without a test."""
    error_by_step: dict[str, list[float]] = {}
    """Mean scaled error of the test at each step of the horizon: of the model, and of naive forecasts; empty without a
    test."""
    coverage: dict[str, float] = {}
    """The share of test values at or below each quantile."""
    within: float | None = None
    """The share of test values from the lowest to the highest quantile, both included: `coverage` of its scores."""
    bias: float | None = None
    """Scaled error of the median in the mean of the test, with its sign: above 0 where forecasts are too high."""
    hardest: list[Drawn] = []
    """The forecasts of the test that are furthest off."""

    def on_unused(self) -> list[str]:
        """A sentence on covariates that have no part in the forecast, if there are any."""
        if not self.unused:
            return []
        named = ", ".join(map(repr, self.unused))
        return [
            f"No part in the forecast: {named}. On the validation part it was better without the network, and a "
            "regression on the known columns explained too little to keep it."
        ]

    def sentences(self) -> list[str]:
        """The model beside naive forecasts; how wide its intervals are; whether it leans to one side."""
        if not self.mase:
            return ["no test: the series are too short to set a part apart"]
        nominal = self.levels[-1] - self.levels[0]
        lines = [self.sentence()]
        if nominal and self.within is not None:
            lines.append(f"{self.within:.0%} of the test values lie in the {nominal:.0%} interval")
        error = self.mase["model"]
        if not self.bias or not error:
            return lines
        side, part = "high" if self.bias > 0 else "low", abs(self.bias) / error
        much = f"by {part:.0%} of the mean error" if part >= _LEANS else "by little beside the mean error"
        return [*lines, f"in the mean, forecasts are too {side} {much}"]

    def sentence(self) -> str:
        """The model beside naive forecasts, on the test."""
        errors = dict(self.mase)
        mine, others = errors.pop("model"), [f"{name} {error:.3f}" for name, error in errors.items()]
        best = min(errors.values())
        if not best:
            return f"test mase {mine:.3f}: {min(errors, key=errors.__getitem__)} makes no error there"
        less = f"{1 - mine / best:.0%}"
        better = f"{less} less than" if mine < best and less != "0%" else "no better than"
        return f"test mase {mine:.3f}: {better} the better of {' and '.join(others)}"


def asked_of_data(data: TaskData) -> Asked:
    """The steps after the end of the data of a forecast.

    Raises:
        DataError: known covariates of the horizon are missing.
    """
    assert data.table is not None
    inputs = cast(dict[str, Any], data.model_inputs)
    return asked_of(data.table, tuple(inputs["table"]["calendar"]), inputs["context"], inputs["horizon"])


def times_of(asked: Asked) -> list[list[Json]]:
    """The times of the horizon of each series."""
    both = zip(asked.table.series, asked.origins, strict=True)
    return [list[Json](series.form.written(series.times[origin:])) for series, origin in both]


def quantiles_of(model: GatedRNNForForecasting, asked: Asked) -> np.ndarray:
    """(series, horizon, quantiles), float64, of the steps after the last value of each series."""
    batch, parts = asked.batch(), []
    for first in range(0, len(asked.origins), ROWS):
        part = {name: tensor[first : first + ROWS] for name, tensor in batch.items()}
        parts.append(model.predict(**cast(dict[str, Any], part)).numpy())
    return np.concatenate(parts)


def asked_of_file(model: GatedRNNForForecasting, source: Source) -> Asked:
    """A file or a table read as that of training was.

    Raises:
        DataError: it cannot be read so, or known covariates of the horizon are missing.
    """
    columns, calendar = _roles_of(model)
    asked = read_asked(source, columns, calendar, model.config.context, model.config.horizon)
    config = model.config
    if config.channel_means is not None and config.channel_deviations is not None:
        check_float32(asked.table, config.channel_means, config.channel_deviations)
    return asked


def _roles_of(model: GatedRNNForForecasting) -> tuple[Columns, tuple[str, ...]]:
    """The roles of columns as training had them, and the features of the calendar."""
    how = model.config.table
    if how is None:
        raise DataError("this model was not trained on a table; call it in Python")
    columns = Columns(**{name: _tuple(how[name]) for name in Columns._fields if name in how})
    return columns._replace(dialect=recorded_dialect(how)), cast(tuple[str, ...], _tuple(how["calendar"]))


def last_windows_of_file(model: GatedRNNForForecasting, source: Source) -> tuple[Windows, list[str]]:
    """The last `horizon` steps of each series of a file, which are to be forecast from those before, and what is to be
    known of them.

    Raises:
        DataError: the file cannot be read as training's, or no series is longer than the horizon.
    """
    columns, calendar = _roles_of(model)
    table, horizon = until_last_values(read_series_table(source, columns)), model.config.horizon
    long_enough = [one for one in table.series if len(one.values) > horizon]
    if not long_enough:
        raise DataError(f"{table.source['name']}: no series is longer than the {horizon} steps that are forecast")
    left_out = len(table.series) - len(long_enough)
    notes = [table.said, *([f"{plural(left_out, 'series')} of {horizon} steps or fewer left out"] if left_out else [])]
    table = with_calendar(replace(table, series=long_enough), calendar)
    stop = np.array([len(one.values) for one in table.series])
    first, season = stop - horizon, (model.config.seasons or [1])[0]
    naive = over_series(lambda values: naive_error(values, season), table, first)
    deviation = over_series(deviation_of, table, first)
    return Windows(table.series, first, stop, naive, deviation, model.config.context, horizon), notes


def forecast_of_file(
    model: GatedRNNForForecasting, source: Source
) -> tuple[dict[str, list[Json]], list[str], dict[str, pa.DataType]]:
    """The steps after the last value of each series of a file, as columns, what is to be known of them, and the types
    of times and names as the file has them.

    Raises:
        DataError: as `asked_of_file`.
    """
    asked = asked_of_file(model, source)
    what = plural(len(asked.origins), "series")
    columns = table_of(asked, quantiles_of(model, asked), model.config.levels)
    context, short = model.config.context, int((asked.origins < model.config.context).sum())
    few = [f"{plural(short, 'series')} shorter than the {context} steps that the model reads"] if short else []
    return columns, [asked.table.said, *few, f"{model.config.horizon} steps of {what}"], types_of(asked)


def types_of(asked: Asked) -> dict[str, pa.DataType]:
    """The types of times and names as a file has them."""
    named = (asked.table.columns.time, asked.table.columns.series)
    return {name: asked.table.types[name] for name in named if name is not None and name in asked.table.types}


def write_forecast(model: GatedRNNForForecasting, asked: Asked, output: Path) -> None:
    """The forecast of a table as a file; its ending decides the kind."""
    columns = table_of(asked, quantiles_of(model, asked), model.config.levels)
    write_predictions(output, Table(columns), {}, str(asked.table.source["name"]), {})


def read_forecast(file: Path, config: GatedRNNForecastConfig, backend: str) -> Frame:
    """A forecast that `write_forecast` wrote as a CSV file, with the types that times and names came in.

    Of a table that had no types, another CSV, names and times are numbers where each reads the same as a number.
    """
    columns = read_csv(file)
    how = config.table or {}
    named = (how.get("time"), how.get("series"), *_tuple(how.get("keys", ())))
    types = {name: _type_of_text(columns[name]) if name in named else pa.float64() for name in columns}
    for what in ("time", "series"):
        if (kind := how.get(f"{what}_type")) is not None:
            types[str(how[what])] = type_named(str(kind))
    return frame_of(columns, types, backend)


def _type_of_text(texts: Sequence[str]) -> pa.DataType:
    """The type of numbers that would be written like this, or text."""
    for kind, of in ((pa.int64(), int), (pa.float64(), float)):
        try:
            if all(str(of(text)) == text and abs(float(text)) < 2**63 for text in texts):
                return kind
        except ValueError:
            continue
    return pa.string()


def _rounded(asked: Asked, quantiles: np.ndarray) -> np.ndarray:
    """Quantiles (series, horizon, quantiles) without the digits of float32 that no value of their series has."""
    rounded = quantiles.copy()
    for number, (series, origin) in enumerate(zip(asked.table.series, asked.origins, strict=True)):
        values = series.values[:origin]
        decimals = decimals_of(values[~np.isnan(values)])
        if decimals <= MAX_DECIMALS:  # of a binary fraction all digits are its own
            rounded[number] = np.round(quantiles[number], decimals + 2)
    return rounded


def table_of(asked: Asked, quantiles: np.ndarray, levels: list[float]) -> dict[str, list[Json]]:
    """A forecast as columns, with the names of the table: the median under the target's own, each other quantile with
    its level after it, as in y_0.9, or as in y_q0.9 where the table has such a name itself. Long where the table was
    long, else a row a time. Numbers have two decimals more than the values of their series."""
    table, middle, quantiles = asked.table, levels.index(0.5), _rounded(asked, quantiles)
    time, series = cast(str, table.columns.time), table.columns.series
    times = times_of(asked)
    targets = table.columns.target
    names = [name for name in (time, series, *targets) if name is not None]

    def ends(mark: str) -> list[str]:
        return ["" if place == middle else f"{mark}{level!r}" for place, level in enumerate(levels)]

    marks = (f"_{'q' * count}" for count in itertools.count())
    after = next(found for found in map(ends, marks) if _distinct(names, targets, [end for end in found if end]))

    order = [middle, *(place for place in range(len(levels)) if place != middle)]
    keys = () if series is None else table.columns.keys or (series,)
    groups = dict[tuple[str, ...], dict[str, int]]()
    for number, one in enumerate(table.series):
        key, target = _key_and_target(table.columns, one.name)
        groups.setdefault(key, {})[target] = number
    present = [target for target in targets if any(target in group for group in groups.values())]
    found: dict[str, list[Json]] = {name: [] for name in (*keys, time)}
    found |= {f"{target}{after[place]}": [] for target in present for place in order}
    for key, group in groups.items():
        # Columns that end at different times are forecast from their own ends, in the rows of all these times.
        ahead = [table.series[number].times[asked.origins[number] :].tolist() for number in group.values()]
        written = [times[number] for number in group.values()]
        rows = dict(sorted(zip(chain.from_iterable(ahead), chain.from_iterable(written), strict=True)))
        place_of = {moment: row for row, moment in enumerate(rows)}
        for name, part in zip(keys, key, strict=True):
            found[name] += [part] * len(rows)
        found[time] += rows.values()
        for target in present:
            values = np.full((len(rows), len(levels)), None, object)
            if target in group:
                begin = place_of[table.series[group[target]].times[asked.origins[group[target]]].tolist()]
                values[begin : begin + quantiles.shape[1]] = quantiles[group[target]]
            for place in order:
                found[f"{target}{after[place]}"] += values[:, place].tolist()
    return found


def _key_and_target(columns: Columns, series: str) -> tuple[tuple[str, ...], str]:
    """The names in the columns of series, and the target, of one series of a table."""
    if columns.series is None:
        return (), series
    if len(columns.target) > 1:
        *names, target = split_line(series)
        return tuple(names), target
    return tuple(split_line(series)) if columns.keys else (series,), columns.target[0]


def _distinct(names: Sequence[str], targets: Sequence[str], ends: Sequence[str]) -> bool:
    """Whether no two columns would have one name."""
    columns = [*names, *(f"{target}{end}" for target in targets for end in ends)]
    return len(set(columns)) == len(columns)


def write_forecasts(path: Path, final: GatedRNNForForecasting) -> Forecasts:
    """Write forecasts.json into a finished run's folder, and return it.

    Args:
        path: the folder.
        final: its model.
    """
    folder = RunFolder(path)
    tested = cast(GatedRNNForForecasting, open_tested(path).model) if folder.tested.exists() else final
    data = data_of(folder)
    assert isinstance(data.train, Windows)
    windows = cast(Windows | None, data.evaluation.get("test"))
    chosen = np.unique(np.linspace(0, len(data.train.series) - 1, SHOWN).round().astype(int))
    scored = {} if windows is None else _by_step(tested, windows, data)
    forecasts = Forecasts(
        levels=final.config.levels,
        unused=_unused(final),
        test=[] if windows is None else _last_of_test(tested, windows, chosen),
        future=_after_the_end(final, data, chosen),
        **scored,
    )
    forecasts.write(folder.forecasts)
    manifest.add(path, folder.forecasts.name)
    return forecasts


def _unused(model: GatedRNNForForecasting) -> list[str]:
    """The columns of covariates that a forecast does not depend on."""
    config = model.config
    if config.shrinkage < 1 or config.table is None:  # the network reads all of them
        return []
    known = [] if config.known_regression is not None else ["known", "calendar"]
    return [name for role in (*known, "past", "fixed") for name in cast(list[str], config.table[role])]


def _last_of_test(model: GatedRNNForForecasting, windows: Windows, chosen: np.ndarray) -> list[Drawn]:
    drawn = []
    for number in chosen:
        places = windows.places[windows.places[:, 0] == number]
        if not len(places):
            continue
        drawn.append(_of_window(model, windows, places[-1]))
    return drawn


def _of_window(model: GatedRNNForForecasting, windows: Windows, place: np.ndarray) -> Drawn:
    batch = windows.collate(place[None])
    labels = batch.pop("labels")
    quantiles = model.predict(**cast(dict[str, Any], batch))
    return _drawn(windows, int(place[0]), int(place[1]), quantiles[0].numpy(), labels[0].numpy())


def _after_the_end(model: GatedRNNForForecasting, data: TaskData, chosen: np.ndarray) -> list[Drawn]:
    try:
        asked = asked_of_data(data)
    except DataError:  # the future of known covariates is not in the file
        return []
    return drawn_after(model, asked, chosen)


def drawn_after(model: GatedRNNForForecasting, asked: Asked, chosen: Iterable[int]) -> list[Drawn]:
    """Forecasts of the steps after the end of these series, by their numbers."""
    quantiles = quantiles_of(model, asked)
    return [
        _drawn(asked.windows, int(number), int(asked.origins[number]), quantiles[number], np.empty(0))
        for number in chosen
    ]


def _drawn(windows: Windows, number: int, origin: int, quantiles: np.ndarray, truth: np.ndarray) -> Drawn:
    series, first = windows.series[number], max(0, origin - windows.context)
    return Drawn(
        series=series.name, times=series.form.written(series.times[first : origin + windows.horizon]),
        past=_known(series.values[first:origin]), truth=_known(truth), quantiles=quantiles.tolist(),
    )  # fmt: skip


def _by_step(model: GatedRNNForForecasting, windows: Windows, data: TaskData) -> dict[str, Any]:
    levels, done = model.config.levels, 0
    season = cast(list[int], data.model_inputs["seasons"])[0]
    tallies = {name: ForecastTally(windows, levels) for name in ("model", "last value", "seasonal naive")}
    below, count, leaning, scaled = np.zeros(len(levels)), 0, 0.0, 0
    for batch in windows.evaluation_batches():
        labels = batch.pop("labels").numpy()
        quantiles = model.predict(**cast(dict[str, Any], batch)).numpy()
        for name, steps in (("last value", 1), ("seasonal naive", season)):
            naive = naive_forecast(batch["past_values"], steps, windows.horizon).numpy()
            tallies[name].add(done, naive[..., None].repeat(len(levels), axis=2), labels, may_lack=True)
        tallies["model"].add(done, quantiles, labels)
        seen = ~np.isnan(labels)
        unit = windows.naive_error[windows.places[done : done + len(labels), 0], None]
        off = (quantiles[..., levels.index(0.5)] - labels) / unit
        leaning, scaled = leaning + float(np.nansum(off)), scaled + int((~np.isnan(off)).sum())
        below += ((labels[..., None] <= quantiles) & seen[..., None]).sum((0, 1))
        count, done = count + int(seen.sum()), done + len(labels)
    return {
        "mase": {name: tally.outcomes().rate for name, tally in tallies.items()},
        "error_by_step": {name: tally.error_by_step() for name, tally in tallies.items()},
        "coverage": {f"{level!r}": float(value / max(1, count)) for level, value in zip(levels, below, strict=True)},
        "within": tallies["model"].scores(0.0).coverage,
        "bias": leaning / scaled if scaled else None,
        "hardest": _furthest_off(model, windows, tallies["model"]),
    }


def _furthest_off(model: GatedRNNForForecasting, windows: Windows, tally: ForecastTally) -> list[Drawn]:
    unit = windows.naive_error[windows.places[:, 0]]
    off = tally.absolute / np.maximum(1, tally.labels) / unit
    order = np.argsort(-np.where(np.isnan(off), -1.0, off), kind="stable")[:HARDEST]
    return [_of_window(model, windows, windows.places[number]) for number in order]


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _known(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
