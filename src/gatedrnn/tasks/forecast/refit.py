"""A forecaster that is trained again on more of its data, with the steps that its validation found; and its calibration
on values that it was not trained on: how far to trust its training, and how wide its intervals must be.

Intervals by split conformal prediction (Vovk et al. 2005; of quantiles: Romano et al. 2019, arXiv:1905.03222), with the
distance between two quantiles as the unit of errors, so that a series and a time that are harder keep their wider ones.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from gatedrnn.data import TaskData, Windows
from gatedrnn.models import GatedRNNForForecasting
from gatedrnn.models.forecasting import averaged
from gatedrnn.training.plain_part import ENOUGH_EXAMPLES, SHRINKAGES, least_with_penalty

_UNTRUSTED = 0.75
"""The shrinkage where no value was held back."""
MAX_WINDOWS = 2048
"""Forecasts that both are found from."""
ENOUGH = 200
"""Errors of a step of the horizon, from which on it has factors of its own."""
PRIOR = 10
"""Errors in the place of which a factor of 1 stands: few errors tell little of a tail."""
LEAST, MOST = 0.2, 5.0
"""Factors."""


class Errors(NamedTuple):
    """The errors of forecasts with one shrinkage."""

    scaled: np.ndarray
    """(windows, horizon): absolute errors of the median, as MASE counts them; NaN where there is no value."""
    error: np.ndarray
    """(windows, horizon): value less median, in the units of the window."""
    distances: np.ndarray
    """(windows, horizon, quantiles): from the next quantile that is nearer to the median, in the same units."""


@torch.no_grad()
def errors_of(model: GatedRNNForForecasting, windows: Windows, shrinkages: Sequence[float]) -> list[Errors]:
    """Errors of the forecasts of a part that the model was not trained on, or where they are few from all of its
    origins; in `eval()`, without factors of intervals; one of them for each shrinkage."""
    places = windows.places if len(windows) >= ENOUGH_EXAMPLES else windows.all_places(MAX_WINDOWS)
    middle = model.config.levels.index(0.5)
    errors: list[list[Errors]] = [[] for _ in shrinkages]
    for rows in windows.in_batches(places):
        batch = {name: tensor.to(model.device) for name, tensor in windows.collate(rows).items()}
        labels, unit = batch.pop("labels"), torch.from_numpy(windows.naive_error[rows[:, 0], None])
        read = model.read(**cast(dict[str, Any], batch))
        true = read.normalise(labels)
        for shrinkage, into in zip(shrinkages, errors, strict=True):
            each = model.of_members(read.states, read.smoothed, read.ahead, shrinkage)
            quantiles = averaged(each)[:, 0]
            median, widths = quantiles[..., middle], torch.diff(quantiles, dim=2)
            distances = torch.cat([widths[..., :middle], torch.ones_like(widths[..., :1]), widths[..., middle:]], dim=2)
            original = model.bounded(read.denormalise(quantiles[:, None]))[:, 0, :, middle]
            scaled = (original - labels).abs().cpu() / unit
            into.append(Errors(*(part.cpu().numpy() for part in (scaled, true - median, distances))))
    return [Errors(*map(np.concatenate, zip(*parts, strict=True))) for parts in errors]


def best_shrinkage(errors: Sequence[Errors], windows: int) -> int:
    """The index in `SHRINKAGES` of the smallest mean error, with a penalty on what is not expected.

    Args:
        errors: one for each of `SHRINKAGES`.
        windows: forecasts of the part that do not overlap.
    """
    means = [float(np.nanmean(e.scaled)) if np.isfinite(e.scaled).any() else np.inf for e in errors]
    return least_with_penalty(means, windows)


def bands_of(errors: Sequence[Errors], levels: Sequence[float]) -> list[list[float]] | None:
    """Factors (horizon, quantiles) of the distances between quantiles; None without an error.

    Each quantile is moved so that the share of the values beyond it is its own, those nearer to the median first.
    Steps of the horizon with few errors share their factors.

    Args:
        errors: of one or more parts.
        levels: of the quantiles, 0.5 among them.
    """
    error = np.concatenate([part.error for part in errors])
    distances = np.concatenate([part.distances for part in errors])
    seen = np.isfinite(error) & np.isfinite(distances).all(2)
    if not seen.any():
        return None
    bands, middle = np.ones(distances.shape[1:]), list(levels).index(0.5)
    enough = seen.sum(0) >= ENOUGH
    for steps in ([step] for step in np.flatnonzero(enough)):
        bands[steps] = _factors(error[:, steps][seen[:, steps]], distances[:, steps][seen[:, steps]], levels, middle)
    if not enough.all():
        rows = seen[:, ~enough]
        bands[~enough] = _factors(error[:, ~enough][rows], distances[:, ~enough][rows], levels, middle)
    return cast(list[list[float]], bands.tolist())


def _factors(error: np.ndarray, distances: np.ndarray, levels: Sequence[float], middle: int) -> np.ndarray:
    """(quantiles,), of errors (count,) and distances (count, quantiles)."""
    factors = np.ones(len(levels))
    for side, places in ((1, range(middle + 1, len(levels))), (-1, range(middle - 1, -1, -1))):
        beyond = side * error
        for place in places:
            share = levels[place] if side > 0 else 1 - levels[place]
            ratios = beyond / np.maximum(distances[:, place], np.finfo(np.float32).tiny)
            ratios = np.concatenate([ratios, [1.0] * PRIOR])
            factors[place] = np.clip(np.quantile(ratios, share), LEAST, MOST)
            beyond = beyond - factors[place] * distances[:, place]
    return factors


def from_validation(data: TaskData, model: GatedRNNForForecasting) -> tuple[float, list[Errors]]:
    """Return the shrinkage that the validation part asks for, and the errors with it; none without such a part."""
    if "validation" not in data.evaluation:
        return _UNTRUSTED, []
    validation = cast(Windows, data.evaluation["validation"])
    # All shrinkages from one pass: the network is what takes the time.
    errors = errors_of(model, validation, SHRINKAGES)
    best = best_shrinkage(errors, len(validation))
    return SHRINKAGES[best], [errors[best]]


def set_intervals(
    data: TaskData, model: GatedRNNForForecasting, tested: GatedRNNForForecasting, final: GatedRNNForForecasting,
    errors: list[Errors],
) -> None:  # fmt: skip
    """Calibrate the first model and `tested` by errors of the validation part, and `final` by those of `tested` on the
    test part too."""
    levels = final.config.levels
    held = bands_of(errors, levels) if errors else None
    if "test" in data.evaluation and final is not tested:
        of_test = errors_of(tested, cast(Windows, data.evaluation["test"]), (final.config.shrinkage,))
        final.config.bands = bands_of([*errors, *of_test], levels)
    else:
        final.config.bands = held
    model.config.bands = tested.config.bands = held
