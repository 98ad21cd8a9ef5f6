"""The errors of each simple smoother on the training part of a table: a forecaster weighs smoothers by them, beside
their recent errors, before it is trained.
"""

from functools import lru_cache
from typing import cast

import numpy as np
import torch

from gatedrnn.data import TaskData, Windows
from gatedrnn.models.forecast_configuration import GatedRNNForecastConfig
from gatedrnn.models.forecast_units import Scale
from gatedrnn.models.smoothing import LEAST_CHANGE, SMOOTHERS, SmoothingPast, smooth

MOST_WINDOWS, TOGETHER = 512, 32
"""Windows of training, spread over series and time; and those of a batch."""
FARTHEST = 50.0
"""Errors count as no larger, in units of the series' own change."""
PRIOR = 10.0
"""Forecasts in the place of which all smoothers are as good as in the mean: few tell little."""
LEAST = 0.1
"""The least error, in units of the mean over smoothers."""


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
    places = every[np.unique(np.linspace(0, len(every) - 1, min(MOST_WINDOWS, len(every))).astype(int))]
    kinds = SMOOTHERS + len(config.periods)
    with torch.device("cpu"):  # a model may be built without memory
        sums, counts = (torch.zeros(config.horizon, kinds, dtype=torch.float64) for _ in range(2))
        for first in range(0, len(places), TOGETHER):
            errors = _errors(train, places[first : first + TOGETHER], config)
            there = ~errors.isnan()
            sums += torch.where(there, errors, 0.0).clamp(max=FARTHEST).sum((0, 1))
            counts += there.sum((0, 1))
    usual = (sums / counts.clamp(min=1)).mean(1, keepdim=True)
    usual = torch.where(usual > 0, usual, 1.0)
    typical = (sums + PRIOR * usual) / (counts + PRIOR) / usual
    return cast(list[list[float]], np.round(typical.clamp(min=LEAST).log().numpy(), 4).tolist())


def _errors(train: Windows, places: np.ndarray, config: GatedRNNForecastConfig) -> torch.Tensor:
    """(windows, origins, horizon, smoothers and seasons), in units of the change at the origin; NaN where there is no
    value, or no change before it."""
    batch = train.collate(places)
    values, origins = batch["past_values"], train.origins
    scale = Scale.of(values, batch["deviation"], logs=True)
    units, labels = scale.units(values), scale.units(batch["labels"])
    smoothed, _ = smooth(units, config.periods, config.horizon, SmoothingPast.empty(units, config.periods, 0), origins)
    future = torch.cat([units[:, units.shape[1] - origins + 1 :], labels], dim=1).unfold(1, config.horizon, 1)
    change = smoothed.change[:, -origins:, None, None]
    errors = (smoothed.ahead() - future.unsqueeze(3)).abs() / change
    return errors.masked_fill(~(change > LEAST_CHANGE), torch.nan).double()
