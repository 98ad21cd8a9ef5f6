"""Tables without a line of names, as the UCR archive has them: a row a series, its class first, then its values."""

import hashlib
from functools import partial
from pathlib import Path

import numpy as np

from gatedrnn.data.lines import SEPARATORS, fields_of
from gatedrnn.data.series.fields import AS_SHOWN, MISSING, Fields, is_number, numbers_of
from gatedrnn.data.series.labelled import LabelledSeries
from gatedrnn.errors import DataError

FEWEST = 3
"""Fields of such a row."""


def is_unnamed(path: Path) -> bool:
    """Whether the first row of a CSV or TSV file holds values and no names: numbers, after a number or a word. Whole
    numbers after a word are names, such as years, and so are 0, 1, 2 …, which pandas gives to columns without one."""
    if path.suffix.lower() not in SEPARATORS or not path.is_file():
        return False
    first = next((row for _, row in fields_of(path, rows=1)), [])
    if len(first) < FEWEST or first == [str(number) for number in range(len(first))]:
        return False
    numbers = [float(field) for field in first[1:] if is_number(field)]
    others = [field for field in first[1:] if not is_number(field) and field.strip().lower() not in MISSING]
    return not others and (is_number(first[0]) or not all(map(float.is_integer, numbers)))


def read_unnamed(path: Path, fields: Fields = AS_SHOWN) -> LabelledSeries:
    """The series of such a file. Missing values at the end of a row are no part of its series, which is shorter.

    Raises:
        DataError: a field is no number, or a row has no class or no value; line and field are named.
    """
    values, labels, places = list[np.ndarray](), list[str](), list[str]()
    for line, row in fields_of(path):
        label = row[0].strip()
        if not label:
            raise DataError(f"{path}: line {line}, field 1: there is no class")
        numbers = numbers_of(row[1:], partial(_place, path, line), fields)
        seen = np.flatnonzero(~np.isnan(numbers))
        if not len(seen):
            raise DataError(f"{path}: line {line}: there is no value after the class")
        values.append(numbers[: seen[-1] + 1, None])
        labels.append(label)
        places.append(f"line {line}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return LabelledSeries(
        values, labels, None, ("0",), places, {"name": path.name, "rows": len(values), "sha256": digest}
    )


def _place(path: Path, line: int, field: int) -> str:
    return f"{path}: line {line}, field {field + 2}"
