"""Scores of predicted labels: accuracy, each class, confusion; errors of predicted numbers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from gatedrnn.train.predicting import IGNORED, log_probabilities


class ClassScore(NamedTuple):
    """Of one class."""

    name: str
    precision: float
    """The share of those that were predicted to be of it which are; 0 if none was."""
    recall: float
    """The share of those that are of it which were predicted to be; 0 if none is."""
    f1: float
    support: int
    """Labels that are of it."""


class LabelScores(NamedTuple):
    """Of predicted classes."""

    labels: int
    """How many there were; steps without one are left out."""
    accuracy: float
    loss: float
    """Mean cross-entropy in nats."""
    classes: list[ClassScore]
    confusion: list[list[int]]
    """[true][predicted], in the order of `classes`."""

    def as_json(self) -> dict[str, Any]:
        """With a name for every number."""
        return {**self._asdict(), "classes": [score._asdict() for score in self.classes]}


class NumberScores(NamedTuple):
    """Of predicted numbers."""

    labels: int
    mean_absolute_error: float
    root_mean_squared_error: float
    r_squared: float | None
    """The part of the labels' variance that is explained; None where they are all alike."""

    def as_json(self) -> dict[str, Any]:
        """With a name for every number."""
        return self._asdict()


def score_labels(outputs: Sequence[np.ndarray], labels: Sequence[np.ndarray], names: Sequence[str]) -> LabelScores:
    """Scores of classes.

    Args:
        outputs: of a model, a row each: (classes,), or (time, classes).
        labels: a number of a class each, (), or (time,); -100 where there is none.
        names: of the classes.
    """
    flat = np.concatenate([output.reshape(-1, len(names)) for output in outputs])
    true = np.concatenate([np.atleast_1d(label) for label in labels]).astype(np.int64)
    flat, true = flat[true != IGNORED], true[true != IGNORED]
    predicted, numbers = flat.argmax(1), np.arange(len(names))
    by_class = precision_recall_fscore_support(true, predicted, labels=numbers, zero_division=0.0)
    return LabelScores(
        labels=len(true),
        accuracy=float((true == predicted).mean()),
        loss=float(-log_probabilities(flat)[np.arange(len(true)), true].mean()),
        classes=[
            ClassScore(name, float(precision), float(recall), float(f1), int(support))
            for name, precision, recall, f1, support in zip(names, *by_class, strict=True)
        ],
        confusion=confusion_matrix(true, predicted, labels=numbers).tolist(),
    )


def score_numbers(outputs: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> NumberScores:
    """Scores of numbers: outputs (1,) and labels (), a row each."""
    found, true = np.array([output[0] for output in outputs]), np.array(labels, dtype=np.float64)
    squared, spread = np.square(found - true), np.square(true - true.mean()).sum()
    return NumberScores(
        labels=len(true),
        mean_absolute_error=float(np.abs(found - true).mean()),
        root_mean_squared_error=float(np.sqrt(squared.mean())),
        r_squared=float(1 - squared.sum() / spread) if spread else None,
    )
