"""Forecasting as a task: windows of a table's series, its splits, and the steps that it does not have yet."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from gatedrnn.data.batches import Batch
from gatedrnn.data.task import TaskData, kept
from gatedrnn.data.windows import ROUNDING, OneSeries, Windows, deviation_of, first_beyond, scale_of
from gatedrnn.errors import DataError
from gatedrnn.records import Json
from gatedrnn.tables.files import Source
from gatedrnn.tables.frequency import calendar_features
from gatedrnn.tables.table import type_kept
from gatedrnn.tables.times import joined_form
from gatedrnn.tasks.forecast.seasons import seasons_of
from gatedrnn.tasks.forecast.settings import ForecastSettings
from gatedrnn.tasks.forecast.table import (
    Columns,
    SeriesTable,
    grid_of,
    read_series_table,
    until_last_values,
    weekly_co2,
)

WITHOUT_SEASON, USUAL_CONTEXT = 8, 120
"""Steps of a horizon and of a context that nothing else is known of."""
_MAX_OF_FOUR = 256
"""Steps that a context of four seasons may have; longer ones are of two."""
_BESIDE_SHORTER = 1.5
"""The part of a context in longest seasons, where shorter ones tell the most: a longer context leaves fewer windows."""
MIN_ORIGINS, MAX_FORECASTS = 24, 2048
"""Forecasts in a window of training: all, as long as they are not too many steps together."""
_MIN_CLOSED = 3
"""Long gaps of a series from which they are hours when nothing is measured."""
MIN_STEPS = 3
"""Steps of training of any series: a shorter one has no part in validation and test."""


class Read(NamedTuple):
    """The tables and settings that a task reads."""

    table: SeriesTable
    test_lengths: np.ndarray | None
    """(series,): the steps that come from a file of their own; None without one."""
    sources: list[dict[str, Json]]


class Cuts(NamedTuple):
    """The steps at which each series is cut, (series,): training ends before `validation`, validation before `test`."""

    validation: np.ndarray
    test: np.ndarray
    stop: np.ndarray

    def parts(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """First and last cut of validation and test, as far as a series has them."""
        cuts = {"validation": (self.validation, self.test), "test": (self.test, self.stop)}
        return {split: part for split, part in cuts.items() if (part[0] < part[1]).any()}


def load_forecast(settings: ForecastSettings) -> TaskData:
    """Series, to be forecast from their past.

    Raises:
        DataError: a file cannot be used, or a series is too short for its splits.
    """
    # Further trainings of one run see other parts of the same table.
    read = kept((settings.model_copy(update={"train_on": "train"}), "table"), lambda: read_tables(settings))
    table = until_last_values(read.table)
    notes = _notes(table)
    table = with_calendar(table, settings.calendar)
    whole = np.array([len(series.values) for series in table.series])
    usual = _seasons(settings, table, whole, read.test_lengths)
    horizon = settings.horizon or _horizon(usual[0], int(np.median(whole)))
    cuts = _cuts(settings, table, horizon, whole, read.test_lengths)
    learned = {"train": cuts.validation, "train+validation": cuts.test, "all": cuts.stop}[settings.train_on]
    # The last value, a season of 1, is among the smoothers: beside a season it is not one.
    asked = tuple(sorted({season for season in settings.season if season > 1})) or settings.season[:1]
    seasons = asked or usual
    longest = int(cuts.stop.max()) - (horizon if cuts.parts() else 1)
    usual_context = max(_steps_of_seasons(seasons), 2 * horizon, USUAL_CONTEXT)
    # A context that lies in closed hours alone has no value: it reaches over the longest of them.
    closed = max(_longest_gap(series.values) for series in table.series)
    if closed + seasons[0] > usual_context and _closes_often(table):
        usual_context = closed + seasons[0]
    context = settings.context or max(1, min(usual_context, longest))
    origins = min(context, settings.origins or max(MIN_ORIGINS, MAX_FORECASTS // horizon))
    said = " and ".join(map(str, seasons))
    if counted := _counted(table, learned):
        notes.append("No value of training is below 0 and some are 0: no forecast is below 0 either.")
    notes.append(f"Season of {said} steps ({table.frequency}), horizon {horizon}, context {context}.")

    deviation = over_series(deviation_of, table, learned)

    # Where every series repeats itself exactly, a season before is no scale: the step before is.
    of_season = over_series(lambda values: naive_error(values, seasons[0]), table, cuts.validation)
    repeats = 1 < seasons[0] < cuts.validation.max() and bool(np.isnan(of_season).all())
    unit = 1 if repeats else seasons[0]
    if repeats:
        notes.append(
            f"From season to season ({seasons[0]} steps) no value changes: MASE is in units of a step's change."
        )

    def windows(first: np.ndarray, stop: np.ndarray, origins: int = 1) -> Windows:
        naive = over_series(lambda values: naive_error(values, unit), table, first)
        return Windows(
            table.series, first, stop, naive, deviation, context, horizon, origins, settings.stride or horizon
        )

    train = windows(np.ones_like(whole), learned, origins)
    evaluation = {
        split: windows(*of) for split, of in cuts.parts().items() if settings.train_on == "train"
    }  # fmt: skip
    for split in ("validation", "test"):
        if split not in cuts.parts():
            notes.append(f"The series are too short for a {split} part of {horizon} steps: there is none.")
    for split, part in evaluation.items():
        if not len(part):
            raise DataError(f"{settings.task}: no series has a {split} part as long as the horizon, {horizon}")
        if np.isnan(part.naive_error[part.places[:, 0]]).all():
            raise DataError(_without_scale(table, seasons[0], split, part))
        if not part.labelled[~np.isnan(part.naive_error[part.places[:, 0]])].any():
            raise DataError(
                f"{table.source['name']}: no value of the {split} part can be scored: all are missing there, in the "
                f"{context} steps before, or in series that are constant; give other splits, such as a longer "
                f"--{split}-steps"
            )
    features = _features(table, learned)
    check_float32(table, *(cast(list[float], features[name]) for name in ("covariate_means", "covariate_deviations")))
    recorded = table.columns._asdict()
    recorded |= recorded.pop("dialect")._asdict()
    return TaskData(
        name=settings.task,
        model_inputs={
            **features, "pad_token_id": None, "unk_token_id": None,
            "horizon": horizon, "context": context, "seasons": list(seasons), "quantiles": list(settings.quantiles),
            "usual_deviation": train.usual, "non_negative": counted,
            "table": {
                **{k: list(v) if isinstance(v, tuple) else v for k, v in recorded.items()},
                "frequency": table.frequency.setting,
                "calendar": list(settings.calendar),
                "time_type": _type_kept(table, table.columns.time),
                "series_type": _type_kept(table, table.columns.series),
            },
        },
        train=train, evaluation=evaluation, sources=read.sources, notes=notes, table=read.table,
    )  # fmt: skip


def _type_kept(table: SeriesTable, column: str | None) -> str | None:
    """The type in which a forecast has a column of the table; None of a file without types."""
    kind = None if column is None else table.types.get(column)
    return None if kind is None else type_kept(kind) or "string"


def read_tables(settings: ForecastSettings) -> Read:
    """The table of a task, with what continues it, and the times after the last value that have covariates alone.

    Raises:
        DataError: a file cannot be used.
    """
    columns = Columns(
        settings.target, ",".join(settings.series_column) or None, ",".join(settings.time_column) or None,
        settings.known, settings.past, settings.fixed, settings.frequency, settings.missing, settings.dialect,
        settings.decimal, settings.date_order, settings.thousands, settings.duplicates, settings.absent, settings.zone,
        settings.last_step, rows_are_steps=settings.rows_are_steps, columns_are_steps=settings.columns_are_steps,
    )  # fmt: skip
    if settings.train_file is None:
        if settings.test_file is not None:
            raise DataError("--test-file continues --train-file; give both")
        table = weekly_co2()
        return Read(table, None, [table.source])
    table = read_series_table(settings.train_file, columns)
    if settings.test_file is None:
        return Read(table, None, [table.source])
    columns, table = table.columns._replace(frequency=table.frequency.setting), until_last_values(table)
    continued = read_series_table(settings.test_file, columns)
    test = {series.name: len(series.values) for series in until_last_values(continued).series}
    whole = _joined(table, continued)
    test_lengths = np.array([test[series.name] for series in whole.series])
    return Read(whole, test_lengths, [{**table.source, "split": "train"}, {**continued.source, "split": "test"}])


def with_calendar(table: SeriesTable, names: tuple[str, ...]) -> SeriesTable:
    """The table with features of its calendar among the covariates whose future is known.

    Raises:
        DataError: its times are numbers.
    """
    if not names:
        return table
    form = table.series[0].form
    if form.kind != "dates":
        raise DataError(f"{table.source['name']}: --calendar needs dates; times are {form} here")
    series = [
        replace(
            entry,
            known=np.concatenate([entry.known, calendar_features(entry.form.local(entry.times), names)], axis=1),
        )
        for entry in table.series
    ]
    return replace(table, series=series)


def check_float32(table: SeriesTable, means: Sequence[float], deviations: Sequence[float]) -> None:
    """Check that covariates fit float32 in units of training's deviations, which are those of a model's last channels.

    Raises:
        DataError: one does not; its series, time and column are named.
    """
    for series in table.series:
        fixed = np.broadcast_to(series.fixed, (len(series.times), len(series.fixed)))
        columns = np.concatenate([series.known, series.past, fixed], axis=1)
        first = len(means) - columns.shape[1]
        if columns.shape[1] and (at := first_beyond(columns, means[first:], deviations[first:])) is not None:
            names = [*table.columns.known, *[""] * (series.known.shape[1] - len(table.columns.known))]
            names += [*table.columns.past, *table.columns.fixed]
            raise DataError(
                f"{table.source['name']}: series {series.name}, {series.form.written(series.times[[at[0]]])[0]}, "
                f"column {names[at[1]]!r}: {columns[at]:g} does not fit float32 in units of training's deviation "
                f"there, {deviations[first + at[1]]:g}"
            )


def _notes(table: SeriesTable) -> list[str]:
    notes, missing = (
        [*([table.said] if table.said else []), f"Grid: {grid_of(table)}."],
        sum(int(np.isnan(series.values).sum()) for series in table.series),
    )
    if missing:
        total = sum(len(series.values) for series in table.series)
        left_out = "" if table.columns.absent == "zero" else "; --absent zero reads these as 0"
        notes.append(
            f"{missing:,} of {total:,} values are missing, times that the file leaves out among them{left_out}."
        )
    if table.unused:
        notes.append("--target, --known, --past and --fixed give a column that is not used a role.")
    constant = [series.name for series in table.series if np.nanmin(series.values) == np.nanmax(series.values)]
    if constant:
        notes.append(f"Constant series: {', '.join(constant[:30])}.")
    return notes


def _joined(table: SeriesTable, after: SeriesTable) -> SeriesTable:
    """Each series with the times that follow it in another file.

    Raises:
        DataError: the other file has other series, or times that do not follow.
    """
    later = {earlier.name: earlier for earlier in after.series}
    series = []
    for earlier in table.series:
        if earlier.name not in later:
            raise DataError(f"{after.source['name']}: has no series {earlier.name}, which is in {table.source['name']}")
        then = later.pop(earlier.name)
        try:
            form = joined_form((earlier.form, earlier.times), (then.form, then.times))
        except DataError as error:
            raise DataError(f"{after.source['name']}: series {earlier.name}: {error}") from error
        following = table.frequency.after(earlier.times, 1)
        if table.frequency.places(np.array([earlier.times[-1], then.times[0]])).tolist() != [0, 1]:
            raise DataError(
                f"{after.source['name']}: series {earlier.name} begins at {then.form.written(then.times[:1])[0]}; "
                f"after {table.source['name']} comes {earlier.form.written(following)[0]}"
            )
        if not np.array_equal(then.fixed, earlier.fixed, equal_nan=True):
            raise DataError(f"{after.source['name']}: series {earlier.name}: its --fixed columns have other values")
        series.append(
            replace(
                earlier, form=form, times=np.concatenate([earlier.times, then.times]),
                values=np.concatenate([earlier.values, then.values]),
                known=np.concatenate([earlier.known, then.known]), past=np.concatenate([earlier.past, then.past]),
            )
        )  # fmt: skip
    if later:
        raise DataError(f"{after.source['name']}: series {next(iter(later))} is not in {table.source['name']}")
    return replace(table, series=series)


def _cuts(
    settings: ForecastSettings, table: SeriesTable, horizon: int, whole: np.ndarray, test_lengths: np.ndarray | None
) -> Cuts:
    """Splits by time. A part that is given by its steps has as many; a fraction, no less than the horizon, or none in a
    series that is too short."""

    def steps(asked: int | None, fraction: float, of: np.ndarray) -> np.ndarray:
        return np.full_like(of, asked) if asked else np.maximum(horizon, np.round(fraction * of).astype(of.dtype))

    test = test_lengths if test_lengths is not None else steps(settings.test_steps, settings.test_fraction, whole)
    test = np.where(whole - test < MIN_STEPS, 0, test) if test_lengths is None else test
    validation = steps(settings.validation_steps, settings.validation_fraction, whole - test)
    validation = np.where(whole - test - validation < MIN_STEPS, 0, validation)
    lacking = not test.any() or not validation.any()
    if lacking and (settings.test_steps or settings.validation_steps or test_lengths is not None):
        longest = int(whole.argmax())
        raise DataError(
            f"{table.source['name']}: no series is long enough for a horizon of {horizon}: the longest, "
            f"{table.series[longest].name}, has {whole[longest]:,} steps, and training, validation and test need "
            f"{MIN_STEPS + int(validation[longest] or horizon) + int(test[longest] or horizon):,}; take a shorter "
            "--horizon or shorter splits"
        )
    if settings.train_steps:
        whole = np.minimum(whole, settings.train_steps + validation + test)
    cuts = Cuts(whole - test - validation, whole - test, whole)
    for series, stop in zip(table.series, cuts.validation, strict=True):
        if np.isnan(series.values[:stop]).all():
            raise DataError(f"{table.source['name']}: series {series.name}: all training values are missing")
    return cuts


def _without_scale(table: SeriesTable, season: int, split: str, windows: Windows) -> str:
    """The reason why no error of a part can be put in units of a seasonal naive one."""
    longest, name = int(windows.first.max()), table.source["name"]
    if longest <= season:
        return (
            f"{name}: a season of {season} is no shorter than the {longest} steps before the {split} part, so that no "
            "error can be scaled; give a shorter --season"
        )
    return (
        f"{name}: before the {split} part every series is constant: no error can be scaled, and there is nothing to "
        "learn"
    )


def _steps_of_seasons(seasons: Sequence[int]) -> int:
    """Return how many steps of context the seasons ask for, the shortest first."""
    if len(seasons) > 1:
        return max(2 * seasons[0], math.ceil(_BESIDE_SHORTER * seasons[-1]))
    return max(2 * seasons[0], min(4 * seasons[0], _MAX_OF_FOUR))


def _seasons(
    settings: ForecastSettings, table: SeriesTable, whole: np.ndarray, test_lengths: np.ndarray | None
) -> tuple[int, ...]:  # fmt: skip
    """The seasons of the frequency, and of the values that a horizon of one step would train on."""
    stops = _cuts(settings, table, 1, whole, test_lengths).validation
    training = [series.values[:stop] for series, stop in zip(table.series, stops, strict=True)]
    return seasons_of(training, table.frequency.seasons)


def _longest_gap(values: np.ndarray) -> int:
    """The longest run of missing values."""
    there = np.flatnonzero(~np.isnan(values))
    return int(np.diff(there).max(initial=1)) - 1


def _closes_often(table: SeriesTable) -> bool:
    """Whether a series has long gaps again and again, as of nights and weekends, not one hole."""
    values = table.series[0].values
    gaps = np.diff(np.flatnonzero(~np.isnan(values))) - 1
    return int((gaps * 2 >= gaps.max(initial=0)).sum()) >= _MIN_CLOSED and gaps.max(initial=0) > 0


def _horizon(season: int, steps: int) -> int:
    """A season, or where there is none or it does not fit a few steps, in a series of so many."""
    fits = 3 * season + 2 <= steps  # a test, a validation and a training part
    return season if season > 1 and fits else max(1, min(WITHOUT_SEASON, steps // 10))


def naive_error(values: np.ndarray, season: int) -> float:
    """Mean absolute difference from a season before; NaN where it is 0 but for rounding, or there is no pair."""
    errors = np.abs(values[season:] - values[:-season])
    mean = float(np.nanmean(errors)) if len(errors) and not np.isnan(errors).all() else np.nan
    return mean if mean > ROUNDING * np.nanmax(np.abs(values), initial=0.0) else np.nan


def over_series(of: Callable[[np.ndarray], float], table: SeriesTable, stop: np.ndarray) -> np.ndarray:
    """(series,): a figure of each series' values up to `stop`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of series without any value there
        return np.array([of(series.values[:end]) for series, end in zip(table.series, stop, strict=True)])


def _counted(table: SeriesTable, learned: np.ndarray) -> bool:
    """Whether no value that is trained on is below 0, and some are 0: counts, sales, intermittent demand. Columns of a
    wide table may be of unlike kinds: each of them has a 0 then.
    """
    lowest = over_series(np.nanmin, table, learned)
    return float(np.nanmin(lowest) if table.columns.series is not None else np.nanmax(np.abs(lowest))) == 0


def _features(table: SeriesTable, learned: np.ndarray) -> dict[str, Json]:
    """Fields of the model's configuration: how many covariates a step has, and mean, deviation and flag of each.

    Args:
        learned: (series,), the steps of each that are trained on.
    """
    parts = zip(table.series, learned, strict=True)
    training = [(series.known[:stop], series.past[:stop], series.fixed) for series, stop in parts]
    columns = [np.concatenate([part[index] for part in training]) for index in (0, 1)]
    columns.append(np.stack([part[2] for part in training]))
    means, deviations, flagged = list[float](), list[float](), list[int]()
    for column in columns:
        flagged += [len(means) + int(column_index) for column_index in np.flatnonzero(np.isnan(column).any(0))]
        mean, deviation = scale_of(column)
        means += np.nan_to_num(mean).tolist()
        deviations += deviation.tolist()
    known, past, fixed = (column.shape[1] for column in columns)
    return {
        "covariate_means": means, "covariate_deviations": deviations, "flagged_covariates": flagged,
        "known_size": known, "past_size": past, "static_size": fixed,
    }  # fmt: skip


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


def read_asked(source: Source, columns: Columns, calendar: tuple[str, ...], context: int, horizon: int) -> Asked:
    """A file or a table whose series are to be forecast. Its last rows may hold known covariates alone.

    Raises:
        DataError: as `read_series_table`; or known covariates of a step of the horizon are missing.
    """
    return asked_of(read_series_table(source, columns), calendar, context, horizon)


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
