"""Scores of forecasts, window by window, so that not all of them are in memory at a time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from accelerate import Accelerator

from gatedrnn.data import Windows
from gatedrnn.models import GatedRNNForForecasting
from gatedrnn.training.metrics import Evaluation
from gatedrnn.training.outcomes import Outcomes, of_windows
from gatedrnn.training.result import Scores
from gatedrnn.training.sharing import in_turns

Each: TypeAlias = Callable[[Callable[[np.ndarray], Any], list[np.ndarray]], Iterable[Any]]
"""Calls a function with each of some groups of windows; `map`, or processes that share them."""


class ForecastTally:
    """Sums over the labels of each window.

    Args:
        windows: of evaluation.
        levels: of the quantiles, with 0.5 among them.
    """

    def __init__(self, windows: Windows, levels: Sequence[float]) -> None:
        self.windows, self.levels, self.middle = windows, np.array(levels), list(levels).index(0.5)
        count = len(windows)
        self.labels = np.zeros(count, np.int64)
        self.absolute, self.squared, self.relative, self.size, self.within = np.zeros((5, count))
        self.pinball = np.zeros((count, len(levels)))
        self.by_step = np.zeros((2, windows.horizon))
        """Sums over windows of scaled errors, and how many there are, at each step of the horizon."""

    def add(self, first: int, quantiles: np.ndarray, labels: np.ndarray, may_lack: bool = False) -> None:
        """Windows from number `first` on: quantiles (windows, horizon, quantiles), labels (windows, horizon).

        Args:
            may_lack: forecasts may be missing (NaN), as a naive one of a missing value is, and do not count then;
                otherwise a score of NaN is NaN.
        """
        rows = slice(first, first + len(labels))
        seen = ~np.isnan(labels)
        if may_lack:
            seen &= ~np.isnan(quantiles[..., self.middle])
        true, forecast = np.where(seen, labels, 0.0), np.where(seen[..., None], quantiles, 0.0)
        median = forecast[..., self.middle]
        error, both = np.abs(true - median), np.abs(true) + np.abs(median)
        self.labels[rows] = seen.sum(1)
        self.absolute[rows], self.squared[rows] = error.sum(1), np.square(error).sum(1)
        self.relative[rows] = np.divide(error, both, out=np.zeros_like(error), where=both > 0).sum(1)
        self.size[rows] = np.abs(true).sum(1)
        inside = (true >= forecast[..., 0]) & (true <= forecast[..., -1])
        self.within[rows] = (inside & seen).sum(1)
        off = true[..., None] - forecast
        self.pinball[rows] = np.maximum(self.levels * off, (self.levels - 1) * off).sum(1)
        unit = self.windows.naive_error[self.windows.places[rows, 0], None]
        known = seen & ~np.isnan(unit)
        self.by_step += np.where(known, error / unit, 0.0).sum(0), known.sum(0)

    def scores(self, loss: float) -> Scores:
        """Means over labels."""
        count, deviation = int(self.labels.sum()), self.windows.deviation[self.windows.places[:, 0]]
        varies = deviation > 0
        scaled, size = max(1, int(self.labels[varies].sum())), float(self.size.sum())
        return Scores(
            loss=loss,
            mase=self.outcomes().rate,
            mae=float(self.absolute.sum() / count),
            scaled_mae=float((self.absolute[varies] / deviation[varies]).sum() / scaled),
            scaled_mse=float((self.squared[varies] / np.square(deviation[varies])).sum() / scaled),
            smape=float(200 * self.relative.sum() / count),
            weighted_quantile_loss=float((2 * self.pinball.sum(0) / size).mean()) if size else None,
            coverage=float(self.within.sum() / count),
        )

    def outcomes(self) -> Outcomes:
        """Scaled errors of the median; series without a scale are left out."""
        places = self.windows.places
        unit = self.windows.naive_error[places[:, 0]]
        kept = ~np.isnan(unit) & (self.labels > 0)
        return of_windows(self.absolute[kept] / unit[kept], self.labels[kept], places[kept], self.windows.horizon)

    def error_by_step(self) -> list[float]:
        """Mean scaled error at each step of the horizon."""
        errors: list[float] = (self.by_step[0] / np.maximum(1, self.by_step[1])).tolist()
        return errors


@torch.no_grad()
def tally_windows(model: GatedRNNForForecasting, windows: Windows, each: Each = map) -> tuple[ForecastTally, float]:
    """Sums over every window, each in units of its own; and the mean loss. In `eval()`.

    Args:
        each: calls a function with each group of windows.
    """
    tally, loss, done = ForecastTally(windows, model.config.levels), 0.0, 0

    def forecast(places: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        batch = windows.collate(places)
        output = model(**cast(dict[str, Any], {name: tensor.to(model.device) for name, tensor in batch.items()}))
        return output.quantiles.cpu().numpy(), batch["labels"].numpy(), float(output.loss)

    for quantiles, labels, mean in each(forecast, list(windows.evaluation_places())):
        tally.add(done, quantiles, labels)
        loss, done = loss + mean * len(labels), done + len(labels)
    return tally, loss / len(windows)


@torch.no_grad()
def tally_streams(model: GatedRNNForForecasting, windows: Windows) -> tuple[ForecastTally, float]:
    """Score the forecasts of each series as a stream, in the units of the context before its first origin."""
    tally, loss, done = ForecastTally(windows, model.config.levels), 0.0, 0
    for number in np.unique(windows.places[:, 0]):
        places = windows.places[windows.places[:, 0] == number]
        first, last = int(places[0, 1]), int(places[-1, 1])
        origins = last - first + 1
        whole = replace(windows, context=windows.context + origins - 1, origins=origins).collate(places[-1:])
        begin = windows.collate(places[:1])
        effects = model.effects_of(begin.get("known_covariates"), begin["deviation"])
        values = effects.of(slice(windows.context)).removed(begin["past_values"])
        scale = model.scale_of(values, begin["deviation"])
        output = model(**cast(dict[str, Any], whole), origins=origins, scale=scale)
        quantiles = output.quantiles.reshape(1, origins, windows.horizon, -1)[0, places[:, 1] - first].numpy()
        tally.add(done, quantiles, windows.collate(places)["labels"].numpy())
        loss, done = loss + float(output.loss) * len(places), done + len(places)
    return tally, loss / len(windows)


def evaluate_windows(model: GatedRNNForForecasting, windows: Windows, accelerator: Accelerator) -> Evaluation:
    """Scores of forecasts; the windows are shared by all processes."""
    with accelerator.autocast():
        tally, loss = tally_windows(model, windows, partial(in_turns, accelerator))
    return Evaluation(tally.scores(loss), tally.outcomes())
