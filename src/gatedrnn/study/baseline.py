"""Baselines without a recurrent network: those that read rows of features, and those of labelled series, on summary
features and by MiniRocket.

Reference: Dempster et al. 2021, arXiv:2012.08791 (MiniRocket).
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.pipeline import Pipeline

from gatedrnn.data import Examples, TaskData
from gatedrnn.errors import BackendUnavailable
from gatedrnn.extras import require
from gatedrnn.training.outcomes import Outcomes, of_ranks, of_rows
from gatedrnn.training.result import Scores


class PlainBaseline(NamedTuple):
    """A fitted one."""

    name: str
    parameters: int | None
    """Weights, leaves or n-grams; None where it has none to speak of."""
    outcomes: dict[str, Outcomes]
    """The outcomes by split."""
    seconds: float
    """The seconds of fitting; of a method that is fitted to each series anew, of fitting and forecasting."""
    scores: dict[str, Scores]
    """The scores of forecasts by split; empty for all else, whose outcomes say all."""


class Fitted(NamedTuple):
    """A fitted method: its size, and a function that answers a split."""

    parameters: int | None
    answer: Callable[[str], Outcomes]


Fit: TypeAlias = Callable[[], Fitted | None]
"""A function that fits a method; it returns None where the task gives nothing to fit to."""


Features: TypeAlias = Callable[[Examples], np.ndarray]
"""(rows, features) of examples."""


def training_of(data: TaskData) -> Examples:
    """The training split, where it is in memory."""
    assert isinstance(data.train, Examples)
    return data.train


def linear(data: TaskData, features: Features, pipeline: Pipeline) -> Fitted:
    """A pipeline of scikit-learn that ends in a linear model."""
    pipeline.fit(features(training_of(data)), training_of(data).labels)
    size = int(np.size(pipeline[-1].coef_) + np.size(pipeline[-1].intercept_))
    ranked = training_of(data).ranked
    return Fitted(size, _answers(data, features, pipeline.decision_function if ranked else pipeline.predict))


def boosted(data: TaskData, features: Features, threads: int) -> Fitted:
    """LightGBM with its own settings.

    Raises:
        BackendUnavailable: it lacks a library of the system.
    """
    check_lightgbm()
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMRegressor if training_of(data).are_numbers else LGBMClassifier
    model = kind(random_state=0, n_jobs=threads, deterministic=True, force_row_wise=True, verbosity=-1)
    model.fit(features(training_of(data)), training_of(data).labels)

    def predict(rows: np.ndarray) -> Any:
        with warnings.catch_warnings():  # it names columns of its own, and misses them
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return model.predict_proba(rows)[:, 1] if training_of(data).ranked else model.predict(rows)

    leaves = sum(tree["num_leaves"] for tree in model.booster_.dump_model()["tree_info"])
    return Fitted(leaves, _answers(data, features, predict))


def check_lightgbm() -> None:
    """Check that LightGBM can be loaded.

    Raises:
        BackendUnavailable: it lacks a library of the system, or its docstrings, which it reads (`python -OO`).
    """
    if sys.flags.optimize > 1:
        raise BackendUnavailable("LightGBM, the baseline of boosted trees, cannot be loaded under python -OO")
    try:
        import lightgbm  # noqa: F401
    except OSError as error:
        raise BackendUnavailable(
            f"LightGBM, the baseline of boosted trees, cannot be loaded: {error}; it needs the system's OpenMP library "
            "(on Debian: apt-get install libgomp1)"
        ) from error


def answered(predicted: np.ndarray, examples: Examples) -> Outcomes:
    """The outcomes of a baseline's answers: right ones, near ones, or errors, as `Examples` has it; of ranked examples
    the answers are outputs.
    """
    ones = np.ones(len(examples))
    if examples.ranked:
        return of_ranks(predicted, examples.labels)
    if not examples.are_numbers:
        return of_rows(predicted == examples.labels, ones)
    off = np.abs(predicted - examples.labels)
    return of_rows(off < examples.within if examples.within else off / examples.unit, ones)


def _answers(data: TaskData, features: Features, predict: Callable[[np.ndarray], Any]) -> Callable[[str], Outcomes]:
    def answer(split: str) -> Outcomes:
        examples = data.evaluation[split]
        assert isinstance(examples, Examples)
        return answered(predict(features(examples)), examples)

    return answer


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
