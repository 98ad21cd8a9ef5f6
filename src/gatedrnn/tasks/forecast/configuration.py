"""The parts of a forecaster's configuration that its training data decide: typical errors of smoothers, and a
regression on known columns."""

from functools import lru_cache
from typing import Any, cast

import numpy as np
import torch

from gatedrnn.data import TaskData, Windows
from gatedrnn.data.windows import deviation_of
from gatedrnn.models.forecast_configuration import GatedRNNForecastConfig
from gatedrnn.models.forecast_units import LOGGED, Scale
from gatedrnn.models.known_regression import KnownRegression, effects_of, fit_known_regression
from gatedrnn.models.smoothing import MIN_CHANGE, SMOOTHERS, SmoothingPast, smooth
from gatedrnn.records import Json
from gatedrnn.training.settings import RunSettings

MAX_WINDOWS, TOGETHER = 512, 32
"""Windows of training, spread over series and time; and those of a batch."""
FARTHEST = 50.0
"""Errors count as no larger, in units of the series' own change."""
PRIOR = 10.0
"""Forecasts in the place of which all smoothers are as good as in the mean: few tell little."""
LEAST = 0.1
"""The least error, in units of the mean over smoothers."""


@lru_cache(maxsize=2)
def known_regression(data: TaskData) -> KnownRegression | None:
    """The regression on the known covariates of a task of forecasts, fitted to its training part; None where they have
    no effect on values that were left out, or there are none."""
    train, inputs = cast(Windows, data.train), cast(dict[str, Any], data.model_inputs)
    size: int = inputs["known_size"]
    if not size:
        return None
    parts = [(series.values[:stop], series.known[:stop]) for series, stop in zip(train.series, train.stop, strict=True)]
    values, known = zip(*(part for part in parts if not np.isnan(part[0]).all()), strict=True)
    deviations = np.array([deviation_of(series) for series in values])
    means, scales = (np.array(inputs[f"covariate_{name}"][:size]) for name in ("means", "deviations"))
    return fit_known_regression(values, known, deviations, inputs["seasons"][0], means, scales, LOGGED)


@lru_cache(maxsize=2)
@torch.no_grad()
def typical_errors(data: TaskData) -> list[list[float]]:
    """Logarithms of mean absolute errors, in units of their mean over all smoothers and seasons, (horizon, smoothers
    and seasons): `typical_errors` of a configuration.

    Args:
        data: a task of forecasts.
    """
    train = cast(Windows, data.train)
    config = GatedRNNForecastConfig(horizon=train.horizon, seasons=cast(list[int], data.model_inputs["seasons"]))
    every = train.training_places
    places = every[np.unique(np.linspace(0, len(every) - 1, min(MAX_WINDOWS, len(every))).astype(int))]
    kinds = SMOOTHERS + len(config.periods)
    with torch.device("cpu"):  # a model may be built without memory
        sums, counts = (torch.zeros(config.horizon, kinds, dtype=torch.float64) for _ in range(2))
        for first in range(0, len(places), TOGETHER):
            errors = _errors(train, places[first : first + TOGETHER], config, known_regression(data))
            there = ~errors.isnan()
            sums += torch.where(there, errors, 0.0).clamp(max=FARTHEST).sum((0, 1))
            counts += there.sum((0, 1))
    usual = (sums / counts.clamp(min=1)).mean(1, keepdim=True)
    usual = torch.where(usual > 0, usual, 1.0)
    typical = (sums + PRIOR * usual) / (counts + PRIOR) / usual
    return cast(list[list[float]], np.round(typical.clamp(min=LEAST).log().numpy(), 4).tolist())


def _errors(
    train: Windows, places: np.ndarray, config: GatedRNNForecastConfig, regression: KnownRegression | None
) -> torch.Tensor:
    """(windows, origins, horizon, smoothers and seasons), in units of the change at the origin; NaN where there is no
    value, or no change before it."""
    batch = train.collate(places)
    effects, origins = effects_of(regression, batch.get("known_covariates"), batch["deviation"]), train.origins
    values = effects.of(slice(train.context)).removed(batch["past_values"])
    scale = Scale.of(values, batch["deviation"], logs=True)
    units, labels = map(scale.normalise, (values, effects.of(slice(train.context, None)).removed(batch["labels"])))
    smoothed, _ = smooth(units, config.periods, config.horizon, SmoothingPast.empty(units, config.periods, 0), origins)
    future = torch.cat([units[:, units.shape[1] - origins + 1 :], labels], dim=1).unfold(1, config.horizon, 1)
    change = smoothed.change[:, -origins:, None, None]
    errors = (smoothed.ahead() - future.unsqueeze(3)).abs() / change
    return errors.masked_fill(~(change > MIN_CHANGE), torch.nan).double()


def forecast_fields(run: RunSettings, data: TaskData) -> dict[str, Json]:
    """Fields of the configuration that follow from the training part."""
    curves = known_regression(data)
    return {
        "linear_size": run.model.linear_size,
        "typical_errors": cast(Json, typical_errors(data)),
        "known_regression": None if curves is None else cast(Json, curves._asdict()),
    }
