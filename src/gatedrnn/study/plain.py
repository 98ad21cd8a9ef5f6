"""Plain baselines, without a recurrent network: what a contender must beat to be worth its price."""

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import numpy as np

from gatedrnn.data import Examples, Lanes, RunningText, TaskData, Windows
from gatedrnn.study.baseline import Fit, Fitted, PlainBaseline, answered, boosted, linear, training_of
from gatedrnn.study.forecast_baselines import forecast_baselines
from gatedrnn.study.series_baselines import series_baselines
from gatedrnn.study.text_baselines import NGramModel, text_baselines
from gatedrnn.training.metrics import judge
from gatedrnn.training.outcomes import Outcomes, of_rows, of_text

LOG = logging.getLogger("gatedrnn")
BATCHES, ROWS = 100, 64
"""The batches, and the rows of each, of training examples that are drawn without end: enough to count labels."""


def plain_baselines(data: TaskData, threads: int) -> list[PlainBaseline]:
    """Fit the plain baselines of a task to its training split and score all others; where it has none, its most
    frequent class, or its mean.

    Args, raises:
        As `each_baseline`.
    """
    return [baseline for _, make in each_baseline(data, threads) if (baseline := make()) is not None] or [
        constant(data)
    ]


def each_baseline(
    data: TaskData, threads: int, refits: int | None = None
) -> Iterator[tuple[str, Callable[[], PlainBaseline | None]]]:
    """The plain baselines of a task by name, the cheapest first, each of which is fitted when it is called: None where
    the data give it nothing to fit to.

    Texts have a linear model, tagged words the most frequent tag of each, running text an n-gram model, series a linear
    model and gradient-boosted trees on summary features and MiniRocket, numbers in sequences of one length a linear
    model and trees on all of them; forecasts have naive ones, exponential smoothing, a linear map and trees on lags.

    Args:
        threads: of the boosted trees.
        refits: windows to each of which a method is fitted, at most; 1,000 if None.

    Raises:
        BackendUnavailable: LightGBM lacks a library of the system, when it is called.
    """
    if isinstance(data.train, Windows):
        yield from forecast_baselines(data, threads, refits)
        return
    for name, fit in _of_task(data, threads):
        yield name, partial(_fitted, name, fit, data)


def _fitted(name: str, fit: Fit, data: TaskData) -> PlainBaseline | None:
    LOG.info("fitting %s", name)
    started = time.perf_counter()
    fitted = fit()
    seconds = time.perf_counter() - started
    if fitted is None:
        return None
    outcomes = {split: fitted.answer(split) for split in data.evaluation}
    return PlainBaseline(name, fitted.parameters, outcomes, seconds, {})


def _of_task(data: TaskData, threads: int) -> Iterator[tuple[str, Fit]]:
    if data.texts:
        yield from text_baselines(data)
    elif isinstance(data.train, RunningText):
        yield "Kneser-Ney 5-gram", lambda: _ngram(data)
    elif "series" in data.model_inputs:
        yield from series_baselines(data, threads)
    elif _is_flat(data):
        yield "logistic regression", lambda: _logistic(data)
        yield "gradient boosting", lambda: boosted(data, _flat, threads)


def _ngram(data: TaskData) -> Fitted:
    vocabulary = data.model_inputs["vocab_size"]
    assert isinstance(data.train, RunningText) and isinstance(vocabulary, int)
    model = NGramModel(np.asarray(data.train.stream.tokens), vocabulary)

    def answer(split: str) -> Outcomes:
        text = data.evaluation[split]
        assert isinstance(text, Lanes)
        return of_text(model.losses(np.asarray(text.stream.tokens)), text.stream.starts)

    return Fitted(model.parameters, answer)


def _is_flat(data: TaskData) -> bool:
    """Whether training examples are rows of numbers of one length with one class each."""
    train = data.train
    if not isinstance(train, Examples) or data.labelled != "sequence" or train.within:
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


def constant(data: TaskData) -> PlainBaseline:
    """The most frequent class of training, the labels that most rows have, or the mean of its numbers."""
    train = data.train
    first = [train.batch(0, 0, n, ROWS)["labels"] for n in islice(range(train.steps_per_epoch(ROWS)), BATCHES)]
    labels = np.concatenate([batch.numpy().ravel() for batch in first])
    outcomes = {}
    numbers = np.issubdtype(labels.dtype, np.floating)
    several = isinstance(train, Examples) and train.several
    always = labels.mean() if numbers else np.bincount(labels[labels >= 0]).argmax()
    for split, examples in data.evaluation.items():
        assert isinstance(examples, Examples)
        if examples.metric is not None:
            outcomes[split] = judge(examples, _constant_outputs(data, examples)).outcomes
            continue
        if numbers:
            outcomes[split] = answered(np.full(len(examples), always), examples)
            continue
        label_rows = examples.labels.reshape(len(examples), -1)
        counted = label_rows != -100
        outcomes[split] = of_rows(((label_rows == always) & counted).sum(1), counted.sum(1))
    name = "most frequent labels" if several else "mean answer" if numbers else "majority class"
    return PlainBaseline(name, None, outcomes, 0.0, {})


def _constant_outputs(data: TaskData, examples: Examples) -> list[np.ndarray]:
    """A constant output for each row, or each of its steps: the mean of training, or how frequent classes and labels
    are there, as scores with one row more of each.
    """
    train = training_of(data)
    if train.are_numbers:
        output = np.array([train.labels.mean()])
    elif train.several:
        shares = (train.labels.sum(0) + 1) / (len(train) + 2)
        output = np.log(shares / (1 - shares))
    else:
        labels = train.labels[train.labels >= 0]
        output = np.log(np.bincount(labels, minlength=len(data.label_names)) + 1.0)
    if data.labelled == "step":
        return [np.tile(output, (steps, 1)) for steps in examples.lengths.tolist()]
    return [output] * len(examples)
