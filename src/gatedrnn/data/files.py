"""Text and labels from the user's own files, or from the hub."""

import contextlib
import csv
import hashlib
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar

import datasets
from datasets import ClassLabel, Dataset, IterableDataset, load_dataset

from gatedrnn.data.columns import said_columns
from gatedrnn.errors import DataError, Error, reason

LOG = logging.getLogger("gatedrnn")
Given = ParamSpec("Given")
Found = TypeVar("Found")
Numbered: TypeAlias = tuple[int, list[str]]
"""A row's fields after the number of its line."""
EXCEL = re.compile(r"\s*\"?sep=([^\s\"])\"?\s*", re.IGNORECASE)
"""The first line of a file in which Excel notes the separator."""
SEPARATORS = {".csv": ",", ".tsv": "\t"}
FORMATS = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".json": "json", ".parquet": "parquet"}
TEXT_COLUMNS = ("text", "document", "sentence", "review", "content", "comment", "body")
NESTED = (dict, list, bytes)
MOST_COLUMNS, SHOWN = 10_000, 30
"""Columns of a table at most, and how many of them a message names."""
FIRST_LINES = 1_000
"""Of JSON lines that are looked at where a file may be larger than the memory."""
MOST_FOOTER = 1 << 24
"""Bytes of a Parquet file's footer at most: it grows with columns times groups of rows, and is read as a whole."""
FLAGS = {
    "series": "--series-column", "time": "--time-column", "label": "--label-column", "text": "--text-column",
    "target": "--target",
}  # fmt: skip
"""By which a column is named."""
LABEL_COLUMNS = ("label", "labels", "class", "category", "target", "sentiment")


class Table(NamedTuple):
    """One split as read: texts, labels as they stand in the file, and their names in order where the file says so."""

    texts: list[str]
    labels: list[str]
    label_names: tuple[str, ...] | None
    source: dict[str, Any]
    columns: tuple[str, str]
    """Of the text and of the label."""
    said: str
    """Which columns were taken as what."""


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
    except Exception as error:
        raise DataError(f"{path}: cannot be read: {type(error).__name__}: {reason(error)}") from error


def reader(read: Callable[Concatenate[Path, Given], Found]) -> Callable[Concatenate[Path, Given], Found]:
    """A function that reads the file it is given first, within the boundary."""

    @wraps(read)
    def within(path: Path, /, *given: Given.args, **named: Given.kwargs) -> Found:
        with in_a_sentence(path):
            return read(path, *given, **named)

    return within


@reader
def read_file(path: Path, text_column: str | None, label_column: str | None, *, quoting: bool = False) -> Table:
    """A CSV, TSV, JSON-lines or Parquet file as texts and labels.

    Args:
        quoting: whether a TSV's fields may stand in quotation marks.

    Raises:
        DataError: the file is missing, empty, unreadable, binary, not UTF-8, or lacks a column.
    """
    data = read_all_columns(path, quoting=quoting)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return _table(data, path.name, str(path), text_column, label_column, digest)


@reader
def read_all_columns(path: Path, *, quoting: bool = False) -> Dataset:
    """A CSV, TSV, JSON-lines or Parquet file, every row and column of it; the fields of the first two as text. Names of
    columns are without the blanks around them.

    Args:
        quoting: whether a TSV's fields may stand in quotation marks.

    Raises:
        DataError: the file is missing, empty, unreadable, binary or not UTF-8.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file" if not path.exists() else f"{path}: not a file")
    if path.suffix.lower() not in FORMATS:
        raise DataError(f"{path}: the ending must be one of {', '.join(FORMATS)}, got {path.suffix or 'none'!r}")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty")
    kind = FORMATS[path.suffix.lower()]
    if kind == "csv":
        return _read_separated(path, quoting)
    if kind == "json":
        _check_text(path)
    data = read_rows(path, kind)
    assert isinstance(data, Dataset)  # of streams alone it is another
    names = [name.strip() for name in data.column_names]
    _demand_unequal(names, path)
    return data if names == data.column_names else data.rename_columns(dict(zip(data.column_names, names, strict=True)))


def read_hub(name: str, split: str, text_column: str | None, label_column: str | None) -> Table:
    """One split of a data set on the Hugging Face hub."""
    LOG.info("loading %s %s from the Hugging Face hub, unless it was before", name, split)
    try:
        data = load_dataset(name, split=split)
    except Exception as error:  # no network, no such set, a proxy: all end in the same advice
        raise DataError(
            f"{name}: could not be loaded from the hub ({type(error).__name__}); "
            "give local copies with --train-file and --test-file"
        ) from error
    return _table(data, f"{name} {split}", name, text_column, label_column, None)


def _table(
    data: Dataset, name: str, place: str, text_column: str | None, label_column: str | None, digest: str | None
) -> Table:
    text = column_of(data.column_names, place, "text", text_column, TEXT_COLUMNS)
    label = column_of(data.column_names, place, "label", label_column, LABEL_COLUMNS)
    if not len(data):
        raise DataError(f"{place}: there are columns but no rows")
    labels, names = labels_in_column(data, place, label)
    texts = texts_in_column(data, place, text)
    if digest is None:
        digest = hashlib.sha256("\0".join([*texts, *labels]).encode()).hexdigest()
    said = said_columns(name, {"text": text, "label": label}, data.column_names)
    return Table(texts, labels, names, {"name": name, "rows": len(texts), "sha256": digest}, (text, label), said)


def texts_in_column(data: Dataset, place: str, column: str) -> list[str]:
    """The texts of a column; nothing is an empty text.

    Raises:
        DataError: a row holds an object, a list or bytes.
    """
    texts = []
    for row, value in enumerate(data[column], start=1):
        if isinstance(value, NESTED):
            raise DataError(f"{place}: row {row}, column {column!r}: holds {kind_of(value)}, not text")
        texts.append("" if value is None else str(value))
    return texts


def labels_in_column(data: Dataset, place: str, column: str) -> tuple[list[str], tuple[str, ...] | None]:
    """The labels of a column by name, and all names in order where the file lists them.

    Raises:
        DataError: a row has none, or holds an object, a list or bytes.
    """
    feature = data.features[column]
    names = tuple(feature.names) if isinstance(feature, ClassLabel) else None
    labels = []
    for row, value in enumerate(data[column], start=1):
        if isinstance(value, NESTED):
            raise DataError(f"{place}: row {row}, column {column!r}: holds {kind_of(value)}, not a label")
        if value is None or value == "" or value != value or (names is not None and value < 0):  # NaN is not itself
            raise DataError(f"{place}: row {row} has no label in column {column!r}; remove the row or fill it in")
        labels.append(names[value] if names is not None else str(value))
    return labels, names


def kind_of(value: object) -> str:
    """What a value is that is no text, in words."""
    kind = type(value).__name__
    return {"dict": "an object", "list": "a list"}.get(kind, kind)


def check_width(count: int, place: str) -> None:
    """Refuse a table of more than `MOST_COLUMNS` columns, which no reader here is made for.

    Raises:
        DataError: it has more.
    """
    if count > MOST_COLUMNS:
        raise DataError(
            f"{place}: has {count:,} columns, at most {MOST_COLUMNS:,} are read; keep those of text and label"
        )


def column_of(names: list[str], place: str, what: str, wanted: str | None, usual: tuple[str, ...]) -> str:
    """The column to read: the one asked for, or the only usual name there is."""
    columns = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else "")
    if wanted is not None:
        if wanted not in names:
            raise DataError(f"{place}: no column {wanted!r}; the file has {columns}")
        return wanted
    found = [name for name in names if name.lower() in usual]
    if len(found) != 1:
        seen = f"several could be it ({', '.join(found)})" if found else "none has a usual name"
        remedy = f"name it with {FLAGS[what]}" if what in FLAGS else f"call one of them {usual[0]}"
        raise DataError(f"{place}: which column is the {what}? {seen}; {remedy}. Columns: {columns}")
    return found[0]


def _read_separated(path: Path, quoting: bool) -> Dataset:
    """A CSV or TSV file, every field as text.

    Not by pandas, which reads the label 01 as 1, the text NA as missing, and a row with a field too many as shifted.
    """
    columns, rows = read_fields(path, quoting=quoting)
    return Dataset.from_dict({name: [row[i] for _, row in rows] for i, name in enumerate(columns)})


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
    header, *rows = fields_of(path, ending, quoting=quoting) or [(0, [])]
    columns = [name.strip() for name in header[1]]
    if not columns:
        raise DataError(f"{path}: the file is empty but for blank lines")
    check_width(len(columns), str(path))
    _demand_unequal(columns, path)
    for line, row in rows:
        if len(row) != len(columns):
            raise DataError(f"{path}: line {line}: must have {len(columns)} fields as the first line, got {len(row)}")
    return columns, rows


def _demand_unequal(columns: list[str], path: Path) -> None:
    if len(set(columns)) != len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise DataError(f"{path}: two columns have the same name, {twice!r}")


def fields_of(
    path: Path, ending: str | None = None, *, quoting: bool = False, rows: int | None = None
) -> list[Numbered]:
    """The first rows of a CSV or TSV file that are not blank, all if None, each with its last line's number. Other args
    and errors: as `read_fields`."""
    _check_text(path)
    csv.field_size_limit(sys.maxsize)  # the default refuses a long text
    ending = ending or path.suffix.lower()
    found, begins = list[Numbered](), 1
    with path.open(encoding="utf-8-sig", newline="") as file:
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
                    found.append((begins - 1, row))
                if len(found) == rows:
                    break
        except csv.Error as error:
            raise DataError(f"{path}: cannot be read as csv: the row that begins in line {begins}: {error}") from error
    return found


def _separator(ending: str, first_line: str) -> str:
    """What is between two fields: a semicolon too, as spreadsheets write it where the comma is a decimal point."""
    usual = SEPARATORS[ending]
    return ";" if usual not in first_line and ";" in first_line else usual


def read_rows(path: Path, kind: str, *, streaming: bool = False) -> Dataset | IterableDataset:
    """A JSON-lines or Parquet file by `datasets`; a row at a time if `streaming`."""
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False  # a user's own file is nobody else's business
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    _check_kind(path, kind, streaming)
    try:
        data = load_dataset(kind, data_files=[os.fspath(path)], split="train", streaming=streaming)
        if streaming:
            next(iter(data))  # it is not opened before
        return data
    except StopIteration as error:
        raise DataError(f"{path}: there are no rows in it") from error
    except Exception as error:  # the readers raise many kinds; all of them mean the same to a user
        cause = error.__cause__ or error.__context__ or error
        said = str(cause).splitlines() or [type(cause).__name__]
        if "corresponds to no data" in said[0] or "BatchSize must be greater than 0" in said[0]:
            raise DataError(f"{path}: there are no rows in it") from error
        raise DataError(f"{path}: cannot be read as {kind}: {said[0]}") from error


def _check_kind(path: Path, kind: str, streaming: bool) -> None:
    """See that a file is what its ending says, and no wider than `check_width` allows, before a library opens it:
    `datasets` unpacks whatever looks packed, onto the disk and to any size.

    Raises:
        DataError: it is not.
    """
    with path.open("rb") as file:
        if kind == "parquet":
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
            return
        first = file.readline().removeprefix(b"\xef\xbb\xbf").strip()
    if first[:1] not in (b"{", b"[", b""):
        raise DataError(f"{path}: cannot be read as json: it begins with {first[:8]!r}, not with {{ or [")
    _check_keys(path, FIRST_LINES if streaming else None)


def _check_keys(path: Path, lines: int | None) -> None:
    """`check_width` for the first lines of a file of JSON lines; what is no such line is left to the reader."""
    names = set[str]()
    with path.open("rb") as file, contextlib.suppress(ValueError):
        for line in islice(file, lines):
            row = json.loads(line)
            if not isinstance(row, dict):
                return
            names.update(row)
            if len(names) > MOST_COLUMNS:
                check_width(len(names), str(path))


def _check_text(path: Path) -> None:
    line = 0
    try:
        with path.open(encoding="utf-8") as file:
            for line, text in enumerate(file, start=1):
                if "\0" in text:
                    raise DataError(f"{path}: line {line} holds a zero byte; this looks like a binary file")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 near line {line + 1} ({error.reason}); save it as UTF-8 first") from error
