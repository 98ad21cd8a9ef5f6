"""Plain baselines, without a recurrent network: what a contender must beat to be worth its price."""

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from gatedrnn.data import Examples, Lanes, TaskData
from gatedrnn.errors import BackendUnavailable
from gatedrnn.study.ngram import NGramModel
from gatedrnn.train.outcomes import Outcomes, of_rows, of_text

LOG = logging.getLogger("gatedrnn")
BATCHES, ROWS = 100, 64
"""Of training examples that are drawn without end: as many are enough to count labels."""


class PlainBaseline(NamedTuple):
    """A fitted one."""

    name: str
    parameters: int | None
    """Weights, or n-grams; None where it has none to speak of."""
    outcomes: dict[str, Outcomes]
    """By split."""
    seconds: float
    """Of fitting."""


class Fitted(NamedTuple):
    """What fitting gives: its size, and how it answers a split."""

    parameters: int | None
    answer: Callable[[str], Outcomes]


Fit = Callable[[], Fitted | None]


def plain_baselines(data: TaskData, threads: int) -> list[PlainBaseline]:
    """Fit the plain baselines of a task to its training split and score all others.

    Texts have a linear classifier, running text an n-gram model, numbers in sequences of one length a logistic
    regression and gradient-boosted trees; any other task has its most frequent label, or its mean.

    Args:
        threads: of the boosted trees.

    Raises:
        BackendUnavailable: LightGBM lacks a library of the system.
    """
    found = []
    for name, fit in _of_task(data, threads):
        LOG.info("fitting %s", name)
        started = time.perf_counter()
        fitted = fit()
        seconds = time.perf_counter() - started
        if fitted is not None:
            outcomes = {split: fitted.answer(split) for split in data.evaluation}
            found.append(PlainBaseline(name, fitted.parameters, outcomes, seconds))
    return found or [_constant(data)]


def _of_task(data: TaskData, threads: int) -> Iterator[tuple[str, Fit]]:
    if data.texts:
        yield "TF-IDF bigrams + LinearSVC", lambda: _linear_text(data)
    elif isinstance(data.train, Lanes):
        yield "Kneser-Ney 5-gram", lambda: _ngram(data)
    elif (train := _flat(data)) is not None:
        yield "logistic regression", lambda: _logistic(data, train)
        yield "gradient boosting", lambda: _boosted(data, train, threads)


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


def _flat(data: TaskData) -> Examples | None:
    """The training examples, if they are rows of numbers of one length with one class each."""
    train = data.train
    if not isinstance(train, Examples) or data.labelled != "sequence" or train.within:
        return None
    numbers = np.issubdtype(train.inputs[0].dtype, np.floating)
    return train if numbers and len({len(x) for x in train.inputs}) == 1 else None


def _rows(examples: Examples) -> np.ndarray:
    return np.stack(examples.inputs).reshape(len(examples), -1)


def _logistic(data: TaskData, train: Examples) -> Fitted:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    pipeline.fit(_rows(train), train.labels)
    return Fitted(int(pipeline[-1].coef_.size + pipeline[-1].intercept_.size), _answers(data, pipeline.predict))


def _boosted(data: TaskData, train: Examples, threads: int) -> Fitted:
    try:
        from lightgbm import LGBMClassifier
    except OSError as error:
        raise BackendUnavailable(
            f"LightGBM, the baseline of boosted trees, cannot be loaded: {error}; it needs the system's OpenMP library "
            "(on Debian: apt-get install libgomp1)"
        ) from error

    model = LGBMClassifier(random_state=0, n_jobs=threads, deterministic=True, force_row_wise=True, verbosity=-1)
    model.fit(_rows(train), train.labels)

    def predict(rows: np.ndarray) -> Any:
        with warnings.catch_warnings():  # it names columns of its own, and misses them
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return model.predict(rows)

    leaves = sum(tree["num_leaves"] for tree in model.booster_.dump_model()["tree_info"])
    return Fitted(leaves, _answers(data, predict))


def _answers(data: TaskData, predict: Callable[[np.ndarray], Any]) -> Callable[[str], Outcomes]:
    def answer(split: str) -> Outcomes:
        examples = data.evaluation[split]
        assert isinstance(examples, Examples)
        return _right(predict(_rows(examples)), examples.labels)

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
    return PlainBaseline("mean answer" if numbers else "majority class", None, outcomes, 0.0)


def _right(predicted: np.ndarray, labels: np.ndarray) -> Outcomes:
    return of_rows(predicted == labels, np.ones(len(labels)))
