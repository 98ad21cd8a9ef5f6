"""Options of a caller who reads a table that does not show by itself how it is written."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

Order: TypeAlias = Literal["month-day-year", "day-month-year", "year-month-day"]
Decimal: TypeAlias = Literal[".", ","]
Thousands: TypeAlias = Literal[".", ",", "'", " "]
Duplicates: TypeAlias = Literal["first", "last", "mean", "sum"]
"""The row that stands for several of one series at one time."""
Absent: TypeAlias = Literal["missing", "zero"]
"""The meaning of a time without a row: nothing was measured, or nothing was there."""
LastStep: TypeAlias = Literal["keep", "drop"]
COLUMN = "column"
"""The name of a column without one, before its number."""
MISSING = (
    "", "?", ".", "-", "--", "na", "n/a", "n.a.", "#n/a", "#nv", "#na", "<na>", "nan", "-nan", "null", "none", "n/e",
    "unknown", "unavailable",
)  # fmt: skip
"""Fields that say that nothing was measured, in small letters: as pandas, Excel, loggers and public
data sets write them."""


class DialectOptions(NamedTuple):
    """How CSV and TSV files are written; None where a file shows it."""

    encoding: str | None = None
    separator: str | None = None
    skip_lines: int | None = None
    """Lines above the header."""
    quoting: bool = False
    """Whether a TSV's fields may stand in quotation marks, as a CSV's always may."""


AS_SHOWN = DialectOptions()


class Fields(NamedTuple):
    """How fields of a table are read, where they do not show it."""

    missing: tuple[str, ...] = ()
    """Fields that say that nothing was measured, beside `MISSING`."""
    decimal: Decimal | None = None
    """The mark before decimals."""
    date_order: Order | None = None
    """The order of day, month and year in dates that are numbers."""
    thousands: Thousands | None = None
    """The mark between thousands."""


PLAIN = Fields()


def recorded_dialect(record: Mapping[str, object]) -> DialectOptions:
    """The options that a model has recorded of its training data."""
    named: dict[str, Any] = {name: record[name] for name in DialectOptions._fields if name in record}
    return DialectOptions(**named)
