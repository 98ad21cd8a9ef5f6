"""Settings of running text."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from gatedrnn.data.settings import NO_CLASSES, NOT_POOLED, TaskSettings, Tokenizer


class LanguageSettings(TaskSettings):
    """Language modelling on running text."""

    uses = ("tied",)
    refuses = {
        **NO_CLASSES, **NOT_POOLED, "bidirectional": ": a language model reads forwards alone",
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
