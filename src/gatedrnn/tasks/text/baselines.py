"""Baselines of texts: linear models on TF-IDF of words and their pairs, and of character n-grams."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from gatedrnn.data import Examples, TaskData
from gatedrnn.training.baseline import Fit, Fitted, answered, training_of
from gatedrnn.training.metrics import judge
from gatedrnn.training.outcomes import Outcomes

PENALTIES = (0.1, 1.0, 10.0)
"""The penalties of the ridge, chosen by leaving one out."""
_SURE = 10.0
"""The score of a label that every training row has; with another sign of one that none has."""


class _Features:
    """TF-IDF of the texts of each split, computed once for all models that read it."""

    def __init__(self, data: TaskData, **how: Any) -> None:
        self._data, self._how = data, how
        self._of = dict[str, Any]()
        self._vectorizer: Any = None

    def of(self, split: str) -> Any:
        """(texts, features), sparse.

        Raises:
            ValueError: the training texts have no features.
        """
        from sklearn.feature_extraction.text import TfidfVectorizer

        if self._vectorizer is None:
            vectorizer = TfidfVectorizer(sublinear_tf=True, **self._how)
            self._of["train"] = vectorizer.fit_transform(self._data.texts["train"].texts)
            self._vectorizer = vectorizer
        if split not in self._of:
            self._of[split] = self._vectorizer.transform(self._data.texts[split].texts)
        return self._of[split]


def text_baselines(data: TaskData) -> Iterator[tuple[str, Fit]]:
    """Each with its name; of words and of characters in turn, the models that are fitted sooner first."""
    train = training_of(data)
    features = {
        "bigrams": _Features(data, ngram_range=(1, 2)),
        "character n-grams": _Features(data, **_characters(data.undivided)),
    }
    models: dict[str, Callable[[], Any]]
    if train.several:
        models = {"logistic regression for each label": _one_for_each}
    elif train.are_numbers:
        models = {"ridge": _ridge}
    elif train.metric == "log_loss":  # of probabilities, which a support vector machine has none of
        models = {"logistic regression": _logistic}
    else:
        models = {"LinearSVC": _support_vectors, "logistic regression": _logistic}
    for model, make in models.items():
        for kind, read in features.items():
            yield f"TF-IDF {kind} + {model}", partial(_linear, data, read, make)


def _characters(undivided: bool) -> dict[str, Any]:
    """How characters are read: within words and their edges, or across all where words are not divided by blanks."""
    if undivided:
        return {"analyzer": "char", "ngram_range": (1, 3)}
    return {"analyzer": "char_wb", "ngram_range": (1, 5)}


def _support_vectors() -> Any:
    from sklearn.svm import LinearSVC

    return LinearSVC(random_state=0)


def _logistic() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)


def _one_for_each() -> Any:
    from sklearn.multiclass import OneVsRestClassifier

    return OneVsRestClassifier(_logistic())


def _ridge() -> Any:
    from sklearn.linear_model import RidgeCV

    return RidgeCV(PENALTIES)


def _linear(data: TaskData, read: _Features, make: Callable[[], Any]) -> Fitted | None:
    """Fit a linear model; None if the texts have no features, as where no word has two letters or more: scikit-learn's
    rule leaves shorter ones out.
    """
    train = training_of(data)
    try:
        features = read.of("train")
    except ValueError:
        return None
    always = np.asarray(train.labels.all(0))
    seen = np.asarray(train.labels.any(0) & ~always)
    model = make()
    model.fit(features, train.labels[:, seen].astype(np.int64) if train.several else train.labels)

    def answer(split: str) -> Outcomes:
        examples = _examples(data, split)
        if examples.metric is None:
            return answered(model.predict(read.of(split)), examples)
        return judge(examples, _outputs(model, examples, read.of(split), seen, always)).outcomes

    return Fitted(_size(model), answer)


def _outputs(model: Any, examples: Examples, features: Any, seen: np.ndarray, always: np.ndarray) -> list[np.ndarray]:
    """The outputs in the form of a model's: numbers, or scores of classes or labels.

    Args:
        seen: of several labels a row, those that some training rows have and some lack; others are answered as there.
        always: those that all training rows have.
    """
    if examples.are_numbers:
        return list(np.asarray(model.predict(features))[:, None])
    scores = np.asarray(model.decision_function(features))
    if not examples.several:
        return list(scores if scores.ndim == 2 else np.stack([np.zeros(len(scores)), scores], axis=1))
    outputs = np.tile(np.where(always, _SURE, -_SURE), (len(scores), 1))
    outputs[:, seen] = scores.reshape(len(scores), -1)
    return list(outputs)


def _size(model: Any) -> int:
    """Weights of a linear model, or of one for each label."""
    parts = getattr(model, "estimators_", [model])
    return sum(int(np.size(part.coef_) + np.size(part.intercept_)) for part in parts)


def _examples(data: TaskData, split: str) -> Examples:
    examples = data.evaluation[split]
    assert isinstance(examples, Examples)
    return examples
