"""Plain baselines, without a recurrent network: what a contender must beat to be worth its price."""

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from gatedrnn.data import Examples, Lanes, TaskData, Windows
from gatedrnn.study.baseline import PlainBaseline
from gatedrnn.study.boosting import demand_lightgbm
from gatedrnn.study.forecast_baselines import forecast_baselines
from gatedrnn.study.ngram import NGramModel
from gatedrnn.train.outcomes import Outcomes, of_rows, of_text

LOG = logging.getLogger("gatedrnn")
BATCHES, ROWS = 100, 64
"""Of training examples that are drawn without end: as many are enough to count labels."""


class Fitted(NamedTuple):
    """What fitting gives: its size, and how it answers a split."""

    parameters: int | None
    answer: Callable[[str], Outcomes]


Fit = Callable[[], Fitted | None]
Features = Callable[[Examples], np.ndarray]
"""(rows, features) of examples."""


def plain_baselines(data: TaskData, threads: int) -> list[PlainBaseline]:
    """Fit the plain baselines of a task to its training split and score all others.

    Texts have a linear classifier, running text an n-gram model, series a linear classifier and gradient-boosted trees
    on summary features, numbers in sequences of one length the same on all of them; forecasts have naive ones,
    exponential smoothing, a linear map and boosted trees; any other task has its most frequent label, or its mean.

    Args:
        threads: of the boosted trees.

    Raises:
        BackendUnavailable: LightGBM lacks a library of the system.
    """
    if isinstance(data.train, Windows):
        return forecast_baselines(data, threads)
    found = []
    for name, fit in _of_task(data, threads):
        LOG.info("fitting %s", name)
        started = time.perf_counter()
        fitted = fit()
        seconds = time.perf_counter() - started
        if fitted is not None:
            outcomes = {split: fitted.answer(split) for split in data.evaluation}
            found.append(PlainBaseline(name, fitted.parameters, outcomes, seconds, {}))
    return found or [_constant(data)]


def _of_task(data: TaskData, threads: int) -> Iterator[tuple[str, Fit]]:
    if data.texts:
        yield "TF-IDF bigrams + LinearSVC", lambda: _linear_text(data)
    elif isinstance(data.train, Lanes):
        yield "Kneser-Ney 5-gram", lambda: _ngram(data)
    elif "series" in data.model_inputs:
        yield "ridge on summary features", lambda: _ridge(data)
        yield "gradient boosting on summary features", lambda: _boosted(data, _summaries, threads)
    elif _is_flat(data):
        yield "logistic regression", lambda: _logistic(data)
        yield "gradient boosting", lambda: _boosted(data, _flat, threads)


def _linear_text(data: TaskData) -> Fitted | None:
    """None if the texts hold no word of two letters or more: scikit-learn's rule leaves shorter ones out."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    pipeline = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LinearSVC(random_state=0))
    try:
        pipeline.fit(data.texts["train"].texts, data.texts["train"].labels)
    except ValueError:
        return None

    def answer(split: str) -> Outcomes:
        texts = data.texts[split]
        return _right(pipeline.predict(texts.texts), np.array(texts.labels))

    return Fitted(int(pipeline[-1].coef_.size + pipeline[-1].intercept_.size), answer)


def _ngram(data: TaskData) -> Fitted:
    vocabulary = data.model_inputs["vocab_size"]
    assert isinstance(data.train, Lanes) and isinstance(vocabulary, int)
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


def _summaries(examples: Examples) -> np.ndarray:
    """(rows, 7 · channels): of each channel its mean, deviation, least, largest, first and last value, and the share
    that is missing; NaN where a channel has no value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of channels without a value
        return np.stack([_summary(series.astype(np.float64)) for series in examples.inputs])


def _summary(series: np.ndarray) -> np.ndarray:
    missing = np.isnan(series)
    first, last = (~missing).argmax(0), len(series) - 1 - (~missing)[::-1].argmax(0)
    columns = np.arange(series.shape[1])
    found = [reduce(series, axis=0) for reduce in (np.nanmean, np.nanstd, np.nanmin, np.nanmax)]
    return np.concatenate([*found, series[first, columns], series[last, columns], missing.mean(0)])


def _train(data: TaskData) -> Examples:
    assert isinstance(data.train, Examples)
    return data.train


def _logistic(data: TaskData) -> Fitted:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    pipeline.fit(_flat(_train(data)), _train(data).labels)
    return _of_linear(data, _flat, pipeline)


def _ridge(data: TaskData) -> Fitted:
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(
        SimpleImputer(keep_empty_features=True), StandardScaler(), RidgeClassifierCV(np.logspace(-3, 3, 10))
    )
    pipeline.fit(_summaries(_train(data)), _train(data).labels)
    return _of_linear(data, _summaries, pipeline)


def _of_linear(data: TaskData, features: Features, pipeline: Any) -> Fitted:
    size = int(pipeline[-1].coef_.size + pipeline[-1].intercept_.size)
    return Fitted(size, _answers(data, features, pipeline.predict))


def _boosted(data: TaskData, features: Features, threads: int) -> Fitted:
    demand_lightgbm()
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(random_state=0, n_jobs=threads, deterministic=True, force_row_wise=True, verbosity=-1)
    model.fit(features(_train(data)), _train(data).labels)

    def predict(rows: np.ndarray) -> Any:
        with warnings.catch_warnings():  # it names columns of its own, and misses them
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return model.predict(rows)

    leaves = sum(tree["num_leaves"] for tree in model.booster_.dump_model()["tree_info"])
    return Fitted(leaves, _answers(data, features, predict))


def _answers(data: TaskData, features: Features, predict: Callable[[np.ndarray], Any]) -> Callable[[str], Outcomes]:
    def answer(split: str) -> Outcomes:
        examples = data.evaluation[split]
        assert isinstance(examples, Examples)
        return _right(predict(features(examples)), examples.labels)

    return answer


def _constant(data: TaskData) -> PlainBaseline:
    """The most frequent class of training, or the mean of its numbers."""
    train = data.train
    first = [train.batch(0, 0, n, ROWS)["labels"] for n in islice(range(train.steps_per_epoch(ROWS)), BATCHES)]
    labels = np.concatenate([batch.numpy().ravel() for batch in first])
    outcomes = {}
    numbers = np.issubdtype(labels.dtype, np.floating)
    always = labels.mean() if numbers else np.bincount(labels[labels >= 0]).argmax()
    for split, examples in data.evaluation.items():
        assert isinstance(examples, Examples)
        own = examples.labels.reshape(len(examples), -1)
        right = np.abs(own - always) < examples.within if numbers else own == always
        counted = np.ones_like(own, bool) if numbers else own != -100
        outcomes[split] = of_rows((right & counted).sum(1), counted.sum(1))
    return PlainBaseline("mean answer" if numbers else "majority class", None, outcomes, 0.0, {})


def _right(predicted: np.ndarray, labels: np.ndarray) -> Outcomes:
    return of_rows(predicted == labels, np.ones(len(labels)))
