"""hardest.json of a run: the test examples that its model is furthest off on, for its page to show."""

from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import Field

from gatedrnn import manifest
from gatedrnn.data import Examples, TaskData
from gatedrnn.train.finished import open_finished, outcomes_of
from gatedrnn.train.folder import RunFolder
from gatedrnn.train.predict import class_names, outputs_of
from gatedrnn.train.result import Record
from gatedrnn.train.so_far import data_of

SHOWN = 6
MOST_READ = 1000
"""Of the examples that were wrong, so many are read again to find the surest."""
MOST_STEPS, MOST_CHANNELS, MOST_LETTERS = 2000, 100, 300
"""Of an example that is shown."""


class Hard(Record):
    """One example."""

    row: int
    """Of the test split, from 1."""
    true: str
    predicted: str
    probability: float | None
    """That the model gave to its answer; None of a number."""
    words: str | None = None
    """Its beginning, of a text."""
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
    test = data.evaluation["test"]
    if not isinstance(test, Examples) or data.labelled != "sequence" or not _can_be_shown(data, test):
        return None
    outcomes = outcomes_of(path, data)["test"]
    is_number, are_errors = test.are_numbers, test.are_numbers and not test.within
    off = outcomes.values if are_errors else outcomes.counts - outcomes.values
    worst = np.argsort(-off, kind="stable")[: SHOWN if are_errors else MOST_READ]
    # Of ranks, what an example counts does not say whether its class was right.
    worst = np.arange(min(len(test), MOST_READ)) if test.ranked else worst[off[worst] > 0]
    finished = open_finished(path)
    gaps = None if test.gaps is None else [test.gaps[row] for row in worst]
    outputs = outputs_of(finished, [test.inputs[row] for row in worst], gaps)
    found = []
    for row, output in zip(worst.tolist(), outputs, strict=True):
        true, predicted, sure = f"{test.labels[row]:.4g}", f"{output[0]:.4g}", None
        if not is_number:
            names, shares = class_names(finished.model.config), np.exp(output - np.logaddexp.reduce(output))
            true, predicted = names[test.labels[row]], names[int(output.argmax())]
            sure = float(shares.max())
            if int(output.argmax()) == test.labels[row]:
                continue
        text = data.texts["test"].texts[row][:MOST_LETTERS] if data.texts else None
        values = [] if data.texts else _values(test.inputs[row])
        found.append(Hard(row=row + 1, true=true, predicted=predicted, probability=sure, words=text, values=values))
    found.sort(key=lambda one: -(one.probability or 0.0))  # of numbers, as they are
    hardest = Hardest(examples=found[:SHOWN])
    hardest.write(folder.hardest)
    manifest.add(path, folder.hardest.name)
    return hardest


def _can_be_shown(data: TaskData, test: Examples) -> bool:
    return bool(data.texts) or np.issubdtype(test.inputs[0].dtype, np.floating)


def _values(series: np.ndarray) -> list[list[float | None]]:
    shown = series[:MOST_STEPS, :MOST_CHANNELS].T
    return [[None if np.isnan(value) else float(value) for value in channel] for channel in shown]
