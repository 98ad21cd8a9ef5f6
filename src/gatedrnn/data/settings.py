"""What a task is made of: the settings that choose and shape the data."""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, field_validator, model_validator

from gatedrnn.data.probes import PROBES

TEXT_TASKS = ("ag_news", "text-classification")
LANGUAGE = "language-model"
TASKS = (*PROBES, "digits", "mnist", *TEXT_TASKS, LANGUAGE)
BELONGS = {
    **dict.fromkeys(("train_file", "test_file"), ("mnist", *TEXT_TASKS, LANGUAGE)),
    **dict.fromkeys(("validation_file", "text_column"), (*TEXT_TASKS, LANGUAGE)),
    "label_column": TEXT_TASKS,
    **dict.fromkeys(("hub", "hub_configuration", "document_start", "document_resets"), (LANGUAGE,)),
    **dict.fromkeys(("labels", "curriculum", "test_lengths"), tuple(PROBES)),
    "permuted": ("mnist",),
}
"""Settings that mean something to some tasks alone."""


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
    """A probe (parity, s3, mqar, adding, …), digits, mnist, ag_news, text-classification or language-model."""
    labels: Literal["every", "last"] = "every"
    """Probes with a label at every step: all of them, or the last alone."""
    length: int = Field(20, ge=1)
    """Probes: steps of a training sequence. language-model: tokens through which a gradient goes back; the state is
    carried on."""
    curriculum: int = Field(0, ge=0)
    """Probes: epochs of 100 steps over which sequences grow to that length; 0: all have it from the start."""
    test_lengths: tuple[PositiveInt, ...] = ()
    """Probes: further lengths of the test; 4 times the training length if none is given."""
    steps: int = 8
    """digits: 8 steps of 8 features, or 64 steps of 1."""
    permuted: bool = False
    """mnist: the pixels in an order drawn at random, the same for all images."""
    train_file: Path | None = None
    """Text tasks: a CSV, TSV, JSON-lines or Parquet file; language-model: .txt, .txt.gz, JSON lines or Parquet; mnist:
    the original file of images, with that of labels beside it."""
    validation_file: Path | None = None
    """Text tasks; without it a part of the training file is set apart."""
    test_file: Path | None = None
    """Text tasks; without it a part of the training file is set apart (ag_news: the hub's own test split)."""
    text_column: str | None = None
    """Text tasks; guessed where one name is obvious."""
    label_column: str | None = None
    """Text tasks but language-model; guessed where one name is obvious."""
    hub: str | None = None
    """language-model: a data set on the Hugging Face hub, such as Salesforce/wikitext. Without it and without files:
    the reference of the Python language that help() shows."""
    hub_configuration: str | None = None
    """language-model: which of the data set's configurations, such as wikitext-2-v1."""
    document_start: str | None = None
    """language-model: regular expression that matches the beginning of a document's first line. Otherwise a text file
    is one document, and so is each row of another."""
    document_resets: bool = False
    """language-model: in training and evaluation, the state begins anew with each document."""
    tokenizer: Literal["words", "whitespace", "tokens", "bpe", "characters", "bytes"] = "words"
    """words: lower case, punctuation apart; whitespace: lower().split(); tokens: split(); bpe: subwords; characters;
    bytes. Learned on training data."""
    min_count: int = Field(2, ge=1)
    """Times that a word or character must occur in the training split to enter the vocabulary."""
    vocabulary_size: int = Field(16_000, ge=300)
    """bpe: tokens in the vocabulary at most."""
    max_tokens: int = Field(256, ge=1)
    """Text tasks: what is longer is cut off there, and counted in the report."""
    validation_fraction: float = Field(0.1, gt=0, lt=1)
    """Part of the training split set apart for validation, where no validation file is given."""
    test_fraction: float = Field(0.2, ge=0, lt=1)
    """Part of the training file set apart for the test, where no test file is given; 0 (language-model): no test."""
    split_seed: Seed = 0
    """Seed of those splits."""

    @model_validator(mode="after")
    def _fits_the_task(self) -> "DataSettings":
        for name, tasks in BELONGS.items():
            if getattr(self, name) != type(self).model_fields[name].default and self.task not in tasks:
                raise ValueError(
                    f"--{name.replace('_', '-')} belongs to {' and '.join(tasks)}, not to {self.task}; "
                    "name one with --task"
                )
        if not self.test_fraction and self.task != LANGUAGE:
            raise ValueError(f"--test-fraction: {self.task} needs a test split; give a fraction above 0")
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
