"""Baselines without a recurrent network, fitted and scored; those of rows of numbers."""

import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.pipeline import Pipeline

from gatedrnn.data import Examples, TaskData
from gatedrnn.errors import BackendUnavailable
from gatedrnn.training.outcomes import Outcomes, of_ranks, of_rows
from gatedrnn.training.result import Scores

LOG = logging.getLogger("gatedrnn")


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


Baselines: TypeAlias = Iterator[tuple[str, Callable[[], PlainBaseline | None]]]
"""Baselines by name, the cheapest first, each of which is fitted when it is called: None where the data give it nothing
to fit to."""


def baselines_of(fits: Iterable[tuple[str, Fit]], data: TaskData) -> Baselines:
    """Methods by name as baselines: each is fitted to the training split and scored on all others."""
    for name, fit in fits:
        yield name, partial(_fitted, name, fit, data)


def _fitted(name: str, fit: Fit, data: TaskData) -> PlainBaseline | None:
    LOG.info("fitting %s", name)
    started = time.perf_counter()
    fitted = fit()
    seconds = time.perf_counter() - started
    if fitted is None:
        return None
    outcomes = {split: grouped(fitted.answer(split), part) for split, part in data.evaluation.items()}
    return PlainBaseline(name, fitted.parameters, outcomes, seconds, {})


def grouped(outcomes: Outcomes, part: object) -> Outcomes:
    """Outcomes of a split with the groups that its examples belong to."""
    return replace(outcomes, groups=part.groups) if isinstance(part, Examples) else outcomes


def baselines_of_rows(data: TaskData, threads: int) -> Iterator[tuple[str, Fit]]:
    """A linear model and boosted trees on all numbers of a row, where rows are of one length with one class each."""
    if _is_flat(data):
        yield "logistic regression", lambda: _logistic(data)
        yield "gradient boosting", lambda: boosted(data, _flat, threads)


def _is_flat(data: TaskData) -> bool:
    """Whether training examples are rows of numbers of one length with one class each."""
    train = data.train
    if not isinstance(train, Examples) or train.of_steps or train.within:
        return False
    return np.issubdtype(train.inputs[0].dtype, np.floating) and len({len(x) for x in train.inputs}) == 1


def _flat(examples: Examples) -> np.ndarray:
    """(rows, time · features)"""
    return np.stack(examples.inputs).reshape(len(examples), -1)


def _logistic(data: TaskData) -> Fitted:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return linear(data, _flat, make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)))
