"""Fields of tables as numbers."""

import math
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from gatedrnn.errors import DataError

MISSING = (
    "", "?", ".", "-", "--", "na", "n/a", "#n/a", "#na", "<na>", "nan", "-nan", "null", "none",
)  # fmt: skip
"""Fields that say that nothing was measured, in small letters: as pandas, Excel and public data sets write them."""
LARGEST = 3.4e38
"""What is read: models are given, and exported with, numbers of 32 bits too."""
SHOWN = 60
"""Characters of a field in a message, at most."""
COMMA = re.compile(r"[+-]?\d+,\d+")
Place: TypeAlias = Callable[[int], str]
"""Where the field of a row is, for messages: file, row, column."""


def numbers_of(values: Sequence[object], place: Place, missing: Sequence[str] = ()) -> np.ndarray:
    """(rows,), float64; NaN where a field is empty or says that nothing was measured.

    Args:
        missing: further fields that say so.

    Raises:
        DataError: a field is no number, infinite, or too large.
    """
    found, nothing = np.empty(len(values)), {*MISSING, *(word.lower() for word in missing)}
    for row, value in enumerate(values):
        if value is None or (str(value).strip().lower() in nothing):
            found[row] = np.nan
            continue
        found[row] = number_of(value, place, row)
    return found


def number_of(value: object, place: Place, row: int) -> float:
    """A field that is there as a number.

    Raises:
        DataError: it is none, infinite, or larger than `LARGEST`.
    """
    try:
        number = _number(value)
    except OverflowError:  # an integer of hundreds of digits
        number = math.inf
    except (TypeError, ValueError):
        point = "; write a point before the decimals" if COMMA.fullmatch(str(value).strip()) else ""
        raise DataError(f"{place(row)}: must be a number, got {repr(value)[:SHOWN]}{point}") from None
    if math.isinf(number):
        raise DataError(f"{place(row)}: {str(value)[:SHOWN]} is infinite")
    if abs(number) > LARGEST:
        raise DataError(f"{place(row)}: {number:g} is too large; numbers up to {LARGEST:g} are read")
    return number


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float(str(value))
