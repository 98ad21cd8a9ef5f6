"""Fields of tables as numbers, and the labelled series that they make."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from gatedrnn.data.settings import Decimal, Order
from gatedrnn.errors import DataError
from gatedrnn.records import Json

MISSING = (
    "", "?", ".", "-", "--", "na", "n/a", "#n/a", "#na", "<na>", "nan", "-nan", "null", "none",
)  # fmt: skip
"""Fields that say that nothing was measured, in small letters: as pandas, Excel and public data sets write them."""
LARGEST = 3.4e38
"""The largest number that is read: models run, and are exported, with numbers of 32 bits too."""
SHOWN = 60
"""Characters of a field in a message, at most."""
GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
"""1,234.5."""
GROUPED_BY_POINTS = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d*)?")
"""1.234,5."""
AROUND = re.compile(r"[\s$€£¥₩₹%]+")
"""Signs of currencies and of percent, and blanks, which change nothing of a number."""


class Fields(NamedTuple):
    """The way in which fields of a table are read, where they do not show it."""

    missing: tuple[str, ...] = ()
    """Fields that say that nothing was measured, beside `MISSING`."""
    decimal: Decimal | None = None
    """The mark before decimals."""
    date_order: Order | None = None
    """The order of day, month and year in dates that are numbers."""

    def missing_numbers(self) -> list[float]:
        """The words of `missing` that are numbers: a table may write -9999 as -9999.0, or hold it as a number."""
        numbers = list[float]()
        for word in self.missing:
            with suppress(ValueError):
                numbers.append(float(word))
        return numbers


AS_SHOWN = Fields()


Place: TypeAlias = Callable[[int], str]
"""A function that locates the field of a row for messages: file, row, column."""


def numbers_of(values: Sequence[object], place: Place, fields: Fields = AS_SHOWN) -> np.ndarray:
    """(rows,), float64; NaN where a field is empty or says that nothing was measured. Marks between thousands, signs of
    a currency and of percent are left out, and a number in brackets is negative.

    Raises:
        DataError: a field is no number, infinite, or too large; or commas may be before decimals or between thousands.
    """
    numbers, nothing = np.empty(len(values)), {*MISSING, *(word.lower() for word in fields.missing)}
    none = fields.missing_numbers()
    decimal = fields.decimal
    commas = dict[int, str]()
    for row, value in enumerate(values):
        if value is None or (str(value).strip().lower() in nothing):
            numbers[row] = np.nan
        elif not isinstance(value, str):
            numbers[row] = np.nan if value in none else number_of(value, place, row)
        elif "," in (text := _bare(value)) or decimal == ",":
            commas[row] = text
        else:
            numbers[row] = number_of(text, place, row, value)
    if commas:
        decimal = decimal or _decimal(commas, numbers, place)
        form, group, point = (GROUPED, ",", ".") if decimal == "." else (GROUPED_BY_POINTS, ".", ",")
        for row, text in commas.items():
            plain = text.replace(group, "").replace(point, ".") if form.fullmatch(text) else text
            numbers[row] = number_of(plain, place, row, values[row])
    return np.where(np.isin(numbers, none), np.nan, numbers) if none else numbers


def holds_words(values: Sequence[object], fields: Fields) -> bool:
    """Whether most fields of a column that say something are no numbers."""
    nothing = {*MISSING, *(word.lower() for word in fields.missing)}
    there = [value for value in values if value is not None and str(value).strip().lower() not in nothing]
    words = [value for value in there if isinstance(value, str) and not any(map(str.isdigit, value))]
    return len(words) * 2 > len(there)


def _bare(field: str) -> str:
    """A field without what stands around its number."""
    text = AROUND.sub("", field)
    return f"-{text[1:-1]}" if text[:1] == "(" and text[-1:] == ")" else text


def _decimal(commas: dict[int, str], plain: np.ndarray, place: Place) -> Decimal:
    """The mark before decimals, of fields that hold commas.

    Raises:
        DataError: they may be before decimals or between thousands.
    """
    if not all(map(GROUPED.fullmatch, commas.values())):
        return ","
    others = np.delete(plain, list(commas))
    if any(text.count(",") > 1 or "." in text for text in commas.values()) or (others != np.rint(others)).any():
        return "."
    row, text = next(iter(commas.items()))
    whole, rest = text.split(",")
    raise DataError(f"{place(row)}: {text} may be {whole}{rest} or {whole}.{rest}; give --decimal . or --decimal ,")


def number_of(value: object, place: Place, row: int, written: object = None) -> float:
    """A field that is there as a number.

    Args:
        written: as the table has it, for messages.

    Raises:
        DataError: it is none, infinite, or larger than `LARGEST`.
    """
    try:
        number = _number(value)
    except OverflowError:  # an integer of hundreds of digits
        number = math.inf
    except (TypeError, ValueError):
        shown = repr(value if written is None else written)
        raise DataError(f"{place(row)}: must be a number, got {shown[:SHOWN]}") from None
    if math.isinf(number):
        raise DataError(f"{place(row)}: {str(value)[:SHOWN]} is infinite")
    if abs(number) > LARGEST:
        raise DataError(f"{place(row)}: {number:g} is too large; numbers up to {LARGEST:g} are read")
    return number


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float(str(value))


def is_number(field: object) -> bool:
    """Whether a field is a finite number."""
    try:
        return math.isfinite(float(str(field)))
    except ValueError:
        return False


@dataclass(frozen=True, eq=False)
class LabelledSeries:
    """One file of series."""

    values: list[np.ndarray]
    """(time, channels), float64, or float32 of recordings whose samples fit it; NaN where a value is missing."""
    labels: list[str]
    """The labels as they are in the file; empty where it has none."""
    label_names: tuple[str, ...] | None
    """All of them in order, where the file says so."""
    channels: tuple[str, ...]
    places: list[str]
    """The place of each series in the file, for messages: "line 12", "id 7"."""
    source: dict[str, Json]
    """Name, rows and sha256, without any path."""
    times: list[np.ndarray] | None = None
    """(time,), rising: of the steps of uneven series; None where steps are equally far apart."""
    unit: str | None = None
    """The unit of these times: hours, or numbers of whatever they are."""
    rate: int | None = None
    """Samples a second, of recordings."""
    rows: list[np.ndarray] | None = None
    """(time,), from 1 on: of the steps of each series in a table with a row a time."""
    column: str = "series"
    """The column of the file that has the names of series."""
    names: list[str] | None = None
    """The name of each series in that column; None where the file has none and places are used instead."""
    groups: list[str] | None = None
    """The group that each series belongs to; None where no groups are asked for."""
    weights: np.ndarray | None = None
    """(series,): what each counts in the loss; None where no weights are asked for."""
    starts: np.ndarray | None = None
    """(series,): what rises with the time of each one's first step, in a table with a row a time."""
    said: str = ""
    """A line that says which columns of a table were taken as what; empty for a file without columns."""
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """The type of each column of the file, where it has types."""
    label_type: str | None = None
    """The type of the labels, by pyarrow's name; None of text."""

    def without_values(self) -> str | None:
        """A note on channels without any value, which are read as their mean of training; None if there is none."""
        empty = np.all([np.isnan(steps).all(0) for steps in self.values], axis=0)
        named = ", ".join(repr(self.channels[channel]) for channel in np.flatnonzero(empty))
        return f"{self.source['name']}: {named}: no value is there; the mean of training is read." if named else None
