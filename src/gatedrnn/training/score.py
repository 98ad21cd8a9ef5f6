"""`gatedrnn evaluate`: scores of finished models, with all that a perplexity depends on, and of predicted labels."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gatedrnn.data import TaskData
from gatedrnn.errors import DataError
from gatedrnn.models import GatedRNNConfig
from gatedrnn.models.opening import Finished
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.metrics import Answers, ClassScore, classes_of, every_score, tables_of
from gatedrnn.training.outcomes import Outcomes, read_outcomes
from gatedrnn.training.predict import IGNORED, SEVERAL, class_names, class_values, outputs_of
from gatedrnn.training.result import Record, Scores


class Text(Record):
    """A text and a vocabulary, which a perplexity depends on."""

    size: str
    """Bytes and documents, in words."""
    vocabulary: int
    tokens: int
    """Tokens that were predicted."""
    ends: int
    """Predictions that end a document."""
    unknown: float
    """The share of tokens that the vocabulary lacks."""
    identity: str
    """A sum over the vocabulary: perplexities of different ones have nothing in common."""


class Scored(Record):
    """The scores of a model on a split or on other data."""

    run: str
    cell: str
    source: str
    """The split or file, by name."""
    scores: Scores
    """The scores; those of forecasts with every window in units of its own context."""
    rows: int | None = None
    """Rows of labels."""
    labels: int | None = None
    """Labels; steps without one are left out."""
    classes: list[ClassScore] = []
    confusion: list[list[int]] | None = None
    """[true][predicted], in the order of `classes`."""
    each_label: list[list[list[int]]] | None = None
    """The table of each of several labels a row: [lacks it, has it][not predicted, predicted]."""
    streamed: Scores | None = None
    """Scores of forecasts with each series as a stream, in units of the context before its first forecast."""
    text_read: Text | None = None
    """The text that a language model was scored on."""
    notes: list[str] = []


def score_labels(
    finished: Finished, source: str, inputs: list[np.ndarray], labels: list[np.ndarray],
    gaps: list[np.ndarray] | None,
) -> Scored:  # fmt: skip
    """Scores of a classifier, a labeller of steps or a regression on rows with labels.

    Args:
        source: their name.

    Raises:
        DataError: no row has a label.
    """
    if all(bool((label == IGNORED).all()) for label in labels):
        raise DataError(f"{source}: has no label to hold a prediction against")
    outputs, config = outputs_of(finished, inputs, gaps), finished.model.config
    answers = _answers(config, outputs, labels)
    confusion, each = tables_of(answers)
    names = [] if answers.numbers else [
        value if isinstance(value, bool | int | float) else name
        for name, value in zip(class_names(config), class_values(config), strict=True)
    ]  # fmt: skip
    return Scored(
        run="", cell=config.cell, source=source, scores=every_score(answers), rows=len(inputs),
        labels=len(answers.true), classes=classes_of(names, confusion, each), confusion=confusion, each_label=each,
    )  # fmt: skip


def _answers(config: GatedRNNConfig, outputs: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> Answers:
    """Outputs of a model, a row each: (labels,), or (time, classes); with the labels of each."""
    if config.problem_type == "regression":
        return Answers(np.stack(outputs), np.array(labels, np.float64))
    if config.problem_type == SEVERAL:
        return Answers(np.stack(outputs), np.stack(labels))
    flat = np.concatenate([output.reshape(-1, output.shape[-1]) for output in outputs])
    true = np.concatenate([np.atleast_1d(label) for label in labels]).astype(np.int64)
    return Answers(flat[true != IGNORED], true[true != IGNORED])


def outcomes_of(path: Path, data: TaskData) -> dict[str, Outcomes]:
    """The outcomes of a finished run by split.

    Raises:
        Damaged: the file is not as it was written.
    """
    folder = RunFolder(path)
    folder.check(folder.outcomes.name)
    return read_outcomes(folder.outcomes)
