"""Settings of forecasts."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PositiveInt, field_validator

from gatedrnn.data.settings import NO_CLASSES, NO_TOKENS, NOT_POOLED, Calendar, Names, NumberTableSettings, as_several
from gatedrnn.tables.options import Absent, Duplicates, LastStep


class ForecastSettings(NumberTableSettings):
    """Series of numbers, to be forecast from their past."""

    uses = ("refit", "calibrate", "linear_size")
    refuses = {**NO_CLASSES, **NO_TOKENS, **NOT_POOLED, "bidirectional": ": a forecast reads forwards alone"}

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
    season: Annotated[tuple[PositiveInt, ...], BeforeValidator(as_several)] = ()
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
