"""Baselines of forecasts: the naive ones, exponential smoothing, a linear map, and boosted trees on lags.

References: Hyndman and Athanasopoulos, Forecasting: Principles and Practice, 3rd edition, sections 5.2 and 5.5 (naive
methods and their intervals); Zeng et al. 2023, arXiv:2205.13504 (DLinear).
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from scipy.stats import norm
from torch import Tensor, nn

from gatedrnn.data import Batch, TaskData, Windows
from gatedrnn.extras import require
from gatedrnn.models.forecast_units import Scale, naive_forecast
from gatedrnn.models.smoothing import filled
from gatedrnn.tasks.forecast.scores import ForecastTally
from gatedrnn.training.baseline import PlainBaseline, check_lightgbm

LOG = logging.getLogger("gatedrnn")
Forecast = Callable[[Windows, np.ndarray], np.ndarray]
"""Quantiles (rows, horizon, quantiles) of the windows at `places`, (rows, 2)."""


class Fitted(NamedTuple):
    """A fitted method of forecasts."""

    parameters: int | None
    forecast: Forecast
    refits: bool
    """Whether it is fitted to each window anew."""


Fit = Callable[[], Fitted]

MAX_REFITS = 1_000
"""Windows of all splits together to which a method is fitted one by one."""
MAX_SEASON = 24
"""The longest season of exponential smoothing: statsforecast's AutoETS leaves longer seasons out."""
MAX_ROWS = 300_000
"""The most rows of a table that trees are fitted to."""
ROWS = 2_000
"""Windows that are forecast together."""
KERNEL, STEPS, BATCH, RATE = 25, 3_000, 64, 1e-3
"""DLinear: steps of the moving average, and its training."""


def forecast_baselines(
    data: TaskData, threads: int, refits: int | None = None
) -> Iterator[tuple[str, Callable[[], PlainBaseline]]]:
    """The baselines of a task of forecasts by name, the cheapest first: each is fitted to its training part and scored
    on the other splits when it is called.

    Args:
        threads: of boosted trees and of statsforecast.
        refits: windows to each of which a method is fitted, at most; `MAX_REFITS` if None.

    Raises:
        BackendUnavailable: LightGBM lacks a library of the system, when it is called.
    """
    task = _Task(data, threads, MAX_REFITS if refits is None else refits)
    for name, fit in task.methods():
        yield name, partial(_scored, name, fit, data, task.levels)


def forecast_methods(data: TaskData, threads: int) -> dict[str, Fit]:
    """All methods by name, each fitted to the training part when it is called; those of statsforecast however many
    windows there are."""
    task = _Task(data, threads, sum(map(len, cast(list[Windows], list(data.evaluation.values())))))
    return dict(task.methods())


def _scored(name: str, fit: Fit, data: TaskData, levels: list[float]) -> PlainBaseline:
    LOG.info("fitting %s", name)
    started = time.perf_counter()
    fitted = fit()
    fitting = time.perf_counter() - started
    outcomes, scores = {}, {}
    for split, windows in data.evaluation.items():
        tally = ForecastTally(cast(Windows, windows), levels)
        for first in range(0, len(tally.windows), ROWS):
            places = tally.windows.places[first : first + ROWS]
            labels = tally.windows.collate(places)["labels"].numpy()
            tally.add(first, fitted.forecast(tally.windows, places), labels, may_lack=True)
        outcomes[split], scores[split] = tally.outcomes(), tally.scores(0.0)
    seconds = time.perf_counter() - started if fitted.refits else fitting
    return PlainBaseline(name, fitted.parameters, outcomes, seconds, scores)


class _Task:
    """The data and settings that all methods need."""

    def __init__(self, data: TaskData, threads: int, refits: int) -> None:
        assert isinstance(data.train, Windows)
        self.train, self.threads, self.refits = data.train, threads, refits
        inputs = cast(dict[str, Any], data.model_inputs)
        self.seasons: list[int] = inputs["seasons"]
        self.levels: list[float] = inputs["quantiles"]
        self.evaluation = [cast(Windows, split) for split in data.evaluation.values()]
        self.windows = sum(map(len, self.evaluation))

    def methods(self) -> Iterator[tuple[str, Fit]]:
        """Each with its name."""
        yield "last value", partial(self._fixed, 1)
        yield "drift", self._drift
        for season in self.seasons:
            if season > 1:
                of = f" of {season}" if len(self.seasons) > 1 else ""
                yield f"seasonal naive{of}", partial(self._fixed, season)
                yield f"season + level{of}", partial(self._fixed, season, level=True)
        if self.windows <= self.refits:
            yield from self._statistical_methods()
        else:
            LOG.info("AutoETS and AutoTheta are left out: %d windows, to each of which they are fitted", self.windows)
        yield "DLinear", self._dlinear
        yield "gradient boosting on lags", self._boosted

    def _fixed(self, season: int, *, level: bool = False) -> Fitted:
        """The last season again and again, with the change of its mean from the season before if `level`; intervals
        from the deviation of what it was off in training."""
        train = self.train
        off = [_off(series.values[:stop], season, level) for series, stop in zip(train.series, train.stop, strict=True)]
        deviation, steps = _deviations(off), np.arange(train.horizon)
        z = norm.ppf(self.levels)

        def forecast(windows: Windows, places: np.ndarray) -> np.ndarray:
            naive = naive_forecast(windows.collate(places)["past_values"], season, windows.horizon).numpy()
            if level:
                last = [windows.series[number].values[:origin] for number, origin in places]
                naive = naive + np.array([_change(values, season) for values in last])[:, None] * (1 + steps // season)
            spread = deviation[places[:, 0], None] * np.sqrt(1 + steps // season)
            return np.asarray(naive[..., None] + spread[..., None] * z)

        return Fitted(None, forecast, refits=False)

    def _drift(self) -> Fitted:
        """The straight line through the first and the last value; intervals as of the last value."""
        train = self.train
        off = [_off(series.values[:stop], 1, False) for series, stop in zip(train.series, train.stop, strict=True)]
        deviation = _deviations([errors - errors.mean() if len(errors) else errors for errors in off])
        z, steps = norm.ppf(self.levels), np.arange(1, train.horizon + 1)

        def forecast(windows: Windows, places: np.ndarray) -> np.ndarray:
            lines = np.stack([_line(windows.series[number].values[:origin], steps) for number, origin in places])
            spread = deviation[places[:, 0], None] * np.sqrt(steps)
            return np.asarray(lines[..., None] + spread[..., None] * z)

        return Fitted(None, forecast, refits=False)

    def _statistical_methods(self) -> Iterator[tuple[str, Fit]]:
        """The methods of statsforecast, whose exponential smoothing takes no season of more than 24 steps: such are
        taken off first, by MSTL, where two of each are there before the first origin.
        """
        seasons = [season for season in self.seasons if season > 1]
        before = min(int(origin) for split in self.evaluation for _, origin in split.places)
        if seasons and max(seasons) > MAX_SEASON and before >= 2 * max(seasons):
            yield "MSTL + ETS", partial(self._statistical, "MSTL", seasons)
        else:
            season = self.seasons[0] if self.seasons[0] <= MAX_SEASON else 1
            yield "AutoETS", partial(self._statistical, "AutoETS", [season])
        yield "AutoTheta", partial(self._statistical, "AutoTheta", self.seasons[:1])

    def _statistical(self, name: str, seasons: list[int]) -> Fitted:
        """A method of statsforecast, fitted to all that is before each origin; missing values by a straight line."""
        import pandas as pd

        require("series")
        from statsforecast import StatsForecast, models

        if name == "MSTL":
            method: Any = models.MSTL(seasons, models.AutoETS(model="ZZN"))
        else:
            method = getattr(models, name)(season_length=seasons[0])
        names = [_named(level) for level in self.levels]
        levels = sorted({_width(level) for level in self.levels} - {0})

        def forecast(windows: Windows, places: np.ndarray) -> np.ndarray:
            parts = []
            for row, (number, origin) in enumerate(places):
                values = _without_gaps(windows.series[number].values[:origin])
                parts.append(pd.DataFrame({"unique_id": row, "ds": np.arange(len(values)), "y": values}))
            # Of series too short for it, the last value.
            engine = StatsForecast([method], freq=1, n_jobs=self.threads, fallback_model=models.Naive())
            frame = engine.forecast(df=pd.concat(parts), h=windows.horizon, level=levels or None)
            columns = frame.sort_values(["unique_id", "ds"])[[repr(method) + name for name in names]].to_numpy()
            result: np.ndarray = columns.reshape(len(places), windows.horizon, len(names))
            return result

        return Fitted(None, forecast, refits=True)

    def _dlinear(self) -> Fitted:
        """A linear map of the trend, a moving average, and one of the rest; on windows less their mean, over their
        deviation, so that one pair serves all series. Such windows add up to 0, so that the quantiles need a bias."""
        context, horizon, levels = self.train.context, self.train.horizon, torch.tensor(self.levels)
        generator = torch.Generator().manual_seed(0)
        shape = (context, horizon * len(levels))
        maps = [nn.Parameter(torch.rand(shape, generator=generator) / context**0.5 / 10) for _ in range(2)]
        bias = nn.Parameter(torch.zeros(shape[1]))

        def quantiles(past: Tensor, deviation: Tensor) -> tuple[Scale, Tensor]:
            scale = Scale.of(past, deviation)
            units = _without_gaps_by_season(scale.normalise(past), self.seasons[0])[:, -context:]
            edges = torch.cat([units[:, :1].expand(-1, (KERNEL - 1) // 2), units], dim=1)
            edges = torch.cat([edges, units[:, -1:].expand(-1, KERNEL // 2)], dim=1)
            trend = edges.unfold(1, KERNEL, 1).mean(2)
            fitted = trend @ maps[0] + (units - trend) @ maps[1] + bias
            return scale, fitted.view(len(past), horizon, len(levels))

        one_origin = self._training_windows()
        optimizer = torch.optim.Adam([*maps, bias], RATE)
        steps = one_origin.steps_per_epoch(BATCH)
        for step in range(STEPS):
            batch = one_origin.batch(0, step // steps, step % steps, BATCH)
            scale, fitted = quantiles(batch["past_values"], batch["deviation"])
            true = scale.normalise(batch["labels"])
            error = (true.unsqueeze(-1) - fitted).nan_to_num()
            loss = torch.maximum(levels * error, (levels - 1) * error).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        def forecast(windows: Windows, places: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                batch = windows.collate(places)
                scale, fitted = quantiles(batch["past_values"], batch["deviation"])
            return np.sort(scale.denormalise(fitted).numpy(), axis=2)

        return Fitted((2 * context + 1) * horizon * len(levels), forecast, refits=False)

    def _boosted(self) -> Fitted:
        """One model a quantile for all series and steps of the horizon: what is to be added to the seasonal naive
        forecast in units of the window, from the step, the last values, those of the same phase, and the covariates:
        those known of the step and of the season before it, and the last ones of which the past alone is known."""
        check_lightgbm()
        from lightgbm import LGBMRegressor

        season, horizon = self.seasons[0], self.train.horizon
        one_origin = self._training_windows()
        batch = one_origin.collate(_some(one_origin, MAX_ROWS // min(horizon, 24)))
        scale, features, naive = _lags(batch, season, horizon)
        true = scale.normalise(batch["labels"]).numpy() - naive
        random = np.random.default_rng(0)
        rows = random.permutation(np.flatnonzero(~np.isnan(true).ravel()))[:MAX_ROWS]
        table, target = features.reshape(-1, features.shape[2])[rows], true.ravel()[rows]
        models = [
            LGBMRegressor(
                objective="quantile", alpha=level, n_estimators=200, random_state=0, n_jobs=self.threads,
                deterministic=True, force_row_wise=True, verbosity=-1,
            ).fit(table, target)
            for level in self.levels
        ]  # fmt: skip

        def forecast(windows: Windows, places: np.ndarray) -> np.ndarray:
            scale, features, naive = _lags(windows.collate(places), season, horizon)
            flat = features.reshape(-1, features.shape[2])
            added = np.stack([model.booster_.predict(flat) for model in models], axis=1)
            units = naive[..., None] + np.sort(added, axis=1).reshape(*naive.shape, len(models))
            return scale.denormalise(torch.from_numpy(units)).numpy()

        leaves = sum(tree["num_leaves"] for model in models for tree in model.booster_.dump_model()["tree_info"])
        return Fitted(leaves, forecast, refits=False)

    def _training_windows(self) -> Windows:
        """One origin a window, of a short series all that the network's window has."""
        return replace(self.train, origins=1, earlier=self.train.origins - 1)


def _off(values: np.ndarray, season: int, level: bool) -> np.ndarray:
    """The errors of the last season, with the change of its level, for the next value, wherever both are there."""
    errors: np.ndarray = values[season:] - values[:-season]
    if level:
        whole = np.lib.stride_tricks.sliding_window_view(np.pad(values, (season, 0), constant_values=np.nan), season)
        means = whole[: len(values)].mean(1)  # of the season before each step
        errors = errors - (means - np.roll(means, season))[season:]
    return errors[~np.isnan(errors)]


def _deviations(off: Sequence[np.ndarray]) -> np.ndarray:
    """The deviation of each series; of all together, where it has none of its own."""
    usual = float(np.sqrt(np.mean(np.square(np.concatenate(off))))) if any(map(len, off)) else 0.0
    return np.array([float(np.sqrt(np.mean(np.square(errors)))) if len(errors) else usual for errors in off])


def _change(values: np.ndarray, season: int) -> float:
    """The change of the mean from the season before the last to the last; 0 where one of them has no value."""
    last, before = values[-season:], values[-2 * season : -season]
    if np.isnan(last).all() or not len(before) or np.isnan(before).all():
        return 0.0
    return float(np.nanmean(last) - np.nanmean(before))


def _line(values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    seen = np.flatnonzero(~np.isnan(values))
    first, last = values[seen[0]], values[seen[-1]]
    slope = (last - first) / (seen[-1] - seen[0]) if len(seen) > 1 else 0.0
    return np.asarray(last + slope * (len(values) - 1 - seen[-1] + steps))


def _named(level: float) -> str:
    """The suffix by which statsforecast names a quantile."""
    if level == 0.5:
        return ""
    return f"-{'lo' if level < 0.5 else 'hi'}-{_width(level)}"


def _width(level: float) -> float:
    """The width of the interval that a quantile ends, in percent: a whole number where it is one."""
    width = abs(round(100 * (2 * level - 1), 6))
    return width if width % 1 else int(width)


def _without_gaps(values: np.ndarray) -> np.ndarray:
    seen = np.flatnonzero(~np.isnan(values))
    filled: np.ndarray = np.interp(np.arange(seen[0], len(values)), seen, values[seen])
    return filled


def _without_gaps_by_season(units: Tensor, season: int) -> Tensor:
    """Values (batch, time) in units of their windows, a missing one that of a season before; 0 before the first."""
    return filled(units, units.new_full((len(units), season), torch.nan)).nan_to_num()


def _some(windows: Windows, most: int) -> np.ndarray:
    """Places of training, at most so many, spread evenly over series and time."""
    count = windows.steps_per_epoch(1)
    chosen: Sequence[int] = np.unique(np.linspace(0, count - 1, min(most, count)).astype(int)).tolist()
    return windows.training_places[chosen]


def _lags(batch: Batch, season: int, horizon: int) -> tuple[Scale, np.ndarray, np.ndarray]:
    """The lags of a batch of windows: their scale; features (rows, horizon, features); the seasonal naive forecast,
    (rows, horizon), in units of the window.
    """
    scale = Scale.of(batch["past_values"], batch["deviation"])
    units = _without_gaps_by_season(scale.normalise(batch["past_values"]), season).numpy()
    width = max(season, 1)
    recent = np.pad(units, ((0, 0), (max(0, 3 * width - units.shape[1]), 0)))
    steps = np.arange(horizon)
    phases = np.stack([recent[:, -cycle * width :][:, steps % width] for cycle in (1, 2, 3)], axis=2)
    last = recent[:, -min(width, 24) :]
    level = np.stack([recent[:, -width:].mean(1), recent[:, -width:].std(1)], axis=1)
    same = np.concatenate([last, level], axis=1)[:, None].repeat(horizon, axis=1)
    step = np.broadcast_to(steps[None, :, None], (len(units), horizon, 1))
    parts = [step, phases, same, *_covariates(batch, width, horizon)]
    return scale, np.concatenate(parts, axis=2).astype(np.float32), phases[..., 0]


def _covariates(batch: Batch, season: int, horizon: int) -> Iterator[np.ndarray]:
    """Each (rows, horizon, covariates): those known of each step, and of the same phase of the last season; the last
    ones of the past; those of the series. None that a table lacks."""
    if "known_covariates" in batch:
        known = batch["known_covariates"].numpy()
        origin = known.shape[1] - horizon
        before = np.pad(known[:, :origin], ((0, 0), (max(0, season - origin), 0), (0, 0)), constant_values=np.nan)
        yield known[:, origin:]
        yield before[:, -season:][:, np.arange(horizon) % season]
    of_all_steps = [batch["past_covariates"][:, -1]] if "past_covariates" in batch else []
    of_all_steps += [batch["static"]] if "static" in batch else []
    for covariates in of_all_steps:
        yield covariates.numpy()[:, None].repeat(horizon, axis=1)
