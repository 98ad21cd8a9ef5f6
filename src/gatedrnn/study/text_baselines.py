"""Baselines of texts with classes, several labels or a number each: linear models on TF-IDF of words and of pairs; and
of tagged words, the most frequent tag of each.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from gatedrnn.data import Examples, TaskData
from gatedrnn.study.baseline import Fit, Fitted
from gatedrnn.study.tabular import answered, training_of
from gatedrnn.training.metrics import IGNORED, judge
from gatedrnn.training.outcomes import Outcomes

PENALTIES = (0.1, 1.0, 10.0)
"""The penalties of the ridge, chosen by leaving one out."""
SURE = 10.0
"""The score of a label that every training row has; with another sign of one that none has."""


def text_baselines(data: TaskData) -> Iterator[tuple[str, Fit]]:
    """Each with its name."""
    train = training_of(data)
    if data.labelled == "step":
        yield "most frequent tag of a word", lambda: _tags(data)
    elif train.several:
        yield "TF-IDF bigrams + logistic regression for each label", lambda: _linear(data, _one_for_each())
    elif train.are_numbers:
        yield "TF-IDF bigrams + ridge", lambda: _linear(data, _ridge())
    elif train.metric == "log_loss":
        yield "TF-IDF bigrams + logistic regression", lambda: _linear(data, _logistic())
    else:
        yield "TF-IDF bigrams + LinearSVC", lambda: _linear(data, _support_vectors())


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


def _linear(data: TaskData, model: Any) -> Fitted | None:
    """Fit a linear model; None if the texts hold no word of two letters or more: scikit-learn's rule leaves shorter
    ones out.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    train = training_of(data)
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    try:
        features = words.fit_transform(data.texts["train"].texts)
    except ValueError:
        return None
    always = np.asarray(train.labels.all(0))
    seen = np.asarray(train.labels.any(0) & ~always)
    model.fit(features, train.labels[:, seen].astype(np.int64) if train.several else train.labels)
    pipeline = make_pipeline(words, model)

    def answer(split: str) -> Outcomes:
        examples, texts = _examples(data, split), data.texts[split].texts
        if examples.metric is None:
            return answered(pipeline.predict(texts), examples)
        return judge(examples, _outputs(pipeline, examples, texts, seen, always)).outcomes

    return Fitted(_size(model), answer)


def _outputs(
    pipeline: Any, examples: Examples, texts: list[str], seen: np.ndarray, always: np.ndarray
) -> list[np.ndarray]:
    """The outputs in the form of a model's: numbers, or scores of classes or labels.

    Args:
        seen: of several labels a row, those that some training rows have and some lack; others are answered as there.
        always: those that all training rows have.
    """
    if examples.are_numbers:
        return list(np.asarray(pipeline.predict(texts))[:, None])
    scores = np.asarray(pipeline.decision_function(texts))
    if not examples.several:
        return list(scores if scores.ndim == 2 else np.stack([np.zeros(len(scores)), scores], axis=1))
    outputs = np.tile(np.where(always, SURE, -SURE), (len(texts), 1))
    outputs[:, seen] = scores.reshape(len(texts), -1)
    return list(outputs)


def _size(model: Any) -> int:
    """Weights of a linear model, or of one for each label."""
    parts = getattr(model, "estimators_", [model])
    return sum(int(np.size(part.coef_) + np.size(part.intercept_)) for part in parts)


def _tags(data: TaskData) -> Fitted:
    """A baseline that counts how often a word, as it is written, has each tag in training, with one more of the usual
    shares: the likeliest is the most frequent one; of an unseen word that of all.
    """
    counts = dict[str, np.ndarray]()
    for words, tags in zip(_words(data, "train"), data.texts["train"].labels, strict=True):
        for word, tag in zip(words, tags, strict=True):
            counts.setdefault(word, np.zeros(len(data.label_names)))[tag] += 1
    usual = np.sum(list(counts.values()), axis=0) + 1
    usual /= usual.sum()

    def answer(split: str) -> Outcomes:
        examples, outputs = _examples(data, split), []
        for words, inputs, labels in zip(_words(data, split), examples.inputs, examples.labels, strict=True):
            scores = np.zeros((len(inputs), len(usual)))
            places = np.flatnonzero(labels[: len(inputs)] != IGNORED)
            for place, word in zip(places, words, strict=True):
                scores[place] = np.log(counts.get(word, 0.0) + usual)
            outputs.append(scores)
        return judge(examples, outputs).outcomes

    return Fitted(len(counts), answer)


def _words(data: TaskData, split: str) -> list[list[str]]:
    words = data.texts[split].words
    assert words is not None
    return words


def _examples(data: TaskData, split: str) -> Examples:
    examples = data.evaluation[split]
    assert isinstance(examples, Examples)
    return examples
