"""Tables of whatever format, and the roles of their columns."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from glob import glob, has_magic
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa

from gatedrnn.data.rows import (
    RawTable,
    check_text,
    check_unequal,
    columns_of,
    ending_of,
    read_columns,
    read_fields,
    sheet_of,
)
from gatedrnn.errors import DataError, Error, is_panic, reason

Given = ParamSpec("Given")
Found = TypeVar("Found")
SHOWN = 30
"""Columns that a message names, at most."""
FORMATS = {
    ".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".json": "json", ".parquet": "parquet",
    **dict.fromkeys((".xlsx", ".xlsm", ".xls", ".ods"), "sheet"),
}  # fmt: skip
"""The formats of tables by their endings; a CSV or TSV may be packed, as .csv.gz."""
FILE = "(file)"
"""The column of a folder's tables that has the name of each, without its ending."""


FLAGS = {
    "series": "--series-column", "time": "--time-column", "label": "--label-column", "text": "--text-column",
    "target": "--target",
}  # fmt: skip
"""The flag that names each column."""
NESTED = (dict, list, bytes)


@contextmanager
def in_a_sentence(path: Path) -> Iterator[None]:
    """The boundary of all readers: whatever fails within leaves as an error of this package that names the file.

    Raises:
        DataError: reading failed in a way that no reader foresaw.
    """
    try:
        yield
    except Error:
        raise
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {(error.strerror or reason(error)).lower()}") from error
    except BaseException as error:
        if not (isinstance(error, Exception) or is_panic(error)):
            raise
        raise DataError(f"{path}: cannot be read: {type(error).__name__}: {reason(error)}") from error


def reader(read: Callable[Concatenate[Path, Given], Found]) -> Callable[Concatenate[Path, Given], Found]:
    """A function that reads the file it is given first, within the boundary."""

    @wraps(read)
    def within(path: Path, /, *given: Given.args, **named: Given.kwargs) -> Found:
        with in_a_sentence(path):
            return read(path, *given, **named)

    return within


@reader
def read_all_columns(path: Path, *, quoting: bool = False) -> RawTable:
    """A CSV, TSV, JSON-lines or Parquet file or a spreadsheet, every row and column of it; the fields of separated
    files and spreadsheets as text. Names of columns are without the blanks around them.

    Of a folder or a pattern, such as `sales/*.csv`, the rows of all tables in the order of their names, and in a column
    `FILE` the name of each.

    Args:
        quoting: whether a TSV's fields may stand in quotation marks.

    Raises:
        DataError: the file is missing, empty, unreadable, binary or not UTF-8; or files of a folder have other columns.
    """
    if is_several(path):
        return _one_below_another(path, [(file, _read(file, quoting)) for file in _tables_in(path)])
    return _read(path, quoting)


def is_several(path: Path) -> bool:
    """Whether a path is a folder, or a pattern of files."""
    return path.is_dir() or (not path.exists() and has_magic(str(path)))


def _tables_in(path: Path) -> list[Path]:
    paths = path.iterdir() if path.is_dir() else map(Path, glob(str(path), recursive=True))
    files = sorted(file for file in paths if file.is_file() and ending_of(file) in FORMATS)
    if not files:
        raise DataError(f"{path}: holds no file that ends in one of {', '.join(FORMATS)}")
    return files


def _one_below_another(path: Path, tables: list[tuple[Path, RawTable]]) -> RawTable:
    first, top = tables[0]
    for file, table in tables:
        if set(table.column_names) != set(top.column_names):
            unlike = sorted(set(table.column_names) ^ set(top.column_names))[0]
            raise DataError(
                f"{file}: column {unlike!r} is in one of it and {first.name} alone; tables of a folder are alike"
            )
        if FILE in table.column_names:
            raise DataError(f"{file}: has a column {FILE!r}, which names files of a folder; rename it")
    columns = {name: [value for _, table in tables for value in table[name]] for name in top.column_names}
    columns[FILE] = [
        file.name.removesuffix(".gz").rpartition(".")[0] for file, table in tables for _ in range(len(table))
    ]
    digests = "".join(f"{file.name} {table.sha256}\n" for file, table in tables)
    return RawTable(columns, top.class_names, hashlib.sha256(digests.encode()).hexdigest(), top.types)


def _read(path: Path, quoting: bool) -> RawTable:
    if not path.is_file():
        raise DataError(f"{path}: no such file" if not path.exists() else f"{path}: not a file")
    ending = ending_of(path)
    if ending not in FORMATS:
        raise DataError(f"{path}: the ending must be one of {', '.join(FORMATS)}, got {path.suffix or 'none'!r}")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty")
    format, classes, types = FORMATS[ending], dict[str, tuple[str, ...]](), dict[str, pa.DataType]()
    if format in ("csv", "sheet"):
        names, rows = read_fields(path, quoting=quoting) if format == "csv" else columns_of(path, sheet_of(path))
        columns = {name: [row[i] for _, row in rows] for i, name in enumerate(names)}
    else:
        if format == "json":
            check_text(path)
        data = read_columns(path, "parquet" if format == "parquet" else "json")
        names = [name.strip() for name in data.column_names]
        check_unequal(names, path)
        columns = dict(zip(names, data.columns.values(), strict=True))
        classes = {name.strip(): class_names for name, class_names in data.class_names.items()}
        types = {name.strip(): kind for name, kind in data.types.items()}
    with path.open("rb") as file:
        return RawTable(columns, classes, hashlib.file_digest(file, "sha256").hexdigest(), types)


def kind_of(value: object) -> str:
    """The kind of a value that is no text, in words."""
    name = type(value).__name__
    return {"dict": "an object", "list": "a list"}.get(name, name)


def missing(what: str, place: str, row: int, column: str) -> DataError:
    """The error of a row, from 1 on, that lacks what all rows must have: its label, or its name."""
    return DataError(f"{place}: row {row} has no {what} in column {column!r}; remove the row or fill it in")


def names_in_column(data: RawTable, place: str, column: str, what: str = "name") -> list[str]:
    """The names of series or groups in a column.

    Raises:
        DataError: a row has none, or holds an object, a list or bytes.
    """
    for row, value in enumerate(data[column], start=1):
        if value is None or value != value:  # NaN is not itself
            raise missing(what, place, row, column)
        if isinstance(value, NESTED):
            raise DataError(f"{place}: row {row}, column {column!r}: holds {kind_of(value)}, not a {what}")
    return [str(value) for value in data[column]]


def column_of(
    names: list[str], place: str, what: str, wanted: str | None, usual: tuple[str, ...], taken: Sequence[str] = ()
) -> str:
    """The column to read: the one asked for, or the only usual name there is of those that are not taken."""
    columns = _first(names)
    if wanted is not None:
        if wanted not in names:
            raise DataError(f"{place}: no column {wanted!r}; the file has {columns}")
        return wanted
    candidates = [name for name in names if name.lower() in usual and name not in taken]
    if len(candidates) != 1:
        seen = f"several could be it ({', '.join(candidates)})" if candidates else "none has a usual name"
        remedy = f"name it with {FLAGS[what]}" if what in FLAGS else f"call one of them {usual[0]}"
        raise DataError(f"{place}: which column is the {what}? {seen}; {remedy}. Columns: {columns}")
    return candidates[0]


WITHOUT_NAME = re.compile(r"|unnamed: \d+(_level_\d+|\.\d+)*|__index_level_\d+__", re.IGNORECASE)
"""The name of a column that pandas wrote for an index without a name."""
INDEX = re.compile(r"index|level_\d+", re.IGNORECASE)
MIN_ROWS = 10
"""The rows from which a column of another name counts by chance no longer."""


def without_row_numbers(data: RawTable, names: Sequence[str], keep: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Separate the columns to read from those that only count rows: columns without a name; those called index, and
    rising; or those holding 0, 1, 2, … or 1, 2, 3, … from the first row to the last, unless there is no other.

    Args:
        keep: names that are not left out, whatever they hold.
    """
    some = [name for name in names if name not in keep]
    left_out = {name for name in some if WITHOUT_NAME.fullmatch(name.strip()) or _is_index(data, name)}
    counts = {name for name in some if _counts(data[name])}
    left_out |= counts if left_out | counts != {*names} else set()
    return [name for name in names if name not in left_out], [name for name in names if name in left_out]


def _is_index(data: RawTable, name: str) -> bool:
    return INDEX.fullmatch(name.strip()) is not None and bool((_steps(data[name]) > 0).all())


def _counts(values: Sequence[object]) -> bool:
    return len(values) >= MIN_ROWS and str(values[0]) in ("0", "1") and set(_steps(values)) == {1}


def _steps(values: Sequence[object]) -> np.ndarray:
    """The differences from row to row; NaN where a column holds other things than numbers."""
    try:
        return np.diff(np.array([str(value) for value in values], np.float64))
    except ValueError:
        return np.array([np.nan])


def said_columns(
    name: object, roles: Mapping[str, str | Sequence[str] | None], names: Sequence[str], left_out: Sequence[str] = ()
) -> str:
    """A line on what was taken as what.

    Args:
        name: of the file.
        roles: columns by role; None and () where there is none.
        names: all columns; those without a role are not used.
        left_out: those of them that only count the rows.
    """
    listed = {role: [some] if isinstance(some, str) else list(some or ()) for role, some in roles.items()}
    taken = {column for columns in listed.values() for column in columns}
    listed["not used"] = [column for column in names if column not in taken and column not in left_out]
    listed["left out, as it only counts rows:"] = list(left_out)
    parts = [f"{role} {_first([*map(repr, columns)])}" for role, columns in listed.items() if columns]
    return f"Columns of {name}: {'; '.join(parts)}."


def _first(names: Sequence[str]) -> str:
    """The first names in a line, and how many more there are."""
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
