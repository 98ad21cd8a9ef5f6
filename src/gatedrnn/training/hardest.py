"""hardest.json of a run: the test examples that its model is furthest off on, for its page to show."""

from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field
from scipy.special import expit

from gatedrnn import manifest
from gatedrnn.data import Examples, TaskData
from gatedrnn.training.finished import open_finished, outcomes_of
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.outcomes import Outcomes
from gatedrnn.training.predict import class_names, label_of, log_probabilities, outputs_of
from gatedrnn.training.result import Record
from gatedrnn.training.so_far import data_of

SHOWN = 6
MOST_READ = 1000
"""The number of wrong examples that are read again to find the surest."""
MOST_STEPS, MOST_CHANNELS, MOST_LETTERS = 2000, 100, 300
"""The most steps, channels and letters of an example that is shown."""
NONE = "–"
"""The mark of a text without a label."""


class Hard(Record):
    """One example."""

    row: int
    """The row of the test split, from 1."""
    true: str
    predicted: str
    probability: float | None
    """The probability that the model gave to its answer; None for a number."""
    words: str | None = None
    """The beginning of a text."""
    values: list[list[float | None]] = []
    """(channels, time), of a series; empty of anything else."""


class Hardest(Record):
    """The wrong ones that the model was surest of, or the numbers that it missed most."""

    VERSION: ClassVar[int] = 1

    version: int = Field(VERSION, alias="schema")
    examples: list[Hard]


def write_hardest(path: Path) -> Hardest | None:
    """Write hardest.json into a finished run's folder, and return it; None where a page has nothing to show.

    Raises:
        DataError: the data have changed since the run.
        Damaged: a file of the folder is not as it was written.
    """
    folder = RunFolder(path)
    data = data_of(folder)
    test = data.evaluation.get("test")
    if not isinstance(test, Examples) or data.labelled != "sequence" or not _can_be_shown(data, test):
        return None
    worst = _may_be_hardest(test, outcomes_of(path, data)["test"])
    finished = open_finished(path)
    gaps = None if test.gaps is None else [test.gaps[row] for row in worst]
    outputs = outputs_of(finished, [test.inputs[row] for row in worst], gaps)
    names, wrong = class_names(finished.model.config), list[tuple[float, Hard]]()
    for row, output in zip(worst.tolist(), outputs, strict=True):
        off, answer = _answer(test, row, output, names)
        if off:
            text = data.texts["test"].texts[row][:MOST_LETTERS] if data.texts else None
            values = [] if data.texts else _values(test.inputs[row])
            wrong.append((off, Hard(row=row + 1, words=text, values=values, **answer._asdict())))
    wrong.sort(key=lambda example: -example[0])
    hardest = Hardest(examples=[example for _, example in wrong[:SHOWN]])
    hardest.write(folder.hardest)
    manifest.add(path, folder.hardest.name)
    return hardest


def _may_be_hardest(test: Examples, outcomes: Outcomes) -> np.ndarray:
    """Rows to read again: those with the largest errors, those that were wrong, or the first ones where outcomes say
    neither."""
    if test.metric not in (None, "scaled_mae"):
        return np.arange(min(len(test), MOST_READ))
    are_errors = test.are_numbers and not test.within
    off = outcomes.values if are_errors else outcomes.counts - outcomes.values
    worst = np.argsort(-off, kind="stable")[: SHOWN if are_errors else MOST_READ]
    return worst[off[worst] > 0]


class _Answer(NamedTuple):
    true: str
    predicted: str
    probability: float | None


def _answer(test: Examples, row: int, output: np.ndarray, names: list[str]) -> tuple[float, _Answer]:
    """The error of the model on a row, 0 where it is right, and its answer. The error of classes and labels is how sure
    the model was of what is wrong.
    """
    true = test.labels[row]
    if test.are_numbers:
        off = abs(float(output[0]) - float(true))
        return off if off >= test.within else 0.0, _Answer(f"{true:.4g}", f"{output[0]:.4g}", None)
    if test.several:
        wrong = (output > 0) != (true == 1)
        sure = float(expit(np.abs(output[wrong])).max(initial=0.0))
        return sure, _Answer(label_of(true, names) or NONE, label_of(output, names) or NONE, sure)
    chosen, shares = int(output.argmax()), np.exp(log_probabilities(output))
    sure = float(shares.max())
    return sure * (chosen != true), _Answer(names[true], names[chosen], sure)


def _can_be_shown(data: TaskData, test: Examples) -> bool:
    return bool(data.texts) or np.issubdtype(test.inputs[0].dtype, np.floating)


def _values(series: np.ndarray) -> list[list[float | None]]:
    shown = series[:MOST_STEPS, :MOST_CHANNELS].T
    return [[None if np.isnan(value) else float(value) for value in channel] for channel in shown]
