"""Settings of labelled series."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from gatedrnn.data.settings import NO_CLASSES, NO_TOKENS, By, Frames, Names, NumberTableSettings, Seed


class SeriesSettings(NumberTableSettings):
    """Series of numbers with a class each, or with a number."""

    expert = (*NumberTableSettings.expert, "columns_are_steps", "split_seed", "weight_column")
    uses = ("convolution_size", "random_convolutions")
    refuses = NO_TOKENS

    train_file: Path | None = None
    """Training series: .ts (or .ts.gz); a CSV, TSV, JSON-lines or Parquet table with a row a time, or with a row a
    measurement (time, parameter, value); a CSV or TSV without names of columns, with a row a series, its class first;
    or a CSV that names WAV files, or files of measurements."""
    validation_file: Path | None = None
    """Validation series; a fraction of the training series if not given."""
    test_file: Path | None = None
    """Test series; a fraction of the training series if not given."""
    series_column: Names = ()
    """Column of the series' names in a table, or several that name a series together; guessed where one name is
    obvious."""
    time_column: Names = ()
    """Column of the times, or several with their parts; guessed where one name is obvious."""
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

    refuses = {**SeriesSettings.refuses, **NO_CLASSES}
