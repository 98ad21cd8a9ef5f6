"""Files of tables, whatever their format, as one table; and the roles that columns have by their names."""

import hashlib
import json
import logging
import mmap
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, time
from functools import wraps
from glob import glob, has_magic
from itertools import islice, repeat
from pathlib import Path
from time import time_ns
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gatedrnn.errors import DataError, Error, Question, is_panic, reason
from gatedrnn.tables.dialect import (
    SEPARATORS,
    Content,
    check_names,
    check_width,
    parse,
    parted_by_blanks,
    rows_of,
    table_of_rows,
)
from gatedrnn.tables.numbers import is_number
from gatedrnn.tables.options import AS_SHOWN, DialectOptions
from gatedrnn.tables.sheets import bounded
from gatedrnn.tables.table import WRITTEN_HALF, Table, type_of_json, values_of_column, with_whole_characters
from gatedrnn.unpacking import BoundedGzip, check_table, parquet_batches

LOG = logging.getLogger("gatedrnn")
Given = ParamSpec("Given")
Found = TypeVar("Found")
Source: TypeAlias = Path | Table
"""A file, a folder or a pattern of files; or a table in memory."""
Where = TypeVar("Where", bound=Source)
Kind: TypeAlias = Literal["json", "parquet"]
SHOWN, _MAX_ASKED = 30, 6
"""Columns that a message names, at most."""
FORMATS = {
    **dict.fromkeys(SEPARATORS, "csv"), ".jsonl": "json", ".json": "json", ".parquet": "parquet",
    **dict.fromkeys((".xlsx", ".xlsm", ".xls", ".ods"), "sheet"),
}  # fmt: skip
"""The formats of tables by their endings; a CSV or TSV may be packed, as .csv.gz."""
_OF_ANY_TEXT = (".txt", ".dat")
"""Endings of files of which few are tables."""
FILE, FOLDER = "(file)", "(folder)"
"""Columns of several tables: the name of each without its ending, with its folder where several have one name; and the
name of its folder, the one nearest to that of all, where they lie in several."""
_MAX_FOOTER = 1 << 24
"""Bytes of a Parquet file's footer at most: it grows with columns times groups of rows, and is read as a whole."""
FLAGS = {
    "series": "series_column", "time": "time_column", "label": "label_column", "text": "text_column",
    "target": "target",
}  # fmt: skip
"""The setting that names each column."""
NESTED = (dict, list, bytes)


def place_of(source: Source) -> str:
    """A file or a table as messages name it."""
    return source.place if isinstance(source, Table) else str(source)


@contextmanager
def in_a_sentence(path: object) -> Iterator[None]:
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


def reader(read: Callable[Concatenate[Where, Given], Found]) -> Callable[Concatenate[Where, Given], Found]:
    """A function that reads the file or table it is given first, within the boundary."""

    @wraps(read)
    def within(source: Where, /, *given: Given.args, **named: Given.kwargs) -> Found:
        with in_a_sentence(place_of(source)):
            return read(source, *given, **named)

    return within


class _Source(NamedTuple):
    """A file as it was when it was parsed, and how."""

    path: Path
    size: int
    modified: int
    options: DialectOptions


_parsed: dict[_Source, Table] = {}
"""The tables that were parsed last, so that a command parses a file once."""
_MAX_PARSED = 4
_YOUNG = 2_000_000_000
"""Nanoseconds after its last change in which a file may have changed again without a trace."""


@reader
def read_table(source: Source, options: DialectOptions = AS_SHOWN) -> Table:
    """A CSV, TSV, JSON-lines or Parquet file or a spreadsheet, every row and column of it; the fields of separated
    files and spreadsheets as text. Names of columns are without the blanks around them.

    Of a folder or a pattern, such as `sales/*.csv`, the rows of all tables in the order of their names, and in a column
    `FILE` the name of each.

    Args:
        source: the file, folder or pattern; a table in memory is returned as it is.
        options: how CSV and TSV files are written, where they do not show it.

    Raises:
        DataError: the file is missing, empty, unreadable, binary or in an unknown encoding; or files of a folder have
            other columns.
    """
    if isinstance(source, Table):
        return source
    if is_several(source):
        files = _tables_in(source)
        return _one_below_another(
            source, [(file, _parsed_once(file, options, says=file == files[0])) for file in files]
        )
    return _parsed_once(source, options)


def remember(path: Path, table: pa.Table) -> None:
    """Keep the table that a Parquet file was written from, so that the file is not parsed."""
    held = table.cast(pq.read_schema(path))  # Parquet has fewer units of time than Arrow
    known = Table.of_arrow(held, sha256=_sum_of(path), place=str(path), name=path.name)
    _keep(_source_of(path, AS_SHOWN), known)


def _source_of(path: Path, options: DialectOptions) -> _Source:
    state = path.stat()
    is_text = FORMATS.get(ending_of(path)) in ("csv", "sheet")
    return _Source(path.resolve(), state.st_size, state.st_mtime_ns, options if is_text else AS_SHOWN)


def _keep(source: _Source, table: Table) -> None:
    # The oldest goes first: a command reads few files, a notebook many.
    while len(_parsed) >= _MAX_PARSED:
        del _parsed[next(iter(_parsed))]
    _parsed[source] = table


def _parsed_once(path: Path, options: DialectOptions, *, says: bool = True) -> Table:
    if not path.is_file():
        raise DataError(f"{path}: no such file" if not path.exists() else f"{path}: not a file")
    source = _source_of(path, options)
    table = _parsed.get(source)
    # A clock of files may stand still for some milliseconds: a young file is summed again.
    if table is not None and time_ns() - source.modified < _YOUNG and table.sha256 != _sum_of(path):
        table = None
    if table is None:
        table = _read(path, options)
        _keep(source, table)
        for note in table.dialect.notes(path.name) if table.dialect is not None and says else ():
            LOG.warning("%s", note)
    return table


def forget() -> None:
    """Let go of the tables that were parsed, once a command has its data."""
    _parsed.clear()


def is_several(path: Path) -> bool:
    """Whether a path is a folder, or a pattern of files."""
    return path.is_dir() or (not path.exists() and has_magic(str(path)))


def _tables_in(path: Path) -> list[Path]:
    paths = path.iterdir() if path.is_dir() else map(Path, glob(str(path), recursive=True))
    # Systems leave files beside those of people: macOS ._a.csv, Excel ~$a.xlsx.
    seen = [file for file in paths if not file.name.startswith((".", "~$"))]
    # A note beside the tables is no table, unless a pattern names it.
    endings = {*FORMATS} - ({*_OF_ANY_TEXT} if path.is_dir() else set())
    files = sorted(file for file in seen if file.is_file() and ending_of(file) in endings)
    if not files:
        below = sorted(path.rglob("*")) if path.is_dir() else []
        inside = next((file for file in below if ending_of(file) in endings), path)
        depth = "/".join("*" for _ in inside.relative_to(path).parts)
        further = f'; for those of its folders give the pattern "{path}/{depth}"' if depth else ""
        raise DataError(f"{path}: holds no file that ends in one of {', '.join(FORMATS)}{further}")
    return files


def _one_below_another(path: Path, tables: list[tuple[Path, Table]]) -> Table:
    counted = [str(number) for number in range(len(tables[0][1].column_names))]  # pandas' names of columns without one
    if all(table.column_names != counted and all(map(is_number, table.column_names)) for _, table in tables):
        tables = [(file, table.without_header()) for file, table in tables]
    first, top = tables[0]
    for file, table in tables:
        if set(table.column_names) != set(top.column_names):
            unlike = sorted(set(table.column_names) ^ set(top.column_names))[0]
            raise DataError(
                f"{file}: column {unlike!r} is in one of it and {first.name} alone; tables of a folder are alike"
            )
        if {FILE, FOLDER} & {*table.column_names}:
            raise DataError(f"{file}: has a column {FILE!r} or {FOLDER!r}, which names files of a folder; rename it")
    columns = {name: [value for _, table in tables for value in table[name]] for name in top.column_names}
    stems = [file.name.removesuffix(".gz").rpartition(".")[0] for file, _ in tables]
    root = os.path.commonpath([file.parent for file, _ in tables])
    folders = [file.relative_to(root).parts[0] for file, _ in tables]
    if len({*stems}) < len(stems):
        stems = [str(file.parent.relative_to(root) / stem) for (file, _), stem in zip(tables, stems, strict=True)]
    lengths = [len(table) for _, table in tables]
    for name, of_files in ((FILE, stems), (FOLDER, folders)):
        if name == FILE or all(len(file.relative_to(root).parts) > 1 for file, _ in tables):
            columns[name] = [word for word, rows in zip(of_files, lengths, strict=True) for _ in range(rows)]
    digests = "".join(f"{file.name} {table.sha256}\n" for file, table in tables)
    return Table(
        columns,
        top.class_names,
        hashlib.sha256(digests.encode()).hexdigest(),
        top.types,
        top.dialect,
        str(path),
        path.name,
    )


def holds_rows(path: Path) -> bool:
    """Whether a file of any ending begins with rows of numbers, parted by blanks; one number a row is a row too; or
    with rows of as many fields each, parted by tabs.
    """
    with path.open("rb") as file:
        sample = file.read(_FIRST_BYTES).decode(errors="ignore")
    tabs = {line.count("\t") for line in sample.splitlines()[:-1] if line.strip()}  # the last may be cut off
    return parted_by_blanks(sample) or (len(tabs) == 1 and tabs != {0})


_FIRST_BYTES = 1 << 16


def ending_of(path: Path) -> str:
    """A file's ending in small letters, without that of its packing."""
    packed = path.suffix.lower() == ".gz" and Path(path.stem).suffix.lower() in SEPARATORS
    return Path(path.stem).suffix.lower() if packed else path.suffix.lower()


def _content_of(path: Path) -> Content:
    """The bytes of a file, unpacked where it is packed, or its memory map, which lives as long as its last reader.

    Raises:
        DataError: there are none.
    """
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty")
    if path.suffix.lower() == ".gz":
        return BoundedGzip(path).read()
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _sum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: Path, options: DialectOptions) -> Table:
    ending = ending_of(path)
    other = f"{path}: the ending must be one of {', '.join(FORMATS)}, got {path.suffix or 'none'!r}"
    if ending not in FORMATS:
        raise DataError(other)
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty")
    digest = _sum_of(path)
    match FORMATS[ending]:
        case "csv":
            parsed, dialect = parse(_content_of(path), ending, options, str(path))
            if ending in _OF_ANY_TEXT and parsed.num_columns == 1 and not holds_rows(path):
                raise DataError(f"{other}, whose lines have one field each")
        case "sheet":
            parsed, dialect = table_of_rows(_sheet_of(path), options, str(path))
        case "parquet":
            return _read_parquet(path, digest)
        case _:
            columns = _read_json(path)
            kinds = {name: type_of_json(values) for name, values in columns.items()}
            types = {name: kind for name, kind in kinds.items() if kind is not None}
            return Table(columns, {}, digest, types, None, str(path), path.name)
    return Table(
        dict(zip(parsed.column_names, parsed.columns, strict=True)), {}, digest, {}, dialect, str(path), path.name
    )


def _named(names: Sequence[str], path: Path) -> list[str]:
    stripped = [name.strip() for name in names]
    check_names(stripped, str(path))
    return stripped


def _read_parquet(path: Path, digest: str) -> Table:
    _check_footer(path)
    schema = pq.read_schema(path)
    _named(schema.names, path)
    batches = list(parquet_batches(path))
    table = pa.Table.from_batches(batches) if batches else schema.empty_table()
    types = Table.of_arrow(schema.empty_table()).types  # texts are dictionaries in batches
    held = Table.of_arrow(
        table.replace_schema_metadata(schema.metadata), sha256=digest, place=str(path), name=path.name
    )
    return replace(held, types=types)


def _read_json(path: Path) -> dict[str, list[Any]]:
    """The columns of JSON lines; a row that lacks one holds None there.

    Python's json reads them: pyarrow's turns texts into times, and keeps one of two fields of a name.
    """
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
    return dict(zip(_named(list(columns), path), columns.values(), strict=True))


def names_of(path: Path, kind: Kind) -> list[str]:
    """The columns of a Parquet file, or of the first row of a JSON file.

    Raises:
        DataError: it is no such file, or has no row.
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
        DataError: as `names_of`.
    """
    if kind == "json":
        yield from (row.get(column) for row in _objects(path))
        return
    _check_footer(path)
    for batch in parquet_batches(path, [column]):
        yield from values_of_column(batch.column(0))


@reader
def read_csv(path: Path) -> dict[str, list[str]]:
    """The columns of a CSV file, whatever its ending, as text.

    Raises:
        DataError: as `read_table`.
    """
    return parse(_content_of(path), ".csv", AS_SHOWN, str(path))[0].to_pydict()


def fields_of(path: Path, rows: int | None = None) -> list[tuple[int, list[str]]]:
    """The rows of a CSV or TSV file that are not blank, of any width, each with its last line's number.

    Args:
        rows: the first of them alone; all if None.

    Raises:
        DataError: as `read_table`.
    """
    if path.stat().st_size == 0:
        return []
    return list(islice(rows_of(_content_of(path), ending_of(path), str(path)), rows))


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
    if footer > _MAX_FOOTER:
        raise DataError(
            f"{path}: its description of columns takes {footer:,} bytes, at most {_MAX_FOOTER:,} are read; "
            "keep the columns of text and label"
        )


def _sheet_of(path: Path) -> list[list[str]]:
    """The rows of the first sheet of a spreadsheet that holds anything, fields as text.

    Raises:
        DataError: it is none, or holds nothing.
    """
    from python_calamine import CalamineError, CalamineWorkbook

    held = bounded(path)
    try:
        book = CalamineWorkbook.from_object(held)
        sheets = {name: book.get_sheet_by_name(name).to_python() for name in book.sheet_names}
    except CalamineError as error:
        raise DataError(f"{path}: cannot be read as a spreadsheet: {reason(error)}") from error
    name, rows = next(((name, rows) for name, rows in sheets.items() if rows), ("", []))
    if sum(map(bool, sheets.values())) > 1:
        LOG.warning("%s: the sheet %r is read, the others are not", path, name)
    return [[_as_text(value) for value in row] for row in rows]


def _as_text(value: object) -> str:
    """A cell of a spreadsheet as a CSV has it."""
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value).strip()


def kind_of(value: object) -> str:
    """The kind of a value that is no text, in words."""
    name = type(value).__name__
    return {"dict": "an object", "list": "a list"}.get(name, name)


def missing(what: str, place: str, row: int, column: str) -> DataError:
    """The error of a row, from 1 on, that lacks what all rows must have: its label, or its name."""
    return DataError(f"{place}: row {row} has no {what} in column {column!r}; remove the row or fill it in")


def names_in_column(data: Table, place: str, column: str, what: str = "name") -> list[str]:
    """The names of series or groups in a column.

    Raises:
        DataError: a row has none, or holds an object, a list or bytes.
    """
    for row, value in enumerate(data[column], start=1):
        if value is None or value != value or (isinstance(value, str) and not value.strip()):  # NaN is not itself
            raise missing(what, place, row, column)
        if isinstance(value, NESTED):
            raise DataError(f"{place}: row {row}, column {column!r}: holds {kind_of(value)}, not a {what}")
    return [str(value).strip() for value in data[column]]


def column_of(
    names: list[str], place: str, what: str, wanted: str | None, usual: tuple[str, ...], taken: Sequence[str] = (),
    plausible: Sequence[str] | None = None,
) -> str:  # fmt: skip
    """The column to read: the one asked for, or the only usual name there is of those that are not taken.

    Args:
        plausible: columns that could be it, where none has a usual name; all that are not taken if None.

    Raises:
        DataError: the one that is asked for is not there.
        Question: several could be it, or none has a usual name.
    """
    columns = _first(names)
    if wanted is not None:
        if wanted not in names:
            raise DataError(f"{place}: no column {wanted!r}; the file has {columns}")
        return wanted
    candidates = [name for name in names if name.lower() in usual and name not in taken]
    if len(candidates) != 1:
        seen = f"several could be it ({', '.join(candidates)})" if candidates else "none has a usual name"
        more = f" among {columns}" if len(names) > _MAX_ASKED else ""
        asked = f"{place}: which column is the {what}? {seen}{more}"
        others = plausible if plausible is not None else [name for name in names if name not in taken]
        answers = [{FLAGS.get(what, ""): [name]} for name in (candidates or others)[:_MAX_ASKED]]
        if what not in FLAGS or not answers:
            raise DataError(f"{asked}; call one of them {usual[0]}")
        raise Question(asked, answers)
    return candidates[0]


WITHOUT_NAME = re.compile(r"|unnamed: \d+(_level_\d+|\.\d+)*|__index_level_\d+__", re.IGNORECASE)
"""The name of a column that pandas wrote for an index without a name."""
_INDEX = re.compile(r"index|level_\d+", re.IGNORECASE)
MIN_ROWS = 10
"""The rows from which a column of another name counts by chance no longer."""


def without_row_numbers(data: Table, names: Sequence[str], keep: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Separate the columns to read from those that only count rows: columns without a name; those called index, and
    rising; or those holding 0, 1, 2, … or 1, 2, 3, … from the first row to the last, unless there is no other.

    Args:
        keep: names that are not left out, whatever they hold.
    """
    some = [name for name in names if name not in keep]
    left_out = {name for name in some if WITHOUT_NAME.fullmatch(name.strip()) or _is_index(data, name)}
    counts = {name for name in some if data.holds(name, _counts)}
    left_out |= counts if left_out | counts != {*names} else set()
    return [name for name in names if name not in left_out], [name for name in names if name in left_out]


def _is_index(data: Table, name: str) -> bool:
    return _INDEX.fullmatch(name.strip()) is not None and bool((_steps(data[name]) > 0).all())


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
