"""Tables as lines of fields: comma- and tab-separated files, packed or not, and spreadsheets."""

import csv
import logging
import re
import sys
import zipfile
from datetime import datetime, time
from io import TextIOWrapper
from pathlib import Path
from typing import Literal, TextIO, TypeAlias

from gatedrnn.errors import DataError, reason
from gatedrnn.unpacking import BoundedGzip, check_bounded

LOG = logging.getLogger("gatedrnn")
Numbered: TypeAlias = tuple[int, list[str]]
"""A row's fields after the number of its line."""
MOST_COLUMNS = 10_000
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

    if zipfile.is_zipfile(path):
        check_bounded(path)
    try:
        book = CalamineWorkbook.from_path(path)
        sheets = {name: book.get_sheet_by_name(name).to_python() for name in book.sheet_names}
    except CalamineError as error:
        raise DataError(f"{path}: cannot be read as a spreadsheet: {reason(error)}") from error
    name, rows = next(((name, rows) for name, rows in sheets.items() if rows), ("", []))
    if sum(map(bool, sheets.values())) > 1:
        LOG.warning("%s: the sheet %r is read, the others are not", path, name)
    fields = [[_as_text(value) for value in row] for row in rows]
    return [(number, row) for number, row in enumerate(fields, start=1) if any(row)]


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
    """Refuse a table of more than `MOST_COLUMNS` columns, which no reader here is made for.

    Raises:
        DataError: it has more.
    """
    if count > MOST_COLUMNS:
        raise DataError(
            f"{place}: has {count:,} columns, at most {MOST_COLUMNS:,} are read; keep those of text and label"
        )
