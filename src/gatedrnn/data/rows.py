"""Rows of JSON and Parquet files, a row at a time or as columns; what a row holds is as the file says it."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gatedrnn.data.lines import check_width
from gatedrnn.errors import DataError, reason

Kind: TypeAlias = Literal["json", "parquet"]
COLUMN = "column"
"""The name of a column without one, before its number."""
MOST_FOOTER = 1 << 24
"""Bytes of a Parquet file's footer at most: it grows with columns times groups of rows, and is read as a whole."""


@dataclass(frozen=True)
class RawTable:
    """The columns of a table by name, all of one length, as they stand in it."""

    columns: dict[str, list[Any]]
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of classes by column, where a column holds numbers of classes."""
    sha256: str = ""
    """The sum of the file, or of all files of a folder."""

    @property
    def column_names(self) -> list[str]:
        return list(self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns[name]

    def without_header(self) -> "RawTable":
        """The table whose first line is a row, with the numbers of its columns as names."""
        named = {f"{COLUMN} {n}": [name, *values] for n, (name, values) in enumerate(self.columns.items(), start=1)}
        return RawTable(named, sha256=self.sha256)

    def rows(self) -> Iterator[dict[str, object]]:
        return (dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True))


def is_number_of_column(name: str) -> bool:
    """Whether a column bears its number, for want of a name."""
    word, _, number = name.partition(" ")
    return word == COLUMN and number.isdecimal()


def read_columns(path: Path, kind: Kind) -> RawTable:
    """A whole file. Of JSON, a row that lacks a column holds None there.

    Raises:
        DataError: it is no such file, or has no row.
    """
    if kind == "parquet":
        file = _parquet(path)
        with file:
            table, names = file.read(), _class_names(file.schema_arrow.metadata)
        return RawTable({name: _values(table[index]) for index, name in enumerate(table.column_names)}, names)
    columns, first, rows = dict[str, list[Any]](), dict[str, int](), 0
    for row in _objects(path):
        for name, value in row.items():
            values = columns.setdefault(name, [])
            before = rows - first.setdefault(name, rows)
            values.extend(repeat(None, before - len(values)))
            values.append(value)
        rows += 1
        check_width(len(columns), str(path))
    for name, values in columns.items():
        values[:0] = [None] * first[name]
        values.extend(repeat(None, rows - len(values)))
    if not columns:
        raise DataError(f"{path}: there are no rows in it")
    return RawTable(columns)


def names_of(path: Path, kind: Kind) -> list[str]:
    """The columns of a Parquet file, or of the first row of a JSON file.

    Raises:
        DataError: as `read_columns`.
    """
    if kind == "parquet":
        with _parquet(path) as file:
            return list(file.schema_arrow.names)
    first = next(_objects(path), None)
    if first is None:
        raise DataError(f"{path}: there are no rows in it")
    return list(first)


def values_of(path: Path, kind: Kind, column: str) -> Iterator[object]:
    """One column, a row at a time; None where a row lacks it.

    Raises:
        DataError: as `read_columns`.
    """
    if kind == "json":
        yield from (row.get(column) for row in _objects(path))
        return
    with _parquet(path) as file:
        for batch in file.iter_batches(columns=[column]):
            yield from batch.column(0).to_pylist()


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file with an object a line, or with one list of objects.

    Raises:
        DataError: it holds something else; the line is named.
    """
    with path.open("rb") as file:
        begin = file.read(8).removeprefix(b"\xef\xbb\xbf").lstrip()
    if begin[:1] not in (b"{", b"[", b""):
        raise DataError(f"{path}: cannot be read as json: it begins with {begin!r}, not with {{ or [")
    line = 0
    try:
        with path.open(encoding="utf-8-sig") as file:
            if begin[:1] == b"[":
                rows = json.load(file, object_pairs_hook=_unequal)
                yield from (_object(row, f"item {n}") for n, row in enumerate(rows, start=1))
                return
            for line, text in enumerate(file, start=1):
                if text.strip():
                    yield _object(json.loads(text, object_pairs_hook=_unequal), f"line {line}")
    except (ValueError, RecursionError) as error:  # of characters too, where the text is not UTF-8
        where = f"line {line}: " if line else ""
        raise DataError(f"{path}: cannot be read as json: {where}{reason(error)}") from error


def _object(row: object, place: str) -> dict[str, Any]:
    if not isinstance(row, dict) or not row:
        raise ValueError(f'{place} must hold an object, such as {{"text": "…"}}, got {json.dumps(row)[:30]}')
    return row


def _unequal(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"an object has {next(name for name in names if names.count(name) > 1)!r} twice")
    return fields


def _parquet(path: Path) -> pq.ParquetFile:
    with path.open("rb") as file:
        begins, _ = file.read(4), file.seek(-min(8, path.stat().st_size), os.SEEK_END)
        ends = file.read(8)
    footer = int.from_bytes(ends[:4], "little")
    if begins != b"PAR1" or ends[4:] != b"PAR1":
        raise DataError(f"{path}: cannot be read as parquet: it is no Parquet file, or not a whole one")
    if footer > MOST_FOOTER:
        raise DataError(
            f"{path}: its description of columns takes {footer:,} bytes, at most {MOST_FOOTER:,} are read; "
            "keep the columns of text and label"
        )
    return pq.ParquetFile(path)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; 0.1 in 32 bits is 0.1, as it was written."""
    if not pa.types.is_float32(column.type):
        return list(column.to_pylist())
    return [None if value is None else float(str(np.float32(value))) for value in column.to_pylist()]


def _class_names(metadata: Mapping[bytes, bytes] | None) -> dict[str, tuple[str, ...]]:
    """The names of classes that `datasets` writes beside a column of classes' numbers."""
    features = json.loads((metadata or {}).get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    held = {
        name: feature.get("feature", feature) if isinstance(feature, dict) else {} for name, feature in features.items()
    }
    return {
        name: tuple(of["names"])
        for name, of in held.items()
        if isinstance(of, dict) and of.get("_type") == "ClassLabel"
    }
