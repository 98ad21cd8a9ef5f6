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
from gatedrnn.models.forecast_units import Scale, last_seasons, naive_forecast
from gatedrnn.study.baseline import PlainBaseline
from gatedrnn.study.tabular import demand_lightgbm
from gatedrnn.train.forecast_scores import ForecastTally

LOG = logging.getLogger("gatedrnn")
Forecast = Callable[[Windows, np.ndarray], np.ndarray]
"""Quantiles (rows, horizon, quantiles) of the windows at `places`, (rows, 2)."""


class Fitted(NamedTuple):
    """What fitting gives."""

    parameters: int | None
    forecast: Forecast
    refits: bool
    """Whether it is fitted to each window anew."""


Fit = Callable[[], Fitted]

MOST_REFITS = 1_000
"""Windows of all splits together to which a method is fitted one by one."""
LONGEST_SEASON = 24
"""Of exponential smoothing: statsforecast's AutoETS leaves longer seasons out."""
MOST_ROWS = 300_000
"""Of a table that trees are fitted to."""
ROWS = 2_000
"""Windows that are forecast together."""
KERNEL, STEPS, BATCH, RATE = 25, 3_000, 64, 1e-3
"""DLinear: steps of the moving average, and its training."""


def forecast_baselines(data: TaskData, threads: int) -> list[PlainBaseline]:
    """Fit the baselines of a task of forecasts to its training part and score the other splits.

    Args:
        threads: of boosted trees and of statsforecast.

    Raises:
        BackendUnavailable: LightGBM lacks a library of the system.
    """
    task = _Task(data, threads)
    found = []
    for name, fit in task.methods():
        LOG.info("fitting %s", name)
        started = time.perf_counter()
        fitted = fit()
        fitting = time.perf_counter() - started
        outcomes, scores = {}, {}
        for split, windows in data.evaluation.items():
            tally = ForecastTally(cast(Windows, windows), task.levels)
            for first in range(0, len(tally.windows), ROWS):
                places = tally.windows.places[first : first + ROWS]
                labels = tally.windows.collate(places)["labels"].numpy()
                tally.add(first, fitted.forecast(tally.windows, places), labels, may_lack=True)
            outcomes[split], scores[split] = tally.outcomes(), tally.scores(0.0)
        seconds = time.perf_counter() - started if fitted.refits else fitting
        found.append(PlainBaseline(name, fitted.parameters, outcomes, seconds, scores))
    return found


class _Task:
    """What all methods need."""

    def __init__(self, data: TaskData, threads: int) -> None:
        assert isinstance(data.train, Windows)
        self.train, self.threads = data.train, threads
        inputs = cast(dict[str, Any], data.model_inputs)
        self.seasons: list[int] = inputs["seasons"]
        self.levels: list[float] = inputs["quantiles"]
        self.windows = sum(len(cast(Windows, split)) for split in data.evaluation.values())

    def methods(self) -> Iterator[tuple[str, Fit]]:
        """Each with its name."""
        yield "last value", partial(self._fixed, 1)
        for season in self.seasons:
            if season > 1:
                of = f" of {season}" if len(self.seasons) > 1 else ""
                yield f"seasonal naive{of}", partial(self._fixed, season)
        if self.windows <= MOST_REFITS:
            season = self.seasons[0] if self.seasons[0] <= LONGEST_SEASON else 1
            yield "AutoETS", partial(self._statistical, "AutoETS", season)
            yield "AutoTheta", partial(self._statistical, "AutoTheta", self.seasons[0])
        else:
            LOG.info("AutoETS and AutoTheta are left out: %d windows, to each of which they are fitted", self.windows)
        yield "DLinear", self._dlinear
        yield "gradient boosting on lags", self._boosted

    def _fixed(self, season: int) -> Fitted:
        """The last season again and again; intervals from the deviation of what it was off in training."""
        train = self.train
        off = [_differences(one.values[:stop], season) for one, stop in zip(train.series, train.stop, strict=True)]
        usual = float(np.sqrt(np.mean(np.square(np.concatenate(off))))) if any(map(len, off)) else 0.0
        deviation = np.array([float(np.sqrt(np.mean(np.square(own)))) if len(own) else usual for own in off])
        steps = np.arange(train.horizon)
        z = norm.ppf(self.levels)

        def forecast(windows: Windows, places: np.ndarray) -> np.ndarray:
            again = naive_forecast(windows.collate(places)["past_values"], season, windows.horizon).numpy()
            spread = deviation[places[:, 0], None] * np.sqrt(1 + steps // season)
            found: np.ndarray = again[..., None] + spread[..., None] * z
            return found

        return Fitted(None, forecast, refits=False)

    def _statistical(self, method: str, season: int) -> Fitted:
        """A method of statsforecast, fitted to all that is before each origin; missing values by a straight line."""
        import pandas as pd
        from statsforecast import StatsForecast, models

        names = [_named(level) for level in self.levels]
        levels = sorted({_width(level) for level in self.levels} - {0})

        def forecast(windows: Windows, places: np.ndarray) -> np.ndarray:
            parts = []
            for row, (number, origin) in enumerate(places):
                values = _without_gaps(windows.series[number].values[:origin])
                parts.append(pd.DataFrame({"unique_id": row, "ds": np.arange(len(values)), "y": values}))
            engine = StatsForecast([getattr(models, method)(season_length=season)], freq=1, n_jobs=self.threads)
            found = engine.forecast(df=pd.concat(parts), h=windows.horizon, level=levels or None)
            columns = found.sort_values(["unique_id", "ds"])[[method + name for name in names]].to_numpy()
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
            units = last_seasons(scale.units(past), self.seasons[0])[:, -context:]
            edges = torch.cat([units[:, :1].expand(-1, (KERNEL - 1) // 2), units], dim=1)
            edges = torch.cat([edges, units[:, -1:].expand(-1, KERNEL // 2)], dim=1)
            trend = edges.unfold(1, KERNEL, 1).mean(2)
            found = trend @ maps[0] + (units - trend) @ maps[1] + bias
            return scale, found.view(len(past), horizon, len(levels))

        one_origin = self._training_windows()
        optimizer = torch.optim.Adam([*maps, bias], RATE)
        steps = one_origin.steps_per_epoch(BATCH)
        for step in range(STEPS):
            batch = one_origin.batch(0, step // steps, step % steps, BATCH)
            scale, found = quantiles(batch["past_values"], batch["deviation"])
            true = scale.units(batch["labels"])
            error = (true.unsqueeze(-1) - found).nan_to_num()
            loss = torch.maximum(levels * error, (levels - 1) * error).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        def forecast(windows: Windows, places: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                batch = windows.collate(places)
                scale, found = quantiles(batch["past_values"], batch["deviation"])
            return np.sort(scale.original(found).numpy(), axis=2)

        return Fitted((2 * context + 1) * horizon * len(levels), forecast, refits=False)

    def _boosted(self) -> Fitted:
        """One model a quantile for all series and steps of the horizon: what is to be added to the seasonal naive
        forecast in units of the window, from the step, the last values, and those of the same phase."""
        demand_lightgbm()
        from lightgbm import LGBMRegressor

        season, horizon = self.seasons[0], self.train.horizon
        one_origin = self._training_windows()
        batch = one_origin.collate(_some(one_origin, MOST_ROWS // min(horizon, 24)))
        scale, features, naive = _lags(batch, season, horizon)
        true = scale.units(batch["labels"]).numpy() - naive
        random = np.random.default_rng(0)
        rows = random.permutation(np.flatnonzero(~np.isnan(true).ravel()))[:MOST_ROWS]
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
            return scale.original(torch.from_numpy(units)).numpy()

        leaves = sum(tree["num_leaves"] for model in models for tree in model.booster_.dump_model()["tree_info"])
        return Fitted(leaves, forecast, refits=False)

    def _training_windows(self) -> Windows:
        """One origin a window."""
        return replace(self.train, origins=1)


def _differences(values: np.ndarray, season: int) -> np.ndarray:
    found = values[season:] - values[:-season]
    return found[~np.isnan(found)]


def _named(level: float) -> str:
    """As statsforecast names a quantile."""
    if level == 0.5:
        return ""
    return f"-{'lo' if level < 0.5 else 'hi'}-{_width(level)}"


def _width(level: float) -> float:
    """Of the interval that a quantile ends, in percent: a whole number where it is one."""
    width = abs(round(100 * (2 * level - 1), 6))
    return width if width % 1 else int(width)


def _without_gaps(values: np.ndarray) -> np.ndarray:
    seen = np.flatnonzero(~np.isnan(values))
    found: np.ndarray = np.interp(np.arange(seen[0], len(values)), seen, values[seen])
    return found


def _some(windows: Windows, most: int) -> np.ndarray:
    """Places of training, at most so many, spread evenly over series and time."""
    count = windows.steps_per_epoch(1)
    chosen: Sequence[int] = np.unique(np.linspace(0, count - 1, min(most, count)).astype(int)).tolist()
    return windows.training_places[chosen]


def _lags(batch: Batch, season: int, horizon: int) -> tuple[Scale, np.ndarray, np.ndarray]:
    """Of a batch of windows: their scale; features (rows, horizon, features); the seasonal naive forecast, (rows,
    horizon), in units of the window."""
    scale = Scale.of(batch["past_values"], batch["deviation"])
    units = last_seasons(scale.units(batch["past_values"]), season).numpy()
    width = max(season, 1)
    recent = np.pad(units, ((0, 0), (max(0, 3 * width - units.shape[1]), 0)))
    steps = np.arange(horizon)
    phases = np.stack([recent[:, -cycle * width :][:, steps % width] for cycle in (1, 2, 3)], axis=2)
    last = recent[:, -min(width, 24) :]
    level = np.stack([recent[:, -width:].mean(1), recent[:, -width:].std(1)], axis=1)
    same = np.concatenate([last, level], axis=1)[:, None].repeat(horizon, axis=1)
    step = np.broadcast_to(steps[None, :, None], (len(units), horizon, 1))
    return scale, np.concatenate([step, phases, same], axis=2).astype(np.float32), phases[..., 0]
