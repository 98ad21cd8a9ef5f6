"""Rows of files: lines of text and their fields, and the columns of tables."""

import csv
import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from io import TextIOWrapper
from itertools import repeat
from pathlib import Path
from typing import Any, Literal, TextIO, TypeAlias, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gatedrnn.data.spreadsheets import bounded
from gatedrnn.errors import DataError, reason
from gatedrnn.unpacking import BoundedGzip, check_table, parquet_batches

LOG = logging.getLogger("gatedrnn")
Numbered: TypeAlias = tuple[int, list[str]]
"""A row's fields after the number of its line."""
MAX_COLUMNS = 10_000
"""Columns of a table at most."""
EXCEL = re.compile(r"\s*\"?sep=(\t|[^\s\"])\"?\s*", re.IGNORECASE)
"""The first line of a file in which Excel notes the separator."""


SEPARATORS = {".csv": ",", ".tsv": "\t"}


def ending_of(path: Path) -> str:
    """A file's ending in small letters, without that of its packing."""
    packed = path.suffix.lower() == ".gz" and Path(path.stem).suffix.lower() in SEPARATORS
    return Path(path.stem).suffix.lower() if packed else path.suffix.lower()


def read_fields(path: Path, ending: str | None = None, *, quoting: bool = False) -> tuple[list[str], list[Numbered]]:
    """The names of a CSV or TSV file's columns, and its other rows that are not blank.

    Args:
        path: the file, in UTF-8.
        ending: whose separator it has, ".csv" or ".tsv"; its own if None.
        quoting: whether a TSV's fields may stand in quotation marks, as a CSV's always may.

    Raises:
        DataError: the file is binary or not UTF-8, there is no row, a field in quotation marks is not closed, two
            columns have one name, or a row has more or fewer fields than there are columns.
    """
    return columns_of(path, fields_of(path, ending, quoting=quoting))


def columns_of(path: Path, lines: list[Numbered]) -> tuple[list[str], list[Numbered]]:
    """Separate lines of fields into the names of columns and the rows, as `read_fields` does."""
    header, *rows = lines or [(0, [])]
    columns = [name.strip() for name in header[1]]
    if not columns:
        raise DataError(f"{path}: the file is empty but for blank lines")
    check_width(len(columns), str(path))
    check_unequal(columns, path)
    table = len(rows)
    while table and len(rows[table - 1][1]) < len(columns) and _is_note(rows[table - 1][1]):
        table -= 1
    if 0 < table < len(rows):
        LOG.warning("%s: line %d, below the table, is left out: %.60r", path, *_with_its_words(rows[table]))
        rows = rows[:table]
    for line, row in rows:
        if len(row) != len(columns):
            raise DataError(f"{path}: line {line}: must have {len(columns)} fields as the first line, got {len(row)}")
    return columns, rows


def _is_note(row: list[str]) -> bool:
    """Whether a row is words in one field; a number or a date is the begin of a row that was cut off."""
    said = [field for field in row if field.strip()]
    letters, digits = (sum(map(is_of, "".join(said))) for is_of in (str.isalpha, str.isdecimal))
    return not said or (len(said) == 1 and letters > max(digits, 3))


def _with_its_words(row: Numbered) -> tuple[int, str]:
    return row[0], " ".join(row[1]).strip()


def check_unequal(columns: list[str], path: Path) -> None:
    if len(set(columns)) != len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise DataError(f"{path}: two columns have the same name, {twice!r}")


def fields_of(
    path: Path, ending: str | None = None, *, quoting: bool = False, rows: int | None = None
) -> list[Numbered]:
    """The first rows of a CSV or TSV file that are not blank, all if None, each with its last line's number. Other args
    and errors: as `read_fields`."""
    check_text(path)
    csv.field_size_limit(sys.maxsize)  # the default refuses a long text
    ending = ending or ending_of(path)
    records, begins = list[Numbered](), 1
    with _opened(path, "utf-8-sig") as file:
        named = EXCEL.fullmatch(file.readline())
        if named is None:
            file.seek(0)
            separator = _separator(ending, file.readline())
            file.seek(0)
        else:  # a line that Excel writes for itself
            separator, begins = named[1], 2
        marks: Literal[0, 3] = csv.QUOTE_NONE if ending == ".tsv" and not quoting else csv.QUOTE_MINIMAL
        lines, before = csv.reader(file, delimiter=separator, strict=True, quoting=marks), begins - 1
        try:
            for row in lines:
                begins = before + lines.line_num + 1
                if row:
                    records.append((begins - 1, row))
                if len(records) == rows:
                    break
        except csv.Error as error:
            raise DataError(f"{path}: cannot be read as csv: the row that begins in line {begins}: {error}") from error
    return records


def _separator(ending: str, first_line: str) -> str:
    """The mark between two fields: a semicolon too, as spreadsheets write it where the comma is a decimal point."""
    usual = SEPARATORS[ending]
    return ";" if usual not in first_line and ";" in first_line else usual


def _opened(path: Path, encoding: str) -> TextIO:
    """A text file to read, unpacked where it is packed."""
    packed = BoundedGzip(path) if path.suffix.lower() == ".gz" else None
    return path.open(encoding=encoding, newline="") if packed is None else TextIOWrapper(packed, encoding, newline="")


def sheet_of(path: Path) -> list[Numbered]:
    """The lines of the first sheet of a spreadsheet that are not blank, fields as text.

    Raises:
        DataError: it is none, or holds nothing.
    """
    from python_calamine import CalamineError, CalamineWorkbook

    held = bounded(path)
    try:
        book = CalamineWorkbook.from_path(held) if isinstance(held, Path) else CalamineWorkbook.from_filelike(held)
        sheets = {name: book.get_sheet_by_name(name).to_python() for name in book.sheet_names}
    except CalamineError as error:
        raise DataError(f"{path}: cannot be read as a spreadsheet: {reason(error)}") from error
    name, rows = next(((name, rows) for name, rows in sheets.items() if rows), ("", []))
    if sum(map(bool, sheets.values())) > 1:
        LOG.warning("%s: the sheet %r is read, the others are not", path, name)
    used = [(number, row) for number, row in enumerate(rows, start=1) if row.count("") < len(row)]
    fields = [(number, [_as_text(value) for value in row]) for number, row in used]
    return [(number, row) for number, row in fields if any(row)]


def _as_text(value: object) -> str:
    """A cell of a spreadsheet as a CSV has it."""
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value).strip()


def check_text(path: Path) -> None:
    line = 0
    try:
        with _opened(path, "utf-8") as file:
            for line, text in enumerate(file, start=1):
                if "\0" in text:
                    raise DataError(f"{path}: line {line} holds a zero byte; this looks like a binary file")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 near line {line + 1} ({error.reason}); save it as UTF-8 first") from error


def check_width(count: int, place: str) -> None:
    """Refuse a table of more than `MAX_COLUMNS` columns, which no reader here is made for.

    Raises:
        DataError: it has more.
    """
    if count > MAX_COLUMNS:
        raise DataError(
            f"{place}: has {count:,} columns, at most {MAX_COLUMNS:,} are read; keep those of text and label"
        )


Kind: TypeAlias = Literal["json", "parquet"]
COLUMN = "column"
"""The name of a column without one, before its number."""
MAX_FOOTER = 1 << 24
"""Bytes of a Parquet file's footer at most: it grows with columns times groups of rows, and is read as a whole."""


@dataclass(frozen=True)
class RawTable:
    """The columns of a table by name, all of one length, as they stand in it."""

    columns: dict[str, list[Any]]
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of classes by column, where a column holds numbers of classes."""
    sha256: str = ""
    """The sum of the file, or of all files of a folder."""
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """The type of each column, where the file has types; of a column of classes, the type of their names."""

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
        _check_footer(path)
        schema = pq.read_schema(path)
        held: dict[str, list[Any]] = {name: [] for name in schema.names}
        for batch in parquet_batches(path):
            table = without_periods(pa.Table.from_batches([batch]))
            for name, column in zip(schema.names, table.columns, strict=True):
                held[name] += [value for chunk in column.chunks for value in _values(chunk)]
        types = {column.name: column.type for column in without_periods(schema.empty_table()).schema}
        classes = _classes(schema.metadata)
        return RawTable(
            held,
            {name: tuple(of["names"]) for name, of in classes.items()},
            types=types | {name: type_named(of.get("type", "string")) for name, of in classes.items()},
        )
    columns, first, rows = dict[str, list[Any]](), dict[str, int](), 0
    for row in _objects(path):
        for name, value in row.items():
            values = columns.setdefault(name, [])
            before = rows - first.setdefault(name, rows)
            values.extend(repeat(None, before - len(values)))
            values.append(value)
        rows += 1
        check_width(len(columns), str(path))
        check_table(path, rows, len(columns))
    for name, values in columns.items():
        values[:0] = [None] * first[name]
        values.extend(repeat(None, rows - len(values)))
    if not columns:
        raise DataError(f"{path}: there are no rows in it")
    kinds = {name: _type_of_json(values) for name, values in columns.items()}
    return RawTable(columns, types={name: kind for name, kind in kinds.items() if kind is not None})


def names_of(path: Path, kind: Kind) -> list[str]:
    """The columns of a Parquet file, or of the first row of a JSON file.

    Raises:
        DataError: as `read_columns`.
    """
    if kind == "parquet":
        _check_footer(path)
        return list(pq.read_schema(path).names)
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
    _check_footer(path)
    for batch in parquet_batches(path, [column]):
        yield from _values(batch.column(0))


Held = TypeVar("Held")
HALF = re.compile("[\ud800-\udfff]")
"""Half of a character, which is left where a text was cut in the middle of an emoji: no encoding holds it."""
WRITTEN_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""One as JSON writes it, or the begin of a whole character."""


def with_whole_characters(value: Held, place: str) -> Held:
    """A text, or a list or record with texts anywhere in it, with U+FFFD for each half of a character, and a warning.

    Example:
        >>> with_whole_characters(["a", "b \\ud83d"], "texts") == ["a", "b \\ufffd"]
        True
    """
    found = 0

    def mend(part: Any) -> Any:
        nonlocal found
        if isinstance(part, str):
            text, count = HALF.subn("\ufffd", part)
            found += count
            return text if count else part
        if isinstance(part, list):
            return [mend(each) for each in part]
        return {mend(name): mend(each) for name, each in part.items()} if isinstance(part, dict) else part

    mended = mend(value)
    if found:
        LOG.warning("%s: half a character, as of an emoji that was cut, is read as U+FFFD: %d times", place, found)
    return cast(Held, mended) if found else value


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
                rows = with_whole_characters(json.load(file, object_pairs_hook=_unequal), str(path))
                yield from (_object(row, f"item {n}") for n, row in enumerate(rows, start=1))
                return
            for line, text in enumerate(file, start=1):
                if text.strip():
                    row = json.loads(text, object_pairs_hook=_unequal)
                    if WRITTEN_HALF.search(text):
                        row = with_whole_characters(row, f"{path}: line {line}")
                    yield _object(row, f"line {line}")
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


def _check_footer(path: Path) -> None:
    """Check that a file ends with a footer of Parquet that may be read as a whole.

    Raises:
        DataError: it does not.
    """
    with path.open("rb") as file:
        begins, _ = file.read(4), file.seek(-min(8, path.stat().st_size), os.SEEK_END)
        ends = file.read(8)
    footer = int.from_bytes(ends[:4], "little")
    if begins != b"PAR1" or ends[4:] != b"PAR1":
        raise DataError(f"{path}: cannot be read as parquet: it is no Parquet file, or not a whole one")
    if footer > MAX_FOOTER:
        raise DataError(
            f"{path}: its description of columns takes {footer:,} bytes, at most {MAX_FOOTER:,} are read; "
            "keep the columns of text and label"
        )


def _values(column: pa.Array) -> list[Any]:
    """The values of a column, those of a dictionary each once in memory; 0.1 in 32 bits is 0.1, as it was written, and
    a duration is written as 31:15:00."""
    if pa.types.is_dictionary(column.type):
        values = column.dictionary.to_pylist()
        return [None if index is None else values[index] for index in column.indices.to_pylist()]
    if pa.types.is_duration(column.type):
        return [None if value is None else _clock(value) for value in column.to_pylist()]
    if not pa.types.is_float32(column.type):
        return list(column.to_pylist())
    return [None if value is None else float(str(np.float32(value))) for value in column.to_pylist()]


def _clock(value: timedelta) -> str:
    """A duration as hours, minutes and seconds."""
    nanoseconds = int(getattr(value, "value", value // timedelta(microseconds=1) * 1000))  # pandas' own has nanoseconds
    seconds, rest = divmod(abs(nanoseconds), 10**9)
    sign, fraction = "-" if nanoseconds < 0 else "", f".{rest:09}" if rest else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def without_periods(table: pa.Table) -> pa.Table:
    """A table in which each period of pandas, such as a month, is the timestamp at which it begins."""
    for number, column in enumerate(table.schema):
        told = column.metadata or {}
        name, said = told.get(b"ARROW:extension:name", b"").decode(), told.get(b"ARROW:extension:metadata", b"")
        ordinals = table[number]
        if isinstance(column.type, pa.ExtensionType):  # where pandas has said to pyarrow what they are
            name, said = column.type.extension_name, column.type.__arrow_ext_serialize__()
            ordinals = ordinals.cast(column.type.storage_type)
        if name == "pandas.period":
            import pandas as pd

            numbers = ordinals.fill_null(pd.NaT.value).to_numpy()
            begins = pd.PeriodIndex.from_ordinals(numbers, freq=json.loads(said)["freq"]).to_timestamp()
            table = table.set_column(number, column.name, pa.array(begins, from_pandas=True))
    return table


def type_kept(kind: pa.DataType | None) -> str | None:
    """The name of the type of a column of labels, or of each label of its lists; None of text, and of what a name does
    not tell.

    Example:
        >>> type_kept(pa.int8()), type_kept(pa.list_(pa.bool_())), type_kept(pa.string())
        ('int8', 'bool', None)
    """
    while kind is not None and (pa.types.is_dictionary(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        kind = kind.value_type
    are_plain = (
        pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_timestamp, pa.types.is_date,
        pa.types.is_duration, pa.types.is_decimal128,
    )  # fmt: skip
    return str(kind) if kind is not None and any(is_plain(kind) for is_plain in are_plain) else None


def type_named(name: str) -> pa.DataType:
    """The type that has a name: the inverse of `type_kept`."""
    if zoned := re.fullmatch(r"timestamp\[(\w+), tz=(.+)\]", name):
        return pa.timestamp(zoned[1], zoned[2])
    digits = re.fullmatch(r"decimal128\((\d+), (-?\d+)\)", name)
    return pa.type_for_alias(name) if digits is None else pa.decimal128(int(digits[1]), int(digits[2]))


JSON_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}


def _type_of_json(values: list[Any]) -> pa.DataType | None:
    """The type of a column that holds values of one type, or lists of them; None of text and of several types."""
    kinds = {type(item) for value in values for item in (value if isinstance(value, list) else (value,))}
    kinds.discard(type(None))
    return JSON_TYPES.get(kinds.pop()) if len(kinds) == 1 else None


def _classes(metadata: Mapping[bytes, bytes] | None) -> dict[str, dict[str, Any]]:
    """The classes that `datasets` writes beside a column of their numbers, by column: their `names`, and where this
    package wrote them the `type` of the names."""
    features = json.loads((metadata or {}).get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    held = {
        name: feature.get("feature", feature) if isinstance(feature, dict) else {} for name, feature in features.items()
    }
    return {name: of for name, of in held.items() if isinstance(of, dict) and of.get("_type") == "ClassLabel"}
