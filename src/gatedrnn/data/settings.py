"""Settings of the data: what those of all tasks share."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gatedrnn.errors import nearest
from gatedrnn.tables.options import Decimal, DialectOptions, Order, Thousands

LANGUAGE, SERIES, FORECAST = "language-model", "series-classification", "forecast"
SERIES_REGRESSION, TEXT = "series-regression", "text-classification"
TEXT_REGRESSION, TAGGING = "text-regression", "token-classification"
Seed = Annotated[int, Field(ge=0, lt=2**32)]
"""A seed that numpy, torch and scikit-learn all take."""
OF_TEXTS = ("character_grams", "word_vectors", "linear_path")
"""Settings of models that read texts and give each a label or a number."""
NO_CLASSES = {
    "label_smoothing": ": the loss of {task} has none; leave it at 0",
    "class_weight": ": {task} has no classes; leave it out",
}
"""Refusals of tasks whose labels are no classes."""
NOT_POOLED = {"pooling": " is of classifiers; leave it out with {task}"}
NO_TOKENS = {"token_dropout": ": {task} has no unknown token; leave it at 0"}
By: TypeAlias = Literal["random", "time"]
"""The rule that sets rows apart: drawn, or the last in time."""
Frames: TypeAlias = Literal["log-mel", "mfcc", "samples"]
Calendar: TypeAlias = Literal[
    "minute-of-hour", "hour-of-day", "day-of-week", "day-of-month", "day-of-year", "month-of-year"
]
Tokenizer: TypeAlias = Literal["words", "whitespace", "tokens", "bpe", "characters", "bytes"]
TextTokenizer: TypeAlias = Literal["words", "pieces", "whitespace", "tokens", "bpe", "characters", "bytes"]


def _as_names(names: object) -> object:
    """One name as several, and none as none."""
    return () if names is None else (names,) if isinstance(names, str) else names


def as_several(numbers: object) -> object:
    """One number as several."""
    return (numbers,) if isinstance(numbers, int) else numbers


Names = Annotated[tuple[str, ...], BeforeValidator(_as_names)]
"""Names of columns; one may be given as it is."""


class Settings(BaseModel):
    """Settings that refuse unknown keys and never change once made."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    expert: ClassVar[tuple[str, ...]] = ()
    """Fields that the command line shows with --help-all alone."""


class TaskSettings(Settings):
    """The base of the settings of all tasks."""

    uses: ClassVar[tuple[str, ...]] = ()
    """Settings of the model and the training that only some tasks have, this one among them."""
    refuses: ClassVar[Mapping[str, str]] = {}
    """Settings of the model and the training that mean nothing here: after the flag's name, why and what to do."""

    task: str
    """A probe (parity, s3, mqar, adding, …), digits, mnist, ag_news, text-classification, text-regression,
    token-classification, series-classification, series-regression, forecast or language-model; or a class of a Python
    file, as in FILE.py:CLASS."""

    def check(self, train: Settings) -> None:
        """Check settings of the training, `gatedrnn.training.settings.TrainSettings`, against these.

        Raises:
            ValueError: two of them do not go together; their flags are named.
        """


class TableSettings(TaskSettings):
    """Tables of the user, and how their fields are written where they do not show it."""

    expert: ClassVar[tuple[str, ...]] = ("encoding", "separator", "skip_lines", "quoting", "date_order")

    encoding: str | None = None
    """Encoding of CSV and TSV files, such as cp949 or latin-1. If not given: UTF-8; where a file is not, cp949, cp932
    or gb18030 by its letters, else cp1252, and a line says which."""
    separator: str | None = Field(None, min_length=1, max_length=1)
    """Mark between two fields of CSV and TSV files; found if not given: a comma, semicolon, tab or bar."""
    skip_lines: int | None = Field(None, ge=0)
    """Lines above the line of names; found if not given."""
    quoting: bool = False
    """Read quotation marks around fields of a TSV as those of a CSV. Otherwise a mark is a character."""
    date_order: Order | None = None
    """Order of day, month and year in dates such as 1/2/2024, where the column does not tell."""

    @property
    def dialect(self) -> DialectOptions:
        """The settings of how files are written."""
        return DialectOptions(self.encoding, self.separator, self.skip_lines, self.quoting)


class NumberTableSettings(TableSettings):
    """Tables of numbers."""

    expert: ClassVar[tuple[str, ...]] = (*TableSettings.expert, "missing", "decimal", "thousands")

    missing: Names = ()
    """Values that mean that nothing was measured, such as -1, beside empty fields, NA, NaN, ?, - and the like."""
    decimal: Decimal | None = None
    """Mark before decimals, where 1,234 could mean either."""
    thousands: Thousands | None = None
    """Mark between thousands, where a column does not show it."""


class TextFileSettings(TableSettings):
    """Files of texts, whatever is predicted of each."""

    holds: ClassVar[Literal["class", "number", "tags"]] = "class"
    """The label of a row: one class or several, a number, or a tag for each word."""
    uses: ClassVar[tuple[str, ...]] = OF_TEXTS
    expert = (*TableSettings.expert, "min_count", "vocabulary_size", "split_seed", "weight_column")

    train_file: Path | None = None
    """Training rows: CSV, TSV, JSON lines or Parquet."""
    validation_file: Path | None = None
    """Validation rows; a fraction of the training rows if not given."""
    test_file: Path | None = None
    """Test rows; a fraction of the training rows if not given (ag_news: the hub's own test split)."""
    text_column: str | None = None
    """Column of the texts; guessed where one name is obvious."""
    label_column: Names = ()
    """Column of the labels; guessed where one name is obvious. text-classification: or several columns of 0 and 1, each
    a label that a text has or has not."""
    time_column: str | None = None
    """Column of the times of --split time; guessed where one name is obvious."""
    tokenizer: TextTokenizer = "words"
    """words: lower case, punctuation apart; pieces: the same, and an unknown word is read as its longest known pieces;
    whitespace: lower().split(); tokens: split(); bpe: subwords; characters; bytes. Learned on training data."""
    min_count: int = Field(2, ge=1)
    """Occurrences in the training split that a word or character needs to enter the vocabulary."""
    vocabulary_size: int = Field(16_000, ge=300)
    """bpe: size of the vocabulary at most."""
    max_tokens: int = Field(256, ge=0)
    """Longer texts are cut there, in training as in `predict`, and counted in the report; 0: all are read whole."""
    validation_fraction: float = Field(0.1, ge=0, lt=1)
    """Fraction of the training rows used for validation, without --validation-file; 0 for none: all are learned from,
    and the last weights are taken."""
    test_fraction: float = Field(0.2, ge=0, lt=1)
    """Fraction of the training rows used for the test, without --test-file; 0 for no test."""
    group: str | None = None
    """Column of what belongs together, such as a patient or a document: it is on one side of a split."""
    weight_column: str | None = None
    """Column of what each row counts in the loss, 0 or more."""
    split: By = "random"
    """Rows that are set apart are drawn, or the last in time."""
    split_seed: Seed = 0
    """Seed of those splits."""


def unknown_name(what: str, got: str, known: Iterable[str]) -> str:
    """A sentence for a name that does not exist, with the nearest that does."""
    names = list(known)
    hint = nearest(got, names)
    return f"unknown {what} {got!r}.{f' {hint[0].upper()}{hint[1:]}' if hint else ''} There are {', '.join(names)}"
