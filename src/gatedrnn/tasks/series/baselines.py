"""Baselines of labelled series, on summary features and by MiniRocket.

Reference: Dempster et al. 2021, arXiv:2012.08791 (MiniRocket).
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from gatedrnn.data import Examples, TaskData
from gatedrnn.extras import require
from gatedrnn.training.baseline import Fit, Fitted, boosted, linear, training_of

SHORTEST = 9
"""Steps of a series that MiniRocket reads; shorter ones are padded with zeros."""
PENALTIES = np.logspace(-3, 3, 10)
"""The penalties of the ridge, chosen by leaving one out."""


def series_baselines(data: TaskData, threads: int) -> Iterator[tuple[str, Fit]]:
    """Each with its name.

    Args:
        threads: of boosted trees and of MiniRocket.

    Raises:
        BackendUnavailable: LightGBM lacks a library of the system.
    """
    yield "ridge on summary features", lambda: _ridge(data)
    yield "gradient boosting on summary features", lambda: boosted(data, summaries, threads)
    if training_of(data).gaps is None:  # its convolutions are over steps, equally far apart
        yield "MiniRocket + ridge", lambda: _rocket(data, threads)


def summaries(examples: Examples) -> np.ndarray:
    """(rows, 7 · channels): of each channel its mean, deviation, least, largest, first and last value, and the share
    that is missing; NaN where a channel has no value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of channels without a value
        return np.stack([_summary(series.astype(np.float64)) for series in examples.inputs])


def _summary(series: np.ndarray) -> np.ndarray:
    missing = np.isnan(series)
    first, last = (~missing).argmax(0), len(series) - 1 - (~missing)[::-1].argmax(0)
    columns = np.arange(series.shape[1])
    summaries = [reduce(series, axis=0) for reduce in (np.nanmean, np.nanstd, np.nanmin, np.nanmax)]
    return np.concatenate([*summaries, series[first, columns], series[last, columns], missing.mean(0)])


def _ridge(data: TaskData) -> Fitted:
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    imputer = SimpleImputer(keep_empty_features=True)
    return linear(data, summaries, make_pipeline(imputer, StandardScaler(), _penalised(data)))


def _penalised(data: TaskData) -> Any:
    from sklearn.linear_model import RidgeClassifierCV, RidgeCV

    return (RidgeCV if training_of(data).are_numbers else RidgeClassifierCV)(PENALTIES)


def _rocket(data: TaskData, threads: int) -> Fitted:
    """10,000 random convolutions of each series, less their mean, and a ridge on them. A missing value is that of the
    straight line between its neighbours."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    require("series")
    from sktime.transformations.panel.rocket import MiniRocketMultivariateVariable

    rocket = MiniRocketMultivariateVariable(random_state=0, n_jobs=threads, pad_value_short_series=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a faster one, for one channel and equal lengths
        rocket.fit(_nested(training_of(data)))

    def features(examples: Examples) -> np.ndarray:
        return np.asarray(rocket.transform(_nested(examples)), np.float64)

    return linear(data, features, make_pipeline(StandardScaler(with_mean=False), _penalised(data)))


def _nested(examples: Examples) -> Any:
    """The examples in sktime's form of series of unequal lengths: a column for each channel, a series in each field."""
    import pandas as pd

    filled = [_filled(series) for series in examples.inputs]
    return pd.DataFrame(
        {str(n): [pd.Series(series[:, n]) for series in filled] for n in range(examples.inputs[0].shape[1])}
    )


def _filled(series: np.ndarray) -> np.ndarray:
    filled, steps = series.astype(np.float32), np.arange(len(series))
    for channel in filled.T:
        seen = np.flatnonzero(~np.isnan(channel))
        channel[:] = np.interp(steps, seen, channel[seen]) if len(seen) else 0.0
    padding = max(0, SHORTEST - len(filled))
    return np.pad(filled, ((0, padding), (0, 0)))
