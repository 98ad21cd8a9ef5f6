"""What a task is made of: the settings that choose and shape the data."""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

TEXT_TASKS = ("ag_news", "text-classification")
TASKS = ("parity", "digits", *TEXT_TASKS)
TEXT_ONLY = ("train_file", "validation_file", "test_file", "text_column", "label_column")


def unknown_name(what: str, got: str, known: Iterable[str]) -> str:
    """One line for a name that does not exist, with the nearest that does."""
    names = list(known)
    near = difflib.get_close_matches(got, names, n=1)
    return f"unknown {what} {got!r}.{f' Did you mean {near[0]!r}?' if near else ''} There are {', '.join(names)}"


class Settings(BaseModel):
    """Settings that refuse unknown keys and never change once made."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


Seed = Annotated[int, Field(ge=0, lt=2**32)]
"""What numpy, torch and scikit-learn all take."""


class DataSettings(Settings):
    """The task and its data."""

    task: str = "digits"
    """parity, digits, ag_news or text-classification."""
    labels: Literal["every", "last"] = "every"
    """parity: a label at every step, or at the last step alone."""
    length: int = Field(20, ge=1)
    """parity: bits in a training sequence; evaluated at this length and at 4 times it."""
    steps: int = 8
    """digits: 8 steps of 8 features, or 64 steps of 1."""
    train_file: Path | None = None
    """Text tasks: a CSV, TSV, JSON-lines or Parquet file."""
    validation_file: Path | None = None
    """Text tasks; without it a part of the training file is set apart."""
    test_file: Path | None = None
    """Text tasks; without it a part of the training file is set apart (ag_news: the hub's own test split)."""
    text_column: str | None = None
    """Text tasks; guessed where one name is obvious."""
    label_column: str | None = None
    """Text tasks; guessed where one name is obvious."""
    tokenizer: Literal["words", "whitespace", "bpe"] = "words"
    """words: lower case, punctuation apart; whitespace: lower().split(); bpe: subwords. Learned on training data."""
    min_count: int = Field(2, ge=1)
    """Times that a word must occur in the training split to enter the vocabulary."""
    vocabulary_size: int = Field(16_000, ge=300)
    """bpe: tokens in the vocabulary at most."""
    max_tokens: int = Field(256, ge=1)
    """Text tasks: what is longer is cut off there, and counted in the report."""
    validation_fraction: float = Field(0.1, gt=0, lt=1)
    """Part of the training split set apart for validation, where no validation file is given."""
    test_fraction: float = Field(0.2, gt=0, lt=1)
    """Part of the training file set apart for the test, where no test file is given."""
    split_seed: Seed = 0
    """Seed of those splits."""

    @model_validator(mode="after")
    def _files_belong_to_text(self) -> "DataSettings":
        given = [name for name in TEXT_ONLY if getattr(self, name) is not None]
        if given and self.task not in TEXT_TASKS:
            raise ValueError(
                f"--{given[0].replace('_', '-')} belongs to the tasks {' and '.join(TEXT_TASKS)}, not to {self.task}; "
                "name one with --task"
            )
        return self

    @field_validator("steps")
    @classmethod
    def _rows_or_pixels(cls, steps: int) -> int:
        if steps not in (8, 64):
            raise ValueError("must be 8 (rows) or 64 (pixels)")
        return steps

    @field_validator("task")
    @classmethod
    def _known_task(cls, task: str) -> str:
        if task not in TASKS:
            raise ValueError(unknown_name("task", task, TASKS))
        return task
