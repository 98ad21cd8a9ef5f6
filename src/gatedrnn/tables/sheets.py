"""Bounds of spreadsheets: the cells of each sheet are found before calamine makes a grid of them.

The grid goes from the first used cell of a sheet to the last, so that one cell at the far corner of a sheet makes
1,048,576 rows of 16,384 cells of a file of 2 KB.
"""

import io
import re
import struct
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from xml.parsers import expat

from gatedrnn.errors import DataError
from gatedrnn.unpacking import check_bounded, most_bytes

CELL = 32
"""Bytes of a cell in the grid."""


@dataclass
class Sheet:
    """The used cells of a sheet: rows and columns are numbered from 1."""

    top: int = 1 << 40
    left: int = 1 << 40
    bottom: int = 0
    right: int = 0
    text: int = 0
    """Bytes of text in all cells."""
    blank: list[tuple[int, int, int, int]] = field(default_factory=list)
    """The last row and column of each cell that holds blanks alone, and where its XML begins and ends."""

    def use(self, row: int, column: int, text: int, rows: int = 1, columns: int = 1) -> None:
        """Take note of a cell, or of one that is repeated over rows and columns."""
        self.top, self.left = min(self.top, row), min(self.left, column)
        self.bottom, self.right = max(self.bottom, row + rows - 1), max(self.right, column + columns - 1)
        self.text += text * rows * columns

    @property
    def size(self) -> int:
        """Bytes of its grid and of the text in it."""
        return CELL * max(0, self.bottom - self.top + 1) * max(0, self.right - self.left + 1) + self.text

    def outside(self) -> list[tuple[int, int]]:
        """The XML of the blank cells beyond all others, which make the grid larger for nothing."""
        return [(begin, end) for row, column, begin, end in self.blank if row > self.bottom or column > self.right]


def bounded(path: Path) -> Path | io.BytesIO:
    """A spreadsheet (.xlsx, .xlsm, .ods, .xls) that calamine may open: the file, or a copy without the blank cells
    beyond all others.

    Raises:
        DataError: its grids would take much more memory than the file's size, or it is no such file.
    """
    if not zipfile.is_zipfile(path):
        _check(path, _sheets_of_xls(path))
        return path
    check_bounded(path)
    with zipfile.ZipFile(path) as held:
        names = [name for name in dict.fromkeys(held.namelist()) if name.lower().endswith(".xml")]
        shared = _Strings()
        for name in names:
            if name.lower() == "xl/sharedstrings.xml":
                _parse(path, held, name, shared)
        if _mostly_full(path, held, names, max(shared.texts, default=0)):
            return path
        parts = {name: _Cells(shared.texts) for name in names}
        for name, cells in parts.items():
            _parse(path, held, name, cells)
        _check(path, [sheet for cells in parts.values() for sheet in cells.sheets])
        cuts = {name: sorted(cut for sheet in cells.sheets for cut in sheet.outside()) for name, cells in parts.items()}
        if not any(cuts.values()):
            return path
        copy = io.BytesIO()
        with zipfile.ZipFile(copy, "w") as written:
            for name in dict.fromkeys(held.namelist()):
                written.writestr(name, _without(held.read(name), cuts.get(name, [])))
    copy.seek(0)
    return copy


def _check(path: Path, sheets: list[Sheet]) -> None:
    size, most = sum(sheet.size for sheet in sheets), most_bytes(path)
    if size > most:
        worst = max(sheets, key=lambda sheet: sheet.size)
        raise DataError(
            f"{path}: a sheet reaches to row {worst.bottom:,} and column {worst.right:,}; the sheets take {size:,} "
            f"bytes, and those of a file of its size may take {most:,}. Delete what stands far from the table, or save "
            "the table as CSV"
        )


FULL = 4
"""Cells of the grid for each that is in the file, at most, of a sheet that is mostly full."""


def _mostly_full(path: Path, held: zipfile.ZipFile, names: list[str], longest: int) -> bool:
    """Whether all sheets of an .xlsx are mostly full and within bounds whatever is in their cells, so that nothing has
    to be read of them but where cells are: that takes a fraction of the time.

    Args:
        longest: the longest text that cells name.
    """
    size = 0
    for name in names:
        counted = _counted(held, name)
        if counted is None:
            return False
        cells, area = counted
        size += CELL * area + cells * longest
        if area > FULL * cells or size > most_bytes(path):
            return False
    return True


def _counted(held: zipfile.ZipFile, name: str) -> tuple[int, int] | None:
    """The cells of a part, and those of its grid; None where cells do not begin with their reference, as in .xlsx."""
    columns, cells, top, bottom = set[str](), 0, 0, 0

    def begin(tag: str, attributes: list[str]) -> None:
        nonlocal cells, top, bottom
        if tag == "c" and attributes and attributes[0] == "r":
            cells += 1
            letters = attributes[1].rstrip("0123456789")
            columns.add(letters)
            row = int(attributes[1][len(letters) :])
            top, bottom = min(top or row, row), max(bottom, row)
        elif tag.rpartition(":")[2] in CELLS:
            raise ValueError("a cell of another form")

    parser = expat.ParserCreate()
    parser.ordered_attributes, parser.StartElementHandler = True, begin
    try:
        with held.open(name) as file:
            parser.ParseFile(file)
    except (expat.ExpatError, ValueError):
        return None
    numbers = [*map(_number_of, columns)]
    return cells, (bottom - top + 1) * (max(numbers) - min(numbers) + 1) if cells else 0


def _without(content: bytes, cuts: list[tuple[int, int]]) -> bytes:
    kept, last = list[bytes](), 0
    for begin, end in cuts:
        kept.append(content[last:begin])
        last = end
    return b"".join([*kept, content[last:]])


class _Part(Protocol):
    """Takes note of the elements of one XML part, whose names are without their namespaces."""

    place: int
    """The byte at which the present element begins."""

    def begin(self, name: str, attributes: dict[str, str]) -> None: ...

    def end(self, name: str) -> None: ...

    def read(self, text: str) -> None: ...


def _parse(path: Path, held: zipfile.ZipFile, name: str, part: _Part) -> None:
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def begin(tag: str, attributes: dict[str, str]) -> None:
        part.place = parser.CurrentByteIndex
        part.begin(tag.rpartition(":")[2], attributes)

    def end(tag: str) -> None:
        part.place = parser.CurrentByteIndex
        part.end(tag.rpartition(":")[2])

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = begin, end, part.read
    try:
        with held.open(name) as file:
            parser.ParseFile(file)
    except (expat.ExpatError, ValueError, zipfile.BadZipFile, RuntimeError) as error:  # RuntimeError: a password
        raise DataError(f"{path}: cannot be read as a spreadsheet: {name}: {error}") from error


class _Strings:
    """The strings that cells of .xlsx name by number: how long each is, 0 for one of blanks alone."""

    def __init__(self) -> None:
        self.place, self.texts, self._text, self._inside = 0, list[int](), list[str](), False

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        if name == "si":
            self._text = []
        self._inside = name == "t"

    def end(self, name: str) -> None:
        self._inside = False
        if name == "si":
            text = "".join(self._text)
            self.texts.append(len(text) if text.strip() else 0)

    def read(self, text: str) -> None:
        if self._inside:
            self._text.append(text)


CELLS = ("c", "table-cell", "covered-table-cell")
_REFERENCE = re.compile(r"([A-Za-z]{1,3})([0-9]{1,7})")
_VALUES = frozenset(("value", "date-value", "time-value", "boolean-value"))
"""Attributes of a cell of .ods that holds more than text."""


class _Cells:
    """The cells of a part: `c` in `row` of .xlsx, `table-cell` in `table-row` of .ods."""

    def __init__(self, shared: list[int]) -> None:
        self.place, self.sheets, self._shared = 0, list[Sheet](), shared
        self._row = self._column = 0
        self._rows = self._columns = 1
        self._form, self._begins = "", -1
        self._text, self._spaces, self._valued, self._inside = list[str](), 0, False, 0
        self._ended: tuple[int, int, int] | None = None
        """A blank cell, whose XML ends where the next element begins or ends."""

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        self._close()
        if name in ("sheetData", "table"):
            self.sheets.append(Sheet())
            self._row = self._column = 0
            self._rows = 1
        elif name == "row":
            self._row, self._column = int(attributes.get("r", self._row + 1)), 0
        elif name == "table-row":
            self._row, self._column = self._row + self._rows, 0
            self._rows = _times(attributes, "rows-repeated")
        elif name in CELLS and self.sheets:
            self._begin_cell(attributes)
        elif name in ("v", "t", "p", "s") and self._begins >= 0:
            self._inside += name != "s"
            self._spaces += int(attributes.get("text:c", 1)) if name == "s" else 0

    def _begin_cell(self, attributes: dict[str, str]) -> None:
        self._begins, self._text, self._spaces, self._inside = self.place, [], 0, 0
        self._text.append(attributes.get("office:string-value", ""))
        self._form = attributes.get("t", "")
        self._column += self._columns if self._column else 1
        self._columns = _times(attributes, "columns-repeated")
        self._valued = any(name.rpartition(":")[2] in _VALUES for name in attributes)
        named = _REFERENCE.fullmatch(attributes.get("r", ""))
        if named is not None:
            self._row, self._column = int(named[2]), _number_of(named[1])

    def end(self, name: str) -> None:
        self._close()
        if name in ("v", "t", "p") and self._begins >= 0:
            self._inside -= 1
        elif name in CELLS and self._begins >= 0:
            self._end_cell()

    def read(self, text: str) -> None:
        if self._inside:
            self._text.append(text)

    def _end_cell(self) -> None:
        text, sheet = "".join(self._text), self.sheets[-1]
        length = self._spaces + len(text)
        if self._form == "s":
            with suppress(ValueError, IndexError):  # which calamine names
                length = self._shared[int(text)]
        solid = self._valued or (length if self._form == "s" else text.strip())
        if solid:
            sheet.use(self._row, self._column, length, self._rows, self._columns)
        elif text:
            self._ended = self._row + self._rows - 1, self._column + self._columns - 1, self._begins
        self._begins = -1

    def _close(self) -> None:
        if self._ended is not None:
            self.sheets[-1].blank.append((*self._ended, self.place))
            self._ended = None


def _times(attributes: dict[str, str], name: str) -> int:
    """The number of times that a cell or row of .ods is repeated."""
    return int(attributes.get(f"table:number-{name}", 1))


def _number_of(letters: str) -> int:
    """The number of a column: 1 for A, 27 for AA."""
    number = 0
    for letter in letters.upper():
        number = 26 * number + ord(letter) - ord("A") + 1
    return number


_END_OF_CHAIN = 0xFFFFFFFA
"""Numbers of sectors from here on are marks."""
BEGIN, TYPES_OF_CELLS = 0x0809, frozenset((0x0006, 0x007E, 0x00BD, 0x00D6, 0x00FD, 0x0203, 0x0204, 0x0205, 0x027E))
"""Records of .xls: the beginning of a sheet; and formulas, numbers, texts, truth values: a row, then a column."""
SEVERAL = 0x00BD
"""The record of several numbers in a row, which ends with its last column."""


def _sheets_of_xls(path: Path) -> list[Sheet]:
    """The sheets of a workbook of Excel 97 (records in a stream of a compound file), without the texts in them.

    Raises:
        DataError: it is no such file.
    """
    try:
        content = _workbook_stream(path.read_bytes())
        sheets, at = [Sheet()], 0
        while at + 4 <= len(content):
            kind, size = struct.unpack_from("<HH", content, at)
            if kind == BEGIN:
                sheets.append(Sheet())
            elif kind in TYPES_OF_CELLS:
                row, column = struct.unpack_from("<HH", content, at + 4)
                last = struct.unpack_from("<H", content, at + 2 + size)[0] if kind == SEVERAL else column
                sheets[-1].use(row + 1, column + 1, 0, columns=last - column + 1)
            at += 4 + size
    except (struct.error, IndexError, LookupError) as error:
        raise DataError(f"{path}: cannot be read as a spreadsheet: it is no .xls file, or not a whole one") from error
    return sheets


def _workbook_stream(content: bytes) -> bytes:
    """The stream of a compound file that holds the workbook."""
    size, small = (1 << power for power in struct.unpack_from("<HH", content, 30))
    count, first, limit, first_small = (
        struct.unpack_from("<I", content, 44)[0],
        *struct.unpack_from("<I4xII", content, 48),
    )
    table = list(struct.unpack_from("<109I", content, 76))
    more, seen = struct.unpack_from("<I", content, 68)[0], 0
    while more < _END_OF_CHAIN and seen <= len(content) // size:  # further sectors that number those of the table
        *numbers, more = struct.unpack_from(f"<{size // 4}I", content, (more + 1) * size)
        table, seen = table + numbers, seen + 1
    following = [
        number for sector in table[:count] if sector < _END_OF_CHAIN
        for number in struct.unpack_from(f"<{size // 4}I", content, (sector + 1) * size)
    ]  # fmt: skip
    folder = _chain(content, first, following, size, size)
    entries = [folder[begin : begin + 128] for begin in range(0, len(folder) - 127, 128)]
    named = {entry[: max(0, entry[64] - 2)].decode("utf-16-le", "replace").lower(): entry for entry in entries}
    entry = named["workbook"] if "workbook" in named else named["book"]
    start, length = struct.unpack_from("<II", entry, 116)
    if length >= limit:
        return _chain(content, start, following, size, size)[:length]
    held = _chain(content, struct.unpack_from("<I", entries[0], 116)[0], following, size, size)
    chained = _chain(content, first_small, following, size, size)
    return _chain(held, start, struct.unpack(f"<{len(chained) // 4}I", chained), small, 0)[:length]


def _chain(content: bytes, sector: int, following: Sequence[int], size: int, begin: int) -> bytes:
    """The sectors from one on, each followed by the one that the table has; those of a ring once."""
    parts = list[bytes]()
    while sector < _END_OF_CHAIN and len(parts) <= len(content) // size:
        parts.append(content[begin + sector * size : begin + (sector + 1) * size])
        sector = following[sector]
    return b"".join(parts)
