"""Scores by name, such as macro-F1: each as numbers of single labels whose mean is the score.

A score that is no mean over labels is that of scikit-learn; each label's number is the score plus how far the label
moves it, the empirical influence function (Hampel 1974, Journal of the American Statistical Association 69, 383-393),
so that the variance of their mean is that of the score, and two models are compared label by label as by an accuracy.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import logsumexp
from scipy.stats import rankdata, spearmanr
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    confusion_matrix,
    f1_score,
    multilabel_confusion_matrix,
    precision_recall_fscore_support,
    r2_score,
)

from gatedrnn.data import Examples
from gatedrnn.training.outcomes import Outcomes, of_ranks
from gatedrnn.training.result import Scores

IGNORED = -100


class Answers(NamedTuple):
    """A model's outputs for labels, and the true labels; the steps of all rows below one another."""

    outputs: np.ndarray
    """(labels, classes), float64: scores of classes before the softmax, or before the sigmoid of several a row; of
    numbers (labels, 1)."""
    true: np.ndarray
    """(labels,): classes, int64, or numbers, float64; (labels, classes), 0 or 1, of several a row."""
    unit: float = 1.0
    """The unit of errors of numbers."""

    @property
    def several(self) -> bool:
        """Whether a row has several labels."""
        return self.true.ndim == 2

    @property
    def numbers(self) -> bool:
        """Whether labels are numbers."""
        return not self.several and bool(np.issubdtype(self.true.dtype, np.floating))

    @property
    def predicted(self) -> np.ndarray:
        """The predictions in the form of `true`: the likeliest class, each label that is likelier than not, or the
        number.
        """
        if self.numbers:
            return self.outputs[:, 0]
        decided: np.ndarray = (self.outputs > 0).astype(np.int64) if self.several else self.outputs.argmax(1)
        return decided

    def by_class(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The pairs of each class that has labels and lacks some: how far its outputs are above the rest, and whether
        it is true; of two classes of which a label has one, the second alone.
        """
        if self.several:
            scores, true = self.outputs, self.true == 1
        else:
            others = [np.delete(self.outputs, place, 1) for place in range(self.outputs.shape[1])]
            scores = np.stack(
                [self.outputs[:, n] - logsumexp(column, axis=1) for n, column in enumerate(others)], axis=1
            )
            true = self.true[:, None] == np.arange(scores.shape[1])
            if scores.shape[1] == 2:
                scores, true = scores[:, 1:], true[:, 1:]
        for column, mask in zip(scores.T, true.T, strict=True):
            if mask.any() and not mask.all():
                yield column, mask


def log_losses(answers: Answers) -> np.ndarray:
    """Nats of each label; of several a row their mean."""
    outputs = answers.outputs
    if answers.several:
        losses: np.ndarray = (np.logaddexp(0, outputs) - answers.true * outputs).mean(1)
        return losses
    logits = np.take_along_axis(outputs, answers.true[:, None], 1)[:, 0]
    return np.asarray(logsumexp(outputs, axis=1) - logits)


def hits(answers: Answers) -> np.ndarray:
    """Whether each label is right; of several a row, whether all are."""
    right = answers.predicted == answers.true
    return (right.all(1) if answers.several else right).astype(np.float64)


def balanced_accuracy(answers: Answers) -> np.ndarray:
    """The mean over classes of the share that is right."""
    true, right = answers.true, hits(answers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of predicted classes that no label has
        score = balanced_accuracy_score(true, answers.predicted)
    counts = np.bincount(true)
    shares = np.bincount(true, right) / np.maximum(counts, 1)
    return np.asarray(score + (right - shares[true]) * len(true) / counts[true] / (counts > 0).sum())


def macro_f1(answers: Answers) -> np.ndarray:
    """The mean of F1 over all labels of a row; of one label a row, over the classes that are true or predicted."""
    score = f1_score(answers.true, answers.predicted, average="macro", zero_division=0.0)
    moves = [_f1_moves(*indicators) for indicators in _indicators(answers)]
    return np.asarray(score + np.mean(moves, axis=0))


def micro_f1(answers: Answers) -> np.ndarray:
    """F1 of all labels of all rows together; of one label a row it is the accuracy."""
    if not answers.several:
        return hits(answers)
    score = f1_score(answers.true, answers.predicted, average="micro", zero_division=0.0)
    return np.asarray(score + _f1_moves(answers.true, answers.predicted))


def _indicators(answers: Answers) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The pairs of each class that counts: whether each label is of it, and whether it is predicted to be."""
    true, predicted = answers.true, answers.predicted
    if answers.several:
        yield from zip(true.T, predicted.T, strict=True)
        return
    for number in np.union1d(true, predicted):
        yield true == number, predicted == number


def _f1_moves(true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """The amount by which each row moves F1 = 2 hits / (true + predicted), each (rows,) or (rows, classes) together."""
    both, size = (counts.reshape(len(true), -1).sum(1, dtype=np.float64) for counts in (true * predicted, true + 0.0))
    size += predicted.reshape(len(true), -1).sum(1)
    if not size.any():
        return np.zeros(len(true))
    f1 = 2 * both.sum() / size.sum()
    return np.asarray((2 * both - f1 * size) / size.mean())


def auroc(answers: Answers) -> np.ndarray:
    """The area under the ROC curve; of more than two classes, or of several labels a row, the mean over those that are
    there, each against the rest; one half where there are none."""
    values = [of_ranks(outputs, mask.astype(np.int64)).values for outputs, mask in answers.by_class()]
    return np.mean(values, axis=0) if values else np.full(len(answers.true), 0.5)


def average_precision(answers: Answers) -> np.ndarray:
    """The mean over true ones of the precision at their output; of classes and labels as `auroc`; 0 where there are
    none."""
    values = [
        average_precision_score(mask, output) + _precision_moves(output, mask) for output, mask in answers.by_class()
    ]
    return np.mean(values, axis=0) if values else np.zeros(len(answers.true))


def _precision_moves(outputs: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The amount by which each row moves the average precision: by the precision at its own output, where it is a true
    one, and by what it adds to that at the output of each true one that is no higher.
    """
    rows, (_, place) = len(mask), np.unique(outputs, return_inverse=True)
    counts, trues = np.bincount(place), np.bincount(place, mask)
    above, true_above = (counted[::-1].cumsum()[::-1] for counted in (counts, trues))  # at this output or higher
    precision = true_above / above
    score = float((precision * trues).sum() / trues.sum())
    added, taken = ((counted * trues / above).cumsum() * rows / trues.sum() for counted in (1.0, precision))
    at = precision[place]
    return np.asarray(np.where(mask, (at - score) * rows / trues.sum() + added[place], 0.0) - taken[place])


def squared_share(answers: Answers) -> np.ndarray:
    """R², the share of the labels' variance that is explained."""
    squares = np.square(answers.predicted - answers.true)
    spread = np.square(answers.true - answers.true.mean())
    score = float(r2_score(answers.true, answers.predicted)) if len(squares) > 1 else 0.0
    if not spread.any():
        return np.full(len(squares), score)
    unexplained = squares.mean() / spread.mean()
    return np.asarray(score + (unexplained * spread - squares) / spread.mean())


def rank_correlation(answers: Answers) -> np.ndarray:
    """Spearman's: the correlation of ranks; 0 where predictions or labels are all alike."""
    shares = [(rankdata(values) - 0.5) / len(values) for values in (answers.predicted, answers.true)]
    unit = float(np.prod([values.std() for values in shares]))
    if not unit:
        return np.zeros(len(answers.true))
    product = shares[0] * shares[1]
    above = _mean_above(answers.predicted, shares[1]) + _mean_above(answers.true, shares[0])
    score = float(spearmanr(answers.predicted, answers.true).statistic)
    return np.asarray(score + (product + above - 3 * product.mean()) / unit)


def _mean_above(values: np.ndarray, of: np.ndarray) -> np.ndarray:
    """The sum for each row of `of` over the rows whose value is larger, and half of it over equal ones, over all
    rows.
    """
    _, place = np.unique(values, return_inverse=True)
    sums = np.bincount(place, of)
    return np.asarray((sums[::-1].cumsum()[::-1] - sums / 2)[place] / len(of))


def errors(answers: Answers) -> np.ndarray:
    """Absolute errors, in units of the labels' deviation."""
    return np.abs(answers.predicted - answers.true) / answers.unit


_METRICS: dict[str, Callable[[Answers], np.ndarray]] = {
    "accuracy": hits, "balanced_accuracy": balanced_accuracy, "micro_f1": micro_f1, "macro_f1": macro_f1,
    "auroc": auroc, "average_precision": average_precision, "log_loss": log_losses, "r2": squared_share,
    "spearman": rank_correlation, "scaled_mae": errors,
}  # fmt: skip
"""The function of each score, by its name in `Scores`: it returns a number for each label, (labels,), whose mean is the
score."""


class Evaluation(NamedTuple):
    """The scores and outcomes of a model on one split."""

    scores: Scores
    outcomes: Outcomes
    confusion: list[list[int]] | None = None
    """[true][predicted], of one class a label."""
    each_label: list[list[list[int]]] | None = None
    """The table of each of several labels a row: [lacks it, has it][not predicted, predicted]."""


def judge(examples: Examples, outputs: Sequence[np.ndarray]) -> Evaluation:
    """The scores of outputs by the metric of the examples, with those that go with it.

    Args:
        examples: with a metric.
        outputs: a row each: (classes,), or (time, classes) where there is a label at every step.
    """
    assert examples.metric is not None
    answers, rows = _answers(examples, outputs)
    loss = loss_of(answers)
    # What has no order has no score; that the loss is no number is said where it is asked for.
    answers = answers._replace(outputs=np.nan_to_num(answers.outputs))
    names = dict.fromkeys((*_beside(examples, answers), examples.metric))
    values = {name: _METRICS[name](answers) for name in names}
    scores = {name: float(moves.mean()) for name, moves in values.items()}
    if answers.numbers:
        scores["mae"] = scores["scaled_mae"] * answers.unit
    counts = np.bincount(rows, minlength=len(examples))
    outcomes = Outcomes(
        np.bincount(rows, values[examples.metric], minlength=len(examples)), counts.astype(np.int64), "example"
    )
    return Evaluation(Scores(loss=loss, **scores), outcomes, *tables_of(answers))


def loss_of(answers: Answers) -> float:
    """Nats per label, or the mean squared error of numbers in units of their own."""
    if answers.numbers:
        return float(np.square(answers.predicted - answers.true).mean() / answers.unit**2)
    return float(log_losses(answers).mean())


def every_score(answers: Answers) -> Scores:
    """All scores of labels whatever a run chose its weights by; areas under curves of two classes, or several labels a
    row, alone."""
    names: tuple[str, ...]
    if answers.numbers:
        off = answers.predicted - answers.true
        values = {"mae": np.abs(off), "spearman": rank_correlation(answers)}
        if np.ptp(answers.true):
            values["r2"] = squared_share(answers)
        rmse = float(np.sqrt(np.square(off).mean()))
        return Scores(loss=loss_of(answers), rmse=rmse, **{name: float(each.mean()) for name, each in values.items()})
    if answers.several:
        names = ("accuracy", "micro_f1", "macro_f1", "auroc", "average_precision")
    else:
        two = {*answers.true.tolist()} == {0, 1} and answers.outputs.shape[1] == 2
        names = ("accuracy", "balanced_accuracy", "macro_f1", *(("auroc", "average_precision") if two else ()))
    return Scores(loss=loss_of(answers), **{name: float(_METRICS[name](answers).mean()) for name in names})


def tables_of(answers: Answers) -> tuple[list[list[int]] | None, list[list[list[int]]] | None]:
    """`confusion` and `each_label` of an evaluation."""
    if answers.several:
        return None, multilabel_confusion_matrix(answers.true, answers.predicted).tolist()
    if answers.numbers:
        return None, None
    every = np.arange(answers.outputs.shape[1])
    return confusion_matrix(answers.true, answers.predicted, labels=every).tolist(), None


def _answers(examples: Examples, outputs: Sequence[np.ndarray]) -> tuple[Answers, np.ndarray]:
    """Answers, and the row of each label."""
    labels, unit = examples.labels, examples.unit
    if not examples.of_steps:
        return Answers(np.stack(outputs).astype(np.float64), labels, unit), np.arange(len(labels))
    every = examples.own_labels()
    flat, true = np.concatenate(outputs).astype(np.float64), np.concatenate(every)
    rows = np.repeat(np.arange(len(every)), [len(label_row) for label_row in every])[true != IGNORED]
    return Answers(flat[true != IGNORED], true[true != IGNORED], unit), rows


def _beside(examples: Examples, answers: Answers) -> tuple[str, ...]:
    """The scores that are given whatever the metric is."""
    if answers.numbers:
        return ("scaled_mae", "r2", "spearman")
    if answers.several:
        return ("accuracy", "micro_f1", "macro_f1")
    return ("accuracy", "macro_f1") if examples.of_steps else ("accuracy",)


Label: TypeAlias = bool | int | float | str


@dataclass(frozen=True)
class ClassScore:
    """The scores of one class, or of one of several labels a row."""

    name: Label
    """The class, of the type that the labels came in."""
    precision: float
    """The share of those that were predicted to be of it which are; 0 if none was."""
    recall: float
    """The share of those that are of it which were predicted to be; 0 if none is."""
    f1: float
    support: int
    """Labels that are of it."""


def class_scores(confusion: Sequence[Sequence[int]], names: Sequence[Label]) -> list[ClassScore]:
    """Scores of each class, from [true][predicted]."""
    every, counts = np.arange(len(names)), np.array(confusion)
    true, predicted = np.repeat(every, len(every)), np.tile(every, len(every))
    measures = precision_recall_fscore_support(
        true, predicted, labels=every, sample_weight=counts.ravel(), zero_division=0.0
    )
    return [
        ClassScore(name, float(precision), float(recall), float(f1), int(support))
        for name, precision, recall, f1, support in zip(names, *measures, strict=True)
    ]


def classes_of(
    names: Sequence[Label],
    confusion: Sequence[Sequence[int]] | None,
    each_label: Sequence[Sequence[Sequence[int]]] | None,
) -> list[ClassScore]:
    """Scores of each class, or of each of several labels a row, from one of these tables; empty without both."""
    if confusion is not None:
        return class_scores(confusion, names)
    return [] if each_label is None else label_scores(each_label, names)


def label_scores(each: Sequence[Sequence[Sequence[int]]], names: Sequence[Label]) -> list[ClassScore]:
    """Scores of each of several labels a row, from [lacks it, has it][not predicted, predicted] of each."""
    return [
        replace(class_scores(table, ("without", name))[1], name=name) for table, name in zip(each, names, strict=True)
    ]
