"""Files of the UCR and UEA archives: a row a series without names, its class first, or .ts: a header of @ lines, then a
series a line.

    @dimensions 2
    @classLabel true sit run
    @data
    0.1,0.2,0.3:5,?,6:sit

Colons separate channels, commas values; ? and NaN are missing; the label comes last.
"""

import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from gatedrnn.data.rows import SEPARATORS, fields_of
from gatedrnn.data.series.fields import (
    AS_SHOWN,
    MISSING,
    SHOWN,
    Fields,
    LabelledSeries,
    is_number,
    number_of,
    numbers_of,
)
from gatedrnn.errors import DataError
from gatedrnn.unpacking import BoundedGzip

TRUE, FALSE = "true", "false"
ABSENT = ("?", "nan")
COUNTS = ("dimensions", "dimension", "serieslength")
"""Lines of the header that hold a whole number."""


def read_ts(path: Path, *, labelled: bool = True) -> LabelledSeries:
    """The series of a .ts or .ts.gz file, which may be of unequal lengths.

    Raises:
        DataError: it is missing, no text, without a label, or not what its header says; the line and the channel are
            named.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file" if not path.exists() else f"{path}: not a file")
    header: dict[str, list[str]] = {}
    values, labels, places = list[np.ndarray](), list[str](), list[str]()
    begun = False
    for number, line in _lines(path):
        if not begun and line.startswith("@"):
            name, *words = line[1:].split() or [""]
            begun = name.lower() == "data"
            header[name.lower()] = words
            if not name:
                raise DataError(f"{path}: line {number}: has no name after its @")
            if name.lower() in COUNTS and (len(words) != 1 or not words[0].isdecimal()):
                got = " ".join(words)[:SHOWN] or "nothing"
                raise DataError(f"{path}: line {number}: @{name} must be followed by a whole number, got {got}")
        elif begun:
            place = f"line {number}"
            if labelled and not _has_labels(header):
                raise DataError(
                    f"{path}: {place}: the header promises no label (@classLabel true, or @targetLabel true)"
                )
            series, label = _series(f"{path}: {place}", line, header, values)
            values.append(series)
            labels += [] if label is None else [label]
            places.append(place)
        else:
            raise DataError(f"{path}: line {number}: must begin with @ before @data, got {line[:30]!r}")
    if not values:
        raise DataError(f"{path}: there are no series in it" if begun else f"{path}: has no @data line; no .ts file")
    named = header.get("classlabel", [])[1:]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return LabelledSeries(
        values, labels, tuple(named) or None, tuple(str(n) for n in range(values[0].shape[1])), places,
        {"name": path.name, "rows": len(values), "sha256": digest},
    )  # fmt: skip


def is_regression(path: Path) -> bool:
    """Whether the labels of such a file are numbers, by its header."""
    header: dict[str, list[str]] = {}
    for _, line in _lines(path):
        name, *words = line[1:].split() or [""]
        if not line.startswith("@") or name.lower() == "data":
            break
        header[name.lower()] = words
    return _is(header, "targetlabel")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered from 1, without comments and empty lines."""
    try:
        content = BoundedGzip(path).read() if path.suffix == ".gz" else path.read_bytes()
        text = content.decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as .ts: {error}") from error
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith(("#", "%")):
            yield number, line.strip()


def _series(
    where: str, line: str, header: dict[str, list[str]], before: list[np.ndarray]
) -> tuple[np.ndarray, str | None]:
    """One line as (time, channels) and its label."""
    if _is(header, "timestamps"):
        raise DataError(f"{where}: series with time stamps are not read; give a table with a row a time")
    parts = line.split(":")
    label = parts.pop().strip() if _has_labels(header) else None
    dimensions = 1 if _is(header, "univariate") else int(header.get("dimensions", header.get("dimension", ["0"]))[0])
    if dimensions and len(parts) != dimensions:
        raise DataError(f"{where}: the header says {dimensions} channels, the line has {len(parts)}")
    if before and len(parts) != before[0].shape[1]:
        raise DataError(f"{where}: has {len(parts)} channels, the first series has {before[0].shape[1]}")
    if not parts:
        raise DataError(f"{where}: holds a label and no values")
    channels = [_numbers(f"{where}, channel {number}", part) for number, part in enumerate(parts, start=1)]
    lengths = {len(channel) for channel in channels}
    if len(lengths) > 1:
        raise DataError(f"{where}: channels of unequal lengths, {' and '.join(map(str, sorted(lengths)))}")
    series = np.stack(channels, axis=1)
    length = header.get("serieslength")
    if _is(header, "equallength") and length is not None and int(length[0]) != len(series):
        raise DataError(f"{where}: has {len(series)} values, the header says {length[0]}")
    if [word.lower() for word in header.get("missing", [])] == [FALSE] and np.isnan(series).any():
        raise DataError(f"{where}: a value is missing, and the header says that none is")
    named = header.get("classlabel", [])[1:]
    if named and label is not None and label not in named:
        raise DataError(f"{where}: the label {label!r} is none of the header's: {', '.join(named)}")
    return series, label


def _numbers(where: str, text: str) -> np.ndarray:
    fields = [field.strip() for field in text.split(",")]

    def place(value: int) -> str:
        return f"{where}, value {value + 1}"

    return np.array([
        np.nan if field.lower() in ABSENT else number_of(field, place, value) for value, field in enumerate(fields)
    ])  # fmt: skip


def _has_labels(header: dict[str, list[str]]) -> bool:
    return _is(header, "classlabel") or _is(header, "targetlabel")


def _is(header: dict[str, list[str]], name: str) -> bool:
    return [word.lower() for word in header.get(name, [])[:1]] == [TRUE]


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
