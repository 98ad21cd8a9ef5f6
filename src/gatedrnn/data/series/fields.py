"""Fields of tables as numbers and as times."""

import math
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from gatedrnn.errors import DataError

MISSING = ("", "?", "na", "nan", "null", "none")
CLOCK = re.compile(r"(\d+):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?")
COMMA = re.compile(r"[+-]?\d+,\d+")
DATE = re.compile(r"\d{4}-\d\d-\d\d")
Place: TypeAlias = Callable[[int], str]
"""Where the field of a row is, for messages: file, row, column."""


def numbers_of(values: Sequence[object], place: Place, missing: Sequence[str] = ()) -> np.ndarray:
    """(rows,), float64; NaN where a field is empty or says that nothing was measured.

    Args:
        missing: further fields that say so.

    Raises:
        DataError: a field is no number, or infinite.
    """
    found, nothing = np.empty(len(values)), {*MISSING, *(word.lower() for word in missing)}
    for row, value in enumerate(values):
        if value is None or (str(value).strip().lower() in nothing):
            found[row] = np.nan
            continue
        try:
            number = _number(value)
        except (TypeError, ValueError):
            point = "; write a point before the decimals" if COMMA.fullmatch(str(value).strip()) else ""
            raise DataError(f"{place(row)}: must be a number, got {value!r}{point}") from None
        if math.isinf(number):
            raise DataError(f"{place(row)}: {value} is infinite")
        found[row] = number
    return found


def times_of(values: Sequence[object], place: Place) -> np.ndarray:
    """(rows,), in the order of time: numbers as they are, 07:30 or 31:15:00 as hours since a beginning, dates as numpy
    has them.

    Raises:
        DataError: a field is none of these, or not the same as the first.
    """
    clocks = [CLOCK.fullmatch(str(value).strip()) for value in values]
    if len(clocks) and clocks[0]:
        hours = np.empty(len(values))
        for row, clock in enumerate(clocks):
            if clock is None:
                raise DataError(f"{place(row)}: {values[row]!r} is no time of hours and minutes as the first one")
            hours[row] = int(clock[1]) + int(clock[2]) / 60 + float(clock[3] or 0) / 3600
        return hours
    try:
        numbers = np.array([_number(value) for value in values])
    except (TypeError, ValueError):
        pass
    else:
        return _each_known(numbers, np.isnan(numbers), place)
    dates = np.empty(len(values), "datetime64[us]")
    for row, value in enumerate(values):
        try:
            dates[row] = np.datetime64(str(value).strip().replace("/", "-").removesuffix("Z"), "us")
        except ValueError:
            raise DataError(
                f"{place(row)}: {value!r} is neither a number nor a date such as 2024-01-31 18:00"
            ) from None
    return _each_known(dates, np.isnat(dates), place)


def is_date(value: object) -> bool:
    """Whether a field is a date, with year, month and day."""
    text = str(value).strip().replace("/", "-").removesuffix("Z")
    if not DATE.match(text):
        return False
    try:
        return not np.isnat(np.datetime64(text, "us"))
    except ValueError:
        return False


def hours_of(times: np.ndarray) -> np.ndarray:
    """(rows,), float64: dates as hours since the first of them; numbers as they are."""
    if np.issubdtype(times.dtype, np.datetime64):
        return (times - times.min()) / np.timedelta64(1, "h")
    return times


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float(str(value))


def _each_known(times: np.ndarray, missing: np.ndarray, place: Place) -> np.ndarray:
    if missing.any():
        raise DataError(f"{place(int(missing.argmax()))}: there is no time")
    return times
