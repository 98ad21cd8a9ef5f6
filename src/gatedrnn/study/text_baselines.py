"""Baselines of texts with classes, several labels or a number each: linear models on TF-IDF of words and of pairs; and
of tagged words, the most frequent tag of each.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from gatedrnn.data import Examples, TaskData
from gatedrnn.study.baseline import Fit, Fitted
from gatedrnn.study.tabular import answered, training_of
from gatedrnn.train.metrics import judge
from gatedrnn.train.outcomes import Outcomes

PENALTIES = (0.1, 1.0, 10.0)
"""Of the ridge, chosen by leaving one out."""
SURE = 10.0
"""Of an answer without a probability: its score above that of all others."""


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
    """None if the texts hold no word of two letters or more: scikit-learn's rule leaves shorter ones out."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    train = training_of(data)
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    try:
        features = words.fit_transform(data.texts["train"].texts)
    except ValueError:
        return None
    seen = np.asarray(train.labels.any(0) & ~train.labels.all(0)) if train.several else np.array([True])
    model.fit(features, train.labels[:, seen].astype(np.int64) if train.several else train.labels)
    pipeline = make_pipeline(words, model)

    def answer(split: str) -> Outcomes:
        examples, texts = _examples(data, split), data.texts[split].texts
        if examples.metric is None:
            return answered(pipeline.predict(texts), examples)
        return judge(examples, _outputs(pipeline, examples, texts, seen)).outcomes

    return Fitted(_size(model), answer)


def _outputs(pipeline: Any, examples: Examples, texts: list[str], seen: np.ndarray) -> list[np.ndarray]:
    """As a model has them: numbers, or scores of classes or labels; a label that training never has, or always, is
    answered so."""
    if examples.are_numbers:
        return list(np.asarray(pipeline.predict(texts))[:, None])
    scores = np.asarray(pipeline.decision_function(texts))
    if not examples.several:
        return list(scores if scores.ndim == 2 else np.stack([np.zeros(len(scores)), scores], axis=1))
    found = np.full((len(texts), len(seen)), -SURE)
    found[:, seen] = scores.reshape(len(texts), -1)
    return list(found)


def _size(model: Any) -> int:
    """Weights of a linear model, or of one for each label."""
    parts = getattr(model, "estimators_", [model])
    return sum(int(np.size(part.coef_) + np.size(part.intercept_)) for part in parts)


def _tags(data: TaskData) -> Fitted:
    """The tag that a word, as it is written, has most often in training; of an unseen word the most frequent tag."""
    counts = dict[str, Counter[int]]()
    for word, tag in _tagged(data, "train"):
        counts.setdefault(word, Counter())[tag] += 1
    chosen = {word: own.most_common(1)[0][0] for word, own in counts.items()}
    usual = sum(counts.values(), Counter[int]()).most_common(1)[0][0]

    def answer(split: str) -> Outcomes:
        examples, classes = _examples(data, split), len(data.label_names)
        outputs = []
        for words, inputs, labels in zip(_words(data, split), examples.inputs, examples.labels, strict=True):
            found = np.zeros((len(inputs), classes))
            places = np.flatnonzero(labels[: len(inputs)] != -100)
            found[places, [chosen.get(word, usual) for word in words]] = SURE
            outputs.append(found)
        return judge(examples, outputs).outcomes

    return Fitted(len(chosen), answer)


def _tagged(data: TaskData, split: str) -> Iterator[tuple[str, int]]:
    """Every word of a split with its tag."""
    examples = training_of(data) if split == "train" else _examples(data, split)
    for words, labels in zip(_words(data, split), examples.labels, strict=True):
        yield from zip(words, labels[labels != -100].tolist(), strict=True)


def _words(data: TaskData, split: str) -> list[list[str]]:
    words = data.texts[split].words
    assert words is not None
    return words


def _examples(data: TaskData, split: str) -> Examples:
    examples = data.evaluation[split]
    assert isinstance(examples, Examples)
    return examples
