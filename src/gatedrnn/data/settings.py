"""Settings of the data: what those of all tasks share."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, field_validator

from gatedrnn.errors import nearest
from gatedrnn.tables.options import Absent, Decimal, DialectOptions, Duplicates, LastStep, Order, Thousands

LANGUAGE, SERIES, FORECAST = "language-model", "series-classification", "forecast"
SERIES_REGRESSION, TEXT = "series-regression", "text-classification"
TEXT_REGRESSION, TAGGING = "text-regression", "token-classification"
Seed = Annotated[int, Field(ge=0, lt=2**32)]
"""A seed that numpy, torch and scikit-learn all take."""
OF_TEXTS = ("character_grams", "word_vectors", "linear_path")
"""Settings of models that read texts and give each a label or a number."""
_NO_CLASSES = {
    "label_smoothing": ": the loss of {task} has none; leave it at 0",
    "class_weight": ": {task} has no classes; leave it out",
}
"""Refusals of tasks whose labels are no classes."""
_NOT_POOLED = {"pooling": " is of classifiers; leave it out with {task}"}
_NO_TOKENS = {"token_dropout": ": {task} has no unknown token; leave it at 0"}
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


def _as_several(numbers: object) -> object:
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


class ProbeTaskSettings(TaskSettings):
    """A probe: sequences drawn at random."""

    expert = ("labels", "curriculum", "split_seed")

    def check(self, train: Settings) -> None:
        given = train.model_dump()
        if self.curriculum > given["epochs"]:
            raise ValueError(
                f"--curriculum {self.curriculum}: sequences would still grow when training ends, after --epochs "
                f"{given['epochs']}; give a smaller one, or 0 for none"
            )
        from gatedrnn.data.probes import PROBES  # with numpy, which a help page does without

        if not PROBES[self.task].classes:
            for name, why in _NO_CLASSES.items():
                if given[name]:
                    raise ValueError(f"--{name.replace('_', '-')}{why.format(task=self.task)}")

    labels: Literal["every", "last"] = "every"
    """The steps to train and test on where every step has a label: all of them, or the last alone."""
    length: int = Field(20, ge=1)
    """Steps of a training sequence."""
    curriculum: int = Field(0, ge=0)
    """Epochs of 100 steps over which sequences grow to that length; 0: all have it from the start."""
    test_lengths: tuple[PositiveInt, ...] = ()
    """Further lengths to test; 4 times the training length if none is given."""
    split_seed: Seed = 0
    """Seed of the validation and test sequences."""


class DigitsSettings(TaskSettings):
    """scikit-learn's handwritten digits."""

    expert = ("validation_fraction", "test_fraction", "split_seed")

    steps: int = 8
    """8 steps of 8 features, or 64 steps of 1."""
    validation_fraction: float = Field(0.1, gt=0, lt=1)
    """Fraction of the training images used for validation."""
    test_fraction: float = Field(0.2, gt=0, lt=1)
    """Fraction of all images used for the test."""
    split_seed: Seed = 0
    """Seed of those splits."""

    @field_validator("steps")
    @classmethod
    def _rows_or_pixels(cls, steps: int) -> int:
        if steps not in (8, 64):
            raise ValueError("must be 8 (rows) or 64 (pixels)")
        return steps


class MnistSettings(TaskSettings):
    """MNIST, pixel by pixel, from its original files."""

    expert = ("validation_fraction", "split_seed")

    train_file: Path | None = None
    """The original file of training images, with the file of their labels in the same folder."""
    test_file: Path | None = None
    """The original file of test images, likewise."""
    permuted: bool = False
    """Permute the pixels: one random order for all images."""
    validation_fraction: float = Field(0.1, gt=0, lt=1)
    """Fraction of the training images used for validation."""
    split_seed: Seed = 0
    """Seed of that split and of the permutation."""


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


class TextSettings(TextFileSettings):
    """Text classification: AG News, or the user's own files."""

    several_labels: bool | None = None
    """A text has any number of labels: a list, or words with | between them. Found out if not given; it is asked for
    where a column could be either."""
    metric: (
        Literal["accuracy", "balanced-accuracy", "micro-f1", "macro-f1", "auroc", "average-precision", "log-loss"]
        | None
    ) = None
    """The metric that the best weights are chosen by, and that is reported first; accuracy if not given, micro-f1 where
    a text has several labels. auroc and average-precision of more than two classes or labels: their mean over these."""


class TextRegressionSettings(TextFileSettings):
    """Texts with a number each."""

    holds = "number"
    refuses = _NO_CLASSES
    metric: Literal["mae", "r2", "spearman"] = "mae"
    """The metric that the best weights are chosen by, and that is reported first: the mean absolute error, the share of
    variance that is explained, or the rank correlation."""


class TaggingSettings(TextFileSettings):
    """Texts as lists of words, with a tag for each word."""

    holds = "tags"
    uses = ()
    refuses = _NOT_POOLED
    metric: Literal["accuracy", "balanced-accuracy", "macro-f1", "log-loss"] = "accuracy"
    """The metric that the best weights are chosen by, and that is reported first; over all words."""


class SeriesSettings(NumberTableSettings):
    """Series of numbers with a class each, or with a number."""

    expert = (*NumberTableSettings.expert, "columns_are_steps", "split_seed", "weight_column")
    uses = ("convolution_size", "random_convolutions")
    refuses = _NO_TOKENS

    train_file: Path | None = None
    """Training series: .ts (or .ts.gz); a CSV, TSV, JSON-lines or Parquet table with a row a time, or with a row a
    measurement (time, parameter, value); a CSV or TSV without names of columns, with a row a series, its class first;
    or a CSV that names WAV files, or files of measurements."""
    validation_file: Path | None = None
    """Validation series; a fraction of the training series if not given."""
    test_file: Path | None = None
    """Test series; a fraction of the training series if not given."""
    series_column: str | None = None
    """Column of the series' names in a table; guessed where one name is obvious."""
    time_column: str | None = None
    """Column of the times; guessed where one name is obvious."""
    label_column: str | None = None
    """Column of the labels; guessed where one name is obvious."""
    frames: Frames = "log-mel"
    """Features of recordings: 40 bands of a spectrum on the mel scale, every 10 ms; their first 20 cepstral
    coefficients (mfcc); or the samples themselves."""
    data_root: Path | None = None
    """Folder of the files that a table names, and the only one they may lie in; the table's own if not given."""
    uneven: bool = False
    """Read the steps of a table with a row a time as far apart as the times say; tables of measurements always are read
    so."""
    columns_are_steps: bool = False
    """Read each row as a series, and each column of numbers but the label as a step of it, whatever the names."""
    metric: Literal["accuracy", "auroc"] = "accuracy"
    """The metric of two classes: the share of right answers, or the area under the ROC curve, for a rare class."""
    validation_fraction: float = Field(0.1, ge=0, lt=1)
    """Fraction of the training series used for validation, without --validation-file; 0 for none, where there are too
    few to choose weights by: all are learned from, and the last weights are taken."""
    test_fraction: float = Field(0.2, ge=0, lt=1)
    """Fraction of the training series used for the test, without --test-file; 0 for no test."""
    group: str | None = None
    """Column of what belongs together, such as a patient or a document: it is on one side of a split."""
    weight_column: str | None = None
    """Column of what each series counts in the loss, 0 or more: one number for all rows of a series."""
    split: By = "random"
    """Rows that are set apart are drawn, or the last in time."""
    split_seed: Seed = 0
    """Seed of those splits."""


class SeriesRegressionSettings(SeriesSettings):
    """Series of numbers with a number each."""

    refuses = {**SeriesSettings.refuses, **_NO_CLASSES}


class ForecastSettings(NumberTableSettings):
    """Series of numbers, to be forecast from their past."""

    uses = ("refit", "calibrate", "linear_size")
    refuses = {**_NO_CLASSES, **_NO_TOKENS, **_NOT_POOLED, "bidirectional": ": a forecast reads forwards alone"}

    expert = (
        *NumberTableSettings.expert, "duplicates", "absent", "zone", "last_step", "rows_are_steps", "columns_are_steps",
        "origins", "stride", "frequency",
        "train_steps", "validation_steps", "test_steps",
        "train_on",
    )  # fmt: skip

    train_file: Path | None = None
    """A CSV, TSV, JSON-lines or Parquet table: long, with a row for each series and time, or wide, with a row for each
    time. Without it: weekly carbon dioxide above Mauna Loa."""
    test_file: Path | None = None
    """The steps that follow those of --train-file; the last part of its times if not given."""
    target: Names = ()
    """Columns to forecast: one column of a long table; of a wide one, each column is a series. Guessed if not given: y,
    or all columns of a wide table."""
    series_column: Names = ()
    """Column of the series' names in a long table, or several such as store item; guessed where the table shows it."""
    time_column: Names = ()
    """Column of the times, dates or numbers, or several such as date hour; guessed where the table shows it."""
    known: Names = ()
    """Columns whose future is known: prices, holidays."""
    past: Names = ()
    """Columns whose past alone is known: other measurements."""
    fixed: Names = ()
    """Columns that a series has for all times."""
    calendar: tuple[Calendar, ...] = ()
    """Features of the dates: minute-of-hour, hour-of-day, day-of-week, day-of-month, day-of-year, month-of-year."""
    frequency: str | None = None
    """Step between times, such as 15min, h, D or MS, or a number; guessed from the times if not given."""
    duplicates: Duplicates | None = None
    """Row that stands for several of a series at one time; such rows are refused if not given."""
    absent: Absent = "missing"
    """Meaning of a time without a row: missing, that nothing was measured; zero, that nothing was sold or counted."""
    zone: str | None = None
    """Zone of local times, such as Europe/Berlin, whose clocks change; found if not given where an hour comes twice."""
    rows_are_steps: bool = False
    """Read each row as a step, whatever columns hold dates or numbers that rise."""
    columns_are_steps: bool = False
    """Read each row as a series, and each column of numbers as a step of it."""
    last_step: LastStep | None = None
    """Keep or drop the last step; if not given, one that is not over is dropped: a last value below half of all
    before."""
    horizon: int | None = Field(None, ge=1)
    """Steps to forecast; a season if not given, or 8 where none is usual or fits."""
    season: Annotated[tuple[PositiveInt, ...], BeforeValidator(_as_several)] = ()
    """Steps after which a pattern repeats, such as 24 168 of hours; guessed from the frequency and the training values
    if not given."""
    context: int | None = Field(None, ge=1)
    """Steps that a forecast is made from; if not given, two to four seasons, one and a half of the longest of several,
    120 at least, as far as the longest series has them."""
    quantiles: tuple[float, ...] = (0.1, 0.5, 0.9)
    """Quantiles to forecast, rising, with the median, 0.5, among them."""
    origins: int | None = Field(None, ge=1)
    """Forecasts in a window of training, each a step after the one before; the window is read once for all. If not
    given, one after each step, or of long horizons fewer."""
    stride: int | None = Field(None, ge=1)
    """Steps from one forecast of the validation and test parts to the next; the horizon if not given."""
    validation_fraction: float = Field(0.1, gt=0, lt=1)
    """Last part of each series' training steps that is used for validation; no less than the horizon."""
    test_fraction: float = Field(0.2, gt=0, lt=1)
    """Last part of each series' steps that is used for the test, without --test-file; no less than the horizon."""
    train_steps: int | None = Field(None, ge=1)
    """First steps of each series that are used for training; those after validation and test are left out."""
    validation_steps: int | None = Field(None, ge=1)
    """Steps of the validation part, in the place of the fraction."""
    test_steps: int | None = Field(None, ge=1)
    """Steps of the test part, likewise."""
    train_on: Literal["train", "train+validation", "all"] = "train"
    """Parts of each series that are trained on; those are not scored. What --refit does needs no flag."""

    @field_validator("quantiles")
    @classmethod
    def _with_the_median(cls, quantiles: tuple[float, ...]) -> tuple[float, ...]:
        if list(quantiles) != sorted(set(quantiles)) or 0.5 not in quantiles or quantiles[0] <= 0 or quantiles[-1] >= 1:
            raise ValueError("must rise, lie between 0 and 1 and hold 0.5, the median")
        return quantiles


class LanguageSettings(TaskSettings):
    """Language modelling on running text."""

    uses = ("tied",)
    refuses = {
        **_NO_CLASSES, **_NOT_POOLED, "bidirectional": ": a language model reads forwards alone",
        "members": " is of classifiers and forecasts; leave it out with {task}",
    }  # fmt: skip

    expert = (
        "hub_configuration", "streaming", "order", "document_start", "document_resets", "min_count", "vocabulary_size",
    )  # fmt: skip

    train_file: Path | None = None
    """Training text: .txt, .txt.gz, JSON lines or Parquet, a folder of them, or a pattern as 'books/*.txt'. Without it
    and without --hub: the reference of the Python language that help() shows."""
    validation_file: Path | None = None
    """Validation text; a fraction of the training text if not given."""
    test_file: Path | None = None
    """Test text; a fraction of the training text if not given."""
    text_column: str | None = None
    """Column of JSON lines or Parquet; guessed where one name is obvious."""
    hub: str | None = None
    """A data set on the Hugging Face hub, such as Salesforce/wikitext."""
    hub_configuration: str | None = None
    """Configuration of the data set, such as wikitext-2-v1."""
    streaming: bool = False
    """Read the rows of --hub as they arrive, with no copy on the disk but their tokens; once for the vocabulary and
    once for the tokens."""
    document_start: str | None = None
    """Regular expression that matches the beginning of a document's first line. Otherwise a text file is one document,
    and so is each row of another."""
    document_resets: bool = False
    """Reset the state at the beginning of each document, in training and evaluation."""
    length: int = Field(20, ge=1)
    """Tokens of truncated backpropagation through time; the state is carried from chunk to chunk."""
    order: Literal["lanes", "shuffled"] = "lanes"
    """lanes: each row of a batch goes on where it ended, its state carried along; shuffled: chunks in an order that
    follows from the seed and the epoch, each from the initial state."""
    tokenizer: Tokenizer = "words"
    """words: lower case, punctuation apart; whitespace: lower().split(); tokens: split(); bpe: subwords; characters;
    bytes. Learned on training data."""
    min_count: int = Field(2, ge=1)
    """Occurrences in the training split that a word or character needs to enter the vocabulary."""
    vocabulary_size: int = Field(16_000, ge=300)
    """bpe: size of the vocabulary at most."""
    validation_fraction: float = Field(0.1, gt=0, lt=1)
    """Fraction of the training text used for validation, without --validation-file."""
    test_fraction: float = Field(0.2, ge=0, lt=1)
    """Fraction of the training text used for the test, without --test-file; 0 for no test."""


def unknown_name(what: str, got: str, known: Iterable[str]) -> str:
    """A sentence for a name that does not exist, with the nearest that does."""
    names = list(known)
    hint = nearest(got, names)
    return f"unknown {what} {got!r}.{f' {hint[0].upper()}{hint[1:]}' if hint else ''} There are {', '.join(names)}"
