"""Labels as they are learned, classes or numbers, and what each row counts: a weight of 2 is a row twice."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

Labels: TypeAlias = Any
"""A label, or a weight, of each example: an array, a list or a column; or the name of a column of a frame."""


def checked_labels(
    examples: Sequence[object], labels: Labels, weights: Labels
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:  # fmt: skip
    """The rows that count, their labels, and what each counts: None where no weights are given.

    Args:
        examples: of each row.
        labels: (rows,), or (rows, 1).
        weights: (rows,), one number for all, or None.

    Raises:
        ValueError: there are fewer rows than two, not as many labels or weights as rows, or no labels.
    """
    if labels is None:
        raise ValueError("requires y to be passed, but the target y is None")
    absent = pd.isna(np.asarray(labels, dtype=object))  # as objects: beside text, numpy would write NaN as "nan"
    if absent.ndim == 1 and absent.any():
        row = int(absent.argmax()) + 1
        raise ValueError(f"Input y contains NaN or None: row {row} has no label; remove the row or fill it in")
    labels = column_or_1d(labels, warn=True)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    if len(labels) != len(examples):
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[len(examples), len(labels)]}")
    if len(examples) < 2:
        raise ValueError("there is 1 sample, and no model is learned from fewer than 2")
    if weights is None:
        return np.arange(len(labels)), labels, None
    weights = _check_sample_weight(weights, np.empty(len(labels)), ensure_non_negative=True)
    rows = np.flatnonzero(weights)
    if not len(rows):
        raise ValueError("sample_weight: all weights are 0, and there is nothing to learn from")
    return rows, labels[rows], weights[rows]


def merged(
    examples: Sequence[np.ndarray | str], labels: np.ndarray, times: Sequence[np.ndarray] | np.ndarray | None,
    weights: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray | None]:  # fmt: skip
    """The rows to train on, and what each counts.

    Rows that are equal become one, which counts as all of them. Where there are such rows, or weights, the rows are put
    into an order of their own content, so that it tells nothing of how they came: by weight or by repetition.

    Args:
        examples: of each row.
        labels: (rows,).
        times: of the steps of each row, if they have any.
        weights: (rows,), above 0; None for 1.

    Returns:
        The rows, and their weights: None where all count alike.
    """
    counts = np.ones(len(labels)) if weights is None else np.asarray(weights, np.float64)
    keys = [
        (_content(example), labels[row].item(), b"" if times is None else np.asarray(times[row]).tobytes())
        for row, example in enumerate(examples)
    ]
    if weights is None and len(set(keys)) == len(keys):
        return np.arange(len(labels)), None
    first, total = dict[object, int](), dict[object, float]()
    for row, key in enumerate(keys):
        first.setdefault(key, row)
        total[key] = total.get(key, 0.0) + float(counts[row])
    order = sorted(first)  # type: ignore[type-var]  # tuples of bytes and numbers
    weighed = np.array([total[key] for key in order])
    alike = bool((weighed == weighed[0]).all())
    if alike and len(order) == len(labels):  # all count alike: nothing is said that their order should not
        return np.arange(len(labels)), None
    return np.array([first[key] for key in order]), None if alike else weighed


def _content(example: np.ndarray | str) -> bytes:
    return example.encode() if isinstance(example, str) else repr(example.shape).encode() + example.tobytes()


class OfClasses(ClassifierMixin):
    """An estimator whose labels are classes: `classes_` in the order of the outputs."""

    classes_: np.ndarray

    def _labels(self, y: np.ndarray) -> np.ndarray:
        """The numbers of the classes."""
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"{type(self).__name__} needs two classes at least, and the data have 1 class")
        return numbers

    def _names(self) -> list[str] | None:
        return [str(name) for name in self.classes_]


class OfNumbers(RegressorMixin):
    """An estimator whose labels are numbers."""

    def _labels(self, y: np.ndarray) -> np.ndarray:
        return np.asarray(y, np.float64)

    def _names(self) -> list[str] | None:
        return None
