"""Baselines without a recurrent network, and those that read rows of features: a linear one, and boosted trees."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.pipeline import Pipeline

from gatedrnn.data import Examples, TaskData
from gatedrnn.errors import BackendUnavailable
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
        BackendUnavailable: it lacks a library of the system.
    """
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
