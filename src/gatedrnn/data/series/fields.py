"""Fields of tables as numbers."""

import math
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from gatedrnn.errors import DataError

MISSING = ("", "?", "na", "nan", "null", "none")
COMMA = re.compile(r"[+-]?\d+,\d+")
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


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float(str(value))
