"""A task of your own, the next event of a log: `gatedrnn train --task examples/own_task.py:NextEvent`."""

from collections import defaultdict
from pathlib import Path

import numpy as np
from pydantic import Field
from sklearn.model_selection import train_test_split

from gatedrnn.data import Examples, TaskData
from gatedrnn.data.registry import Recipe
from gatedrnn.data.settings import Seed, TableSettings
from gatedrnn.errors import DataError
from gatedrnn.tables.files import read_table
from gatedrnn.tables.table import Table
from gatedrnn.tasks.labelled import LabelledTask
from gatedrnn.training.answering import LabelAnswering
from gatedrnn.training.predict import Rows, class_names

UNKNOWN = 1  # 0 is padding


class NextEventSettings(TableSettings):
    """A log: a row for each event, in the order of time."""

    train_file: Path | None = None
    """Training log: CSV, TSV, JSON lines or Parquet."""
    case_column: str = "case"
    """Column of what the events belong to, such as an order or a patient."""
    event_column: str = "event"
    """Column of the events."""
    longest: int = Field(50, ge=1)
    """Events before the next one that are read at most."""
    validation_fraction: float = Field(0.1, gt=0, lt=1)
    """Fraction of the cases used for validation."""
    test_fraction: float = Field(0.2, gt=0, lt=1)
    """Fraction of the cases used for the test."""
    split_seed: Seed = 0
    """Seed of those splits."""


def read_log(table: Table, place: str, case: str, event: str) -> dict[str, list[str]]:
    """Return the events of each case, in the order of the rows."""
    lacking = next((name for name in (case, event) if name not in table.column_names), None)
    if lacking is not None:
        raise DataError(f"{place}: no column {lacking!r}. Columns: {', '.join(table.column_names)}")
    cases: dict[str, list[str]] = defaultdict(list)
    for row, (name, happened) in enumerate(zip(table[case], table[event], strict=True), start=1):
        if happened in (None, ""):
            raise DataError(f"{place}: row {row}, column {event!r}: is empty")
        cases[str(name)].append(str(happened))
    return dict(cases)


class NextEvent(LabelledTask[NextEventSettings]):
    """Each event of a log is predicted from those before it in the same case."""

    settings = NextEventSettings
    recipe = Recipe({
        "contenders": {"hidden_size": 64},
        "model": {"embedding_size": 32, "head_dropout": 0.1},
        "train": {"epochs": 10, "batch_size": 64, "learning_rate": 1e-2},
    })  # fmt: skip

    def read(self, settings):
        """Split the log by cases, so that no case is on two sides."""
        if settings.train_file is None:
            raise DataError("--train-file: give a log, with a row for each event")
        place = str(settings.train_file)
        table = read_table(settings.train_file, settings.dialect)
        cases = read_log(table, place, settings.case_column, settings.event_column)
        names = np.array(sorted(name for name, events in cases.items() if len(events) > 1))
        if len(names) < 10:
            raise DataError(f"{place}: {len(names)} cases have two events or more; 10 are needed to split them")
        rest, test = train_test_split(names, test_size=settings.test_fraction, random_state=settings.split_seed)
        train, validation = train_test_split(
            rest, test_size=settings.validation_fraction, random_state=settings.split_seed
        )
        events = sorted({event for name in train for event in cases[name]})
        number = {event: place for place, event in enumerate(events)}

        def examples(chosen):
            inputs, labels = [], []
            for name in chosen:
                tokens = encode(cases[name], events)
                for place in range(1, len(tokens)):
                    if cases[name][place] in number:  # an event that training lacks has no class
                        inputs.append(tokens[max(0, place - settings.longest) : place])
                        labels.append(number[cases[name][place]])
            return Examples(inputs, np.array(labels, np.int64))

        parts = {"train": examples(train), "validation": examples(validation), "test": examples(test)}
        return TaskData(
            name=settings.task,
            model_inputs={"vocab_size": len(events) + UNKNOWN + 1, "pad_token_id": 0, "unk_token_id": UNKNOWN},
            train=parts["train"],
            evaluation={"validation": parts["validation"], "test": parts["test"]},
            sources=[{"name": settings.train_file.name, "rows": len(table), "sha256": table.sha256}],
            label_names=tuple(events),
            notes=[f"{len(cases):,} cases of {len(events)} events: {', '.join(map(str, map(len, parts.values())))}."],
        )

    def answering(self):
        return NextEventAnswering


class NextEventAnswering(LabelAnswering):
    """The next event of each case of another log."""

    def rows(self, new, asked, *, labelled):
        table = read_table(new.source)
        cases = read_log(table, table.place, "case", asked.text_column or "event")
        events = class_names(self.finished.model.config)
        inputs = [encode(happened, events) for happened in cases.values()]
        return Rows(Table({"case": list(cases)}), inputs, None, [f"{len(cases):,} cases"])


def encode(happened: list[str], events: list[str]) -> np.ndarray:
    """Return events as token numbers, those that training lacks as unknown."""
    number = {event: place + UNKNOWN + 1 for place, event in enumerate(events)}
    return np.array([number.get(event, UNKNOWN) for event in happened], np.int64)
