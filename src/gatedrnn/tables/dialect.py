"""The dialect of a CSV or TSV file: its encoding, its separator, and the lines above and below the table.

pyarrow reads the rows. What it has no word for is decided here: which lines are no part of the table, which encoding
and separator a file has, and that a quotation mark that is not closed is refused and swallows no row.
"""

import codecs
import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from gatedrnn.errors import DataError
from gatedrnn.tables.options import AS_SHOWN, COLUMN, MISSING, DialectOptions

Content = Any
"""The bytes of a file, or its memory map."""
SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".dat": "\t", ".txt": "\t"}
"""The usual separator by the ending of a file."""
CANDIDATES = (",", ";", "\t", "|")
SAMPLE_BYTES, SAMPLE_ROWS = 1 << 20, 200
"""The part of a file that shows its separator and the lines above its table."""
BLOCK = 1 << 24
"""Bytes that pyarrow parses at a time; a row is shorter."""
_CHECKED_BYTES = 1 << 22
"""Bytes that are checked at a time: a check of a large file takes little memory."""
_EXCEL = re.compile(rb"\s*\"?sep=(\t|[^\s\"])\"?\s*", re.IGNORECASE)
"""The first line of a file in which Excel notes the separator."""
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
"""Byte order marks, and the encodings that they announce."""
_EAST_ASIAN = {
    "cp949": (rb"[\xb0-\xc8][\xa1-\xfe]", 0.9), "cp932": (rb"[\x82\x83][\x40-\xfc]", 0.5),
    "gb18030": (rb"[\xb0-\xd7][\xa1-\xfe]", 0.7),
}  # fmt: skip
"""Encodings of two bytes a character, the common letters of each (Hangul, kana, the first level of GB 2312), and the
share of a text that they are at least."""
_MAX_COLUMNS = 10_000
"""Columns of a table at most."""
_TOTALS = ("*", "**", "total", "totals", "grand total", "sum", "summe", "gesamt", "gesamtsumme", "합계", "총계", "계")
"""First fields of a row of totals, in small letters."""


_NAMES_MISSING = re.compile(r"missing(?: values?| data)?\s*[:=]\s*(-\d[\d.]*|99[\d.]*|[a-z]+)\W*$", re.IGNORECASE)
"""Such a line may count missing values, too: words and numbers that no measurement has are names of them."""


class Dialect(NamedTuple):
    """How a file writes its table."""

    encoding: str = "utf-8"
    separator: str = ","
    above: tuple[str, ...] = ()
    """Lines above the rows that are left out."""
    below: tuple[str, ...] = ()
    """Rows below the table that are left out."""
    renamed: tuple[str, ...] = ()
    """Columns whose name is another one's too, or that have none, by the names that they are given."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Words for missing values that a line above the table names, as in "#Missing: -99"."""
        found = (_NAMES_MISSING.search(line) for line in self.above)
        return tuple(match[1] for match in found if match is not None)

    def __str__(self) -> str:
        around = ((self.above, "above"), (self.below, "below"))
        left_out = (f", left out {where} the table: {len(lines)}" for lines, where in around if lines)
        return f"{self.encoding}, {self.separator!r} between fields{''.join(left_out)}"

    def notes(self, name: str) -> list[str]:
        """Sentences on what a user may not expect.

        Args:
            name: of the file.
        """
        notes = list[str]()
        if not self.encoding.startswith("utf"):
            notes.append(f"{name}: not UTF-8, read as {self.encoding}; --encoding names another")
        for lines, where, flag in ((self.above, "above", "; --skip-lines sets how many"), (self.below, "below", "")):
            if lines:
                count = f"{len(lines)} rows" if len(lines) > 1 else "1 row"
                notes.append(f"{name}: {count} {where} the table left out: {lines[0]:.60}{flag}")
        if self.missing:
            notes.append(f"{name}: {' and '.join(self.missing)} is read as missing, as a line above the table says")
        if self.renamed:
            names = ", ".join(map(repr, self.renamed[:9]))
            notes.append(f"{name}: columns without a name of their own are called {names}")
        return notes


class _Row(NamedTuple):
    """A row of the sample."""

    line: int
    """The line in which it ends, from 1 on."""
    fields: list[str]

    @property
    def filled(self) -> int:
        return sum(bool(field.strip()) for field in self.fields)


def parse(content: Content, ending: str, options: DialectOptions, place: str) -> tuple[pa.Table, Dialect]:
    """Parse a whole CSV or TSV file into columns of text, without blank rows and columns.

    Args:
        content: the bytes of the file, or its memory map.
        ending: ".csv" or ".tsv"; it decides between separators that fit alike, and whether fields may be quoted.
        options: what the caller says.
        place: the file, for messages.

    Raises:
        DataError: the file is binary, in another encoding, or without a row; a quotation mark is not closed; or a row
            has more or fewer fields than there are columns.
    """
    text = _opened(content, ending, options, place)
    head = _head(_sample(text), options.skip_lines, place)
    if text.quoted:
        _check_quotes(text, place)
    ends = islice(_line_ends(text.content), head.line - 1, None) if head.line else iter((0,))
    offset = next(ends, len(text.content))
    table, below = _read_rows(text._replace(content=memoryview(text.content)[offset:]), head, place)
    table, more = _without_notes(_without_blanks(table), text.separator)
    above = [text.separator.join(row).strip() for row in head.left_out]
    table, renamed = _with_unequal_names(table)
    return table, Dialect(text.encoding, text.separator, tuple(above), (*more, *below), tuple(renamed))


def table_of_rows(rows: Sequence[list[str]], options: DialectOptions, place: str) -> tuple[pa.Table, Dialect]:
    """The rows of a spreadsheet, all as wide as the sheet, as `parse` has those of a file.

    Raises:
        DataError: there is no row.
    """
    filled = [_Row(line, fields) for line, fields in enumerate(rows, start=1) if any(fields)]
    head = _head(filled[:SAMPLE_ROWS], options.skip_lines, place)
    body = [row.fields for row in filled if row.line > head.line]
    columns = [pa.chunked_array([[row[place] for row in body]], pa.string()) for place in range(len(head.names))]
    table, below = _without_notes(_without_blanks(pa.table(columns, head.names)), " ")
    table, renamed = _with_unequal_names(table)
    above = tuple(" ".join(filter(None, row)) for row in head.left_out)
    return table, Dialect(above=above, below=tuple(below), renamed=tuple(renamed))


def rows_of(content: Content, ending: str, place: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a file that are not blank, of any width, each with the line in which it ends.

    Raises:
        DataError: the file is binary or in another encoding.
    """
    text = _opened(content, ending, AS_SHOWN, place)
    lines = _reader(bytes(text.content).decode(), text.separator, text.quoted)
    return ((text.skipped + lines.line_num, fields) for fields in lines if fields)


class _Text(NamedTuple):
    """A file in UTF-8, and how its rows are parted."""

    content: Content
    encoding: str
    separator: str
    quoted: bool
    skipped: int
    """Lines before the content: 1 where Excel notes the separator."""


def _opened(content: Content, ending: str, options: DialectOptions, place: str) -> _Text:
    content, encoding = _as_utf8(content, options.encoding, place)
    quoted = ending == ".csv" or options.quoting
    first_line = bytes(content[: next(_line_ends(content), len(content))])
    # Excel notes the separator where it is not that of the country.
    excel = _EXCEL.fullmatch(first_line)
    content = memoryview(content)[len(first_line) :] if excel else content
    separator = options.separator or (excel[1].decode() if excel else None)
    if separator is None:
        sample = bytes(content[:SAMPLE_BYTES]).decode(errors="ignore")
        separator = _separator(sample, SEPARATORS[ending], quoted)
        if separator not in sample and re.search(r"\S[ \t]+\S", sample) and parted_by_blanks(sample):
            content, separator = re.sub(rb"(?m)^[ \t]+|[ \t]+$", b"", bytes(content)), "\t"
            content = re.sub(rb"[ \t]+", b"\t", content)
    return _Text(content, encoding, separator, quoted, int(excel is not None))


def parted_by_blanks(sample: str) -> bool:
    """Whether the lines of a text are rows of numbers or dates with blanks between, but for a line of names above.

    Example:
        >>> parted_by_blanks("x  y\\n1.0  2\\n1.5  3"), parted_by_blanks("It was 1 day.\\nIt was 2 days.")
        (True, False)
    """
    lines = [line for line in sample.splitlines()[:SAMPLE_ROWS] if line.strip()]
    lines = lines[1:-1] or lines  # the last may be cut off
    rows = [line.split() for line in lines]
    values = sum(_is_value(field) for row in rows for field in row)
    return len({*map(len, rows)}) == 1 and values * 2 > sum(map(len, rows))


class _Head(NamedTuple):
    """The names of a table's columns."""

    names: list[str]
    line: int
    """The last line above the rows."""
    left_out: list[list[str]]
    """Rows above the first row of values that name no column."""


def _head(rows: Sequence[_Row], skip_lines: int | None, place: str) -> _Head:
    """Find the header of a table.

    Raises:
        DataError: there is none, or it is wider than the rows.
    """
    check_width(max((len(row.fields) for row in rows), default=0), place)
    if not any(row.filled for row in rows):
        raise DataError(f"{place}: the file is empty but for blank lines")
    header = _header(rows, place) if skip_lines is None else _header_below(rows, skip_lines, place)
    end = header + (_second_headers(rows[header + 1 :]) if skip_lines is None else 0)
    names = [name.strip() for name in rows[header].fields]
    names[0] = names[0].lstrip("# ")
    below = [row.fields for row in rows[end + 1 :]]
    if len({*names}) < len(names):
        if all(map(_is_value, filter(None, names))):  # the first row of a table without names
            names = [f"{COLUMN} {number}" for number in range(1, len(names) + 1)]
            return _Head(names, rows[header - 1].line if header else 0, [row.fields for row in rows[:header]])
        if below and end == header and (joined := _joined(names, below[0])):
            return _Head(joined, rows[end + 1].line, [row.fields for row in rows[:header]])
    if below and all(len(fields) == len(names) + 1 for fields in below):
        if not any(fields[-1].strip() for fields in below):
            names = [*names, ""]
        elif all(_is_value(fields[0]) for fields in below):  # R gives its row names no name
            names = ["", *names]
    return _Head(names, rows[end].line, [row.fields for row in (*rows[:header], *rows[header + 1 : end + 1])])


def _joined(names: Sequence[str], below: Sequence[str]) -> list[str] | None:
    """The names of a header of two lines, where the lower one tells names of the upper one apart."""
    if len(below) != len(names) or not all(field.strip()[:1].isalpha() for field in below):
        return None
    joined = [
        f"{name} {field.strip()}" if names.count(name) > 1 else name for name, field in zip(names, below, strict=True)
    ]
    return joined if len({*joined}) == len(joined) else None


def check_width(count: int, place: str) -> None:
    """Refuse a table of more than `_MAX_COLUMNS` columns, which no reader here is made for.

    Raises:
        DataError: it has more.
    """
    if count > _MAX_COLUMNS:
        raise DataError(
            f"{place}: has {count:,} columns, at most {_MAX_COLUMNS:,} are read; keep those of text and label"
        )


def check_names(names: Sequence[str], place: str) -> None:
    """Refuse two columns of one name.

    Raises:
        DataError: there are two.
    """
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{place}: two columns have the same name, {twice!r}")


def _as_utf8(content: Content, encoding: str | None, place: str) -> tuple[Content, str]:
    """The content in UTF-8 without a byte order mark, and the encoding of the file."""
    mark = next((mark for mark in _MARKS if content[: len(mark)] == mark), b"")
    encoding, fault = encoding or _MARKS.get(mark), None
    if not (encoding or "").lower().replace("_", "-").startswith(("utf-16", "utf-32")):
        zero = next((at + found for at, part in _parts(content) if (found := part.find(b"\0")) >= 0), None)
        if zero is not None:
            line = _line_of(content, zero)
            raise DataError(f"{place}: line {line} holds a zero byte; this looks like a binary file")
        fault = _fault_of_utf8(content)
    if encoding is None:
        encoding = "utf-8" if fault is None else _guessed_encoding(bytes(content))
    if encoding is None or (encoding.lower() in ("utf-8", "utf8") and fault is not None):
        line = _line_of(content, fault or 0)
        raise DataError(f"{place}: line {line} is not UTF-8; name its encoding with --encoding, unless it is binary")
    if encoding.lower() in ("utf-8", "utf8"):
        return (memoryview(content)[len(mark) :] if mark else content), "utf-8"
    try:
        return bytes(content[len(mark) :]).decode(encoding).encode(), encoding
    except (UnicodeDecodeError, LookupError) as error:
        raise DataError(f"{place}: cannot be read as {encoding}: {error}; name another with --encoding") from error


def _guessed_encoding(content: bytes) -> str | None:
    """The encoding of bytes that are not UTF-8: one of two bytes a character whose letters most of them are, else that
    of Windows in Western Europe; None where they are no text in it."""
    runs = re.findall(rb"[\x80-\xff]+", content[:SAMPLE_BYTES])
    alone = sum(len(run) == 1 for run in runs)  # a letter of a European word, between others of ASCII
    for encoding, (letters, share) in _EAST_ASIAN.items() if 2 * alone < sum(map(len, runs)) else ():
        with suppress(UnicodeDecodeError):
            foreign = re.sub(r"[\0-\x7f]", "", content.decode(encoding))
            if len(re.findall(letters, content)) >= share * len(foreign):
                return encoding
    with suppress(UnicodeDecodeError):
        content.decode("cp1252")
        return "cp1252"
    return None


def _parts(content: Content) -> Iterator[tuple[int, bytes]]:
    """The content in parts that are small, each with its offset."""
    for at in range(0, len(content), _CHECKED_BYTES):
        yield at, bytes(content[at : at + _CHECKED_BYTES])


def _fault_of_utf8(content: Content) -> int | None:
    """The offset of the first byte that is no UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    done = 0
    try:
        for _, part in _parts(content):
            decoder.decode(part)
            done += len(part)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        return done + error.start
    return None


def _line_of(content: Content, offset: int) -> int:
    return 1 + sum(1 for end in _line_ends(content) if end <= offset)


def _line_ends(content: Content) -> Iterator[int]:
    """The offset behind each line."""
    return (match.end() for match in re.finditer(rb"\r\n|\n|\r", content))


def _separator(sample: str, usual: str, quoted: bool) -> str:
    """The mark that parts most rows into as many fields, of which there are two or more."""

    def alike(separator: str) -> tuple[int, bool, bool]:
        lines = _reader(sample, separator, quoted, strict=True)
        try:
            rows = [fields for fields in islice(lines, SAMPLE_ROWS) if fields]
        except csv.Error:  # text behind a closing quotation mark, which another separator may explain
            return 0, False, separator == usual
        if not any("".join(fields[1:]).strip() for fields in rows):  # a mark that ends each line parts nothing
            return 0, False, separator == usual
        # One half of a quoted field shows that the separator stands within quotation marks.
        halved = (any(field.count('"') % 2 for field in fields) for fields in rows)
        counts = Counter(len(fields) for fields, half in zip(rows, halved, strict=True) if not half)
        # A decimal comma parts 0,5;0,7 into as many fields as the semicolon; within a field no other mark is usual.
        held = "".join(map("".join, rows))
        whole = not any(mark in held for mark in CANDIDATES[1:])
        most = max((number for count, number in counts.items() if count > 1), default=0)
        return most, most > 0 and whole, separator == usual

    return max((usual, *CANDIDATES), key=alike)


def _reader(text: str, separator: str, quoted: bool, *, strict: bool = False) -> Any:
    csv.field_size_limit(sys.maxsize)  # the default refuses a long text
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    return csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=strict, quoting=quoting)


def _sample(text: _Text) -> list[_Row]:
    """The first rows of a file that hold anything."""
    sample = bytes(text.content[:SAMPLE_BYTES]).decode(errors="ignore")
    lines = _reader(sample, text.separator, text.quoted)
    rows = (_Row(lines.line_num, fields) for fields in lines if fields)
    return list(islice((row for row in rows if not _is_drawn(row.fields)), SAMPLE_ROWS))


def _is_drawn(fields: Sequence[str]) -> bool:
    """Whether a row is a line of dashes."""
    return any(fields) and all(not field.strip("-=+|_ \t") for field in fields)


def _header(rows: Sequence[_Row], place: str) -> int:
    """The row that names the columns: the first that is as wide as most rows and mostly filled."""
    counts = Counter(len(row.fields) for row in rows)
    width = max(counts, key=lambda count: (counts[count], count))
    typical = Counter(row.filled for row in rows).most_common(1)[0][0]
    for number, row in enumerate(rows):
        is_comment = row.fields[0].startswith("#") and not _holds_values(rows[number + 1 : number + 2])
        is_title = bool(row.fields[0].strip()) and (row.filled == 1 < typical or row.filled * 2 < typical)
        if is_comment or is_title or not row.filled:
            continue
        if len(row.fields) >= width - 1:
            if any(_names_more(row, rows[place : place + 2]) for place in range(number + 1, number + _HEADER_LINES)):
                continue  # names of groups, or a note, above the names
            if len(row.fields) > width:
                following = rows[number + 1]
                raise DataError(
                    f"{place}: line {following.line}: must have {len(row.fields)} fields as the first line, got "
                    f"{len(following.fields)}; where the table begins further below, give --skip-lines"
                )
            return number
    return 0


_HEADER_LINES = 4
"""Lines of names and notes above the rows, at most."""


def _names_more(row: _Row, below: Sequence[_Row]) -> bool:
    """Whether the first of these lines names more columns than a line above it, or that line counts the columns; and
    the second holds values.
    """
    rest = [field.strip() for field in row.fields[1:]]
    counts = len(rest) > 2 and rest == [str(number) for number in range(1, len(rest) + 1)]
    return (
        len(below) == 2 and len(below[0].fields) == len(row.fields)
        and (below[0].filled > row.filled or counts)
        and not _holds_values(below[:1]) and _holds_values(below[1:])
    )  # fmt: skip


def _header_below(rows: Sequence[_Row], lines: int, place: str) -> int:
    header = next((number for number, row in enumerate(rows) if row.line > lines), None)
    if header is None:
        raise DataError(f"{place}: --skip-lines {lines} leaves no line")
    return header


def _holds_values(rows: Sequence[_Row]) -> bool:
    return any(any(map(_is_value, row.fields)) for row in rows)


def _is_value(field: str) -> bool:
    """Whether a field looks like a number or a date."""
    digits = sum(map(str.isdecimal, field))
    return digits > 0 and digits * 2 >= sum(map(str.isalnum, field))


def _second_headers(rows: Sequence[_Row]) -> int:
    """The rows below the header that are part of it: units, or further names, above columns of numbers and dates."""
    count = 0
    while len(rows) > count + 1:
        above, *others = (row.fields for row in rows[count : count + 20])
        width = len(above)
        values = [
            column for column in range(width)
            if sum(len(row) == width and _is_value(row[column]) for row in others) * 10 > 8 * len(others)
        ]  # fmt: skip
        words = [above[column].strip() for column in values]
        if any(any(map(str.isdecimal, word)) for word in words) or all(word.lower() in MISSING for word in words):
            return count
        if len(values) < 2 and not re.fullmatch(r"[\[(].*[\])]", words[0]):
            return count
        count += 1
    return 0


def _check_quotes(text: _Text, place: str) -> None:
    """Check that each field that begins with a quotation mark ends with one, as csv's strict reader does.

    Raises:
        DataError: one does not; the line in which its row begins is named.
    """
    content, separator = text.content, text.separator.encode()
    if not any(b'"' in part for _, part in _parts(content)):
        return
    before, after = separator + b"\r\n", re.escape(separator)
    field = re.compile(rb'"[^"]*(?:""[^"]*)*"(?=[\r\n]|' + after + rb"|\Z)")
    at = 0
    for quote in re.finditer(b'"', content):
        if quote.start() < at or (quote.start() and content[quote.start() - 1] not in before):
            continue
        closed = field.match(content, quote.start())
        if closed is None:
            raise DataError(
                f"{place}: cannot be read as csv: the row that begins in line "
                f"{text.skipped + _line_of(content, quote.start())}: a quotation mark is not closed, or text follows it"
            )
        at = closed.end()


def _read_rows(text: _Text, head: _Head, place: str) -> tuple[pa.Table, list[str]]:
    """The rows below the header, as text, and notes below them."""
    numbered = [str(number) for number in range(len(head.names))]  # names may be equal until blank columns are gone
    invalid = list[Any]()

    def note(row: Any) -> str:
        invalid.append(row)
        return "skip"

    if not len(text.content):  # pyarrow refuses an empty file
        return pa.table([pa.array([], pa.string())] * len(numbered), head.names), []
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(pa.py_buffer(text.content)),
            # One thread: of several, pyarrow does not number rows that it refuses.
            arrow_csv.ReadOptions(use_threads=False, column_names=numbered, block_size=BLOCK),
            arrow_csv.ParseOptions(
                delimiter=text.separator, quote_char='"' if text.quoted else False, newlines_in_values=text.quoted,
                invalid_row_handler=note,
            ),
            arrow_csv.ConvertOptions(
                check_utf8=False, column_types=dict.fromkeys(numbered, pa.string()), strings_can_be_null=False
            ),
        )  # fmt: skip
    except pa.ArrowInvalid as error:
        raise DataError(f"{place}: cannot be read as csv: {error}") from error
    below, rows = list[str](), table.num_rows + len(invalid)
    # Comments, and of a printed list all lines around its rows, are no rows with too few fields.
    around = [
        row.text.lstrip().startswith("#") or _is_drawn([row.text]) or (text.separator == "|" and "|" not in row.text)
        for row in invalid
    ]
    left_out = [row.text.strip() for row, is_around in zip(invalid, around, strict=True) if is_around]
    invalid = [row for row, is_around in zip(invalid, around, strict=True) if not is_around]
    while invalid and invalid[-1].number == rows:
        fields = next(_reader(invalid[-1].text, text.separator, text.quoted))
        if len(fields) > len(numbered) or not (is_note(fields) or _is_words_below_values(fields, table)):
            break
        rows -= 1
        below.insert(0, " ".join(fields).strip())
        invalid.pop()
    if invalid:
        # pyarrow counts rows, people count lines: a quoted field may go over several.
        lines = _reader(bytes(text.content).decode(), text.separator, text.quoted)
        next(islice((fields for fields in lines if fields), invalid[0].number - 1, None))
        raise DataError(
            f"{place}: line {text.skipped + head.line + lines.line_num}: must have {len(numbered)} fields as the first "
            f"line, got {invalid[0].actual_columns}"
        )
    table = table.rename_columns(head.names)
    table = _without_headers_and_rules(table) if text.separator == "|" else table
    return table, [*below, *(line for line in left_out if not _is_drawn([line]))]


def _without_headers_and_rules(table: pa.Table) -> pa.Table:
    """The rows of a printed list, whose pages repeat the names, between drawn lines."""
    again = rule = pa.chunked_array([np.ones(table.num_rows, bool)])
    for name, column in zip(table.column_names, map(pc.utf8_trim_whitespace, table.columns), strict=True):
        again = pc.and_(again, pc.equal(column, name))
        rule = pc.and_(rule, pc.match_substring_regex(column, "^[-=_]*$"))
    return table.filter(pc.invert(pc.or_(again, rule)))


def is_note(row: Sequence[str]) -> bool:
    """Whether a row is words in one field; a number or a date is the begin of a row that was cut off."""
    filled = [field for field in row if field.strip()]
    letters, digits = (sum(map(is_of, "".join(filled))) for is_of in (str.isalpha, str.isdecimal))
    return not filled or (len(filled) == 1 and letters > max(digits, 3))


def _blank(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.equal(pc.utf8_trim_whitespace(column), "")


def _without_blanks(table: pa.Table) -> pa.Table:
    """The table without rows that hold nothing, and without columns that have no name and hold nothing."""
    blank = None
    # A table whose first columns are full has no blank row: most stop at the first.
    for column in table.columns:
        blank = _blank(column) if blank is None else pc.and_(blank, _blank(column))
        if not pc.any(blank).as_py():
            break
    else:
        table = table.filter(pc.invert(blank))
    held = [
        number for number, name in enumerate(table.column_names)
        if name or not pc.all(_blank(table.column(number))).as_py()
    ]  # fmt: skip
    if len(held) < table.num_columns:
        table = table.select(held)
    return table


def _with_unequal_names(table: pa.Table) -> tuple[pa.Table, list[str]]:
    """The table with a number for each of several columns without a name, and behind a name that comes again; and the
    names that it did not have.
    """
    before, names = table.column_names, list[str]()
    for number, name in enumerate(before, start=1):
        new = f"{COLUMN} {number}" if not name and before.count("") > 1 else name
        count = before[:number].count(name)
        names.append(f"{new} ({count})" if name and count > 1 else new)
    renamed = [new for new, old in zip(names, before, strict=True) if new != old]
    return (table.rename_columns(names), renamed) if renamed else (table, [])


def _without_notes(table: pa.Table, separator: str) -> tuple[pa.Table, list[str]]:
    """The table without the rows below it that are notes, filled up with empty fields, or totals."""
    notes = list[str]()
    while table.num_rows > 1 and table.num_columns > 1:
        row = [column[-1].as_py() for column in table.columns]
        if not (_is_note_below(row, table) or _is_total(row, table)):
            break
        notes.insert(0, separator.join(row).strip(separator + " "))
        table = table.slice(0, table.num_rows - 1)
    return table, notes


def _is_words_below_values(row: Sequence[str], table: pa.Table) -> bool:
    """Whether a row begins with a word below numbers or dates, as that of a balance does."""
    others = table.column(0)[:SAMPLE_ROWS].to_pylist()
    return sum(map(str.isalpha, row[0])) > _MIN_LETTERS and not _is_value(row[0]) and all(map(_is_value, others))


_MIN_LETTERS = 3


def _is_note_below(row: Sequence[str], table: pa.Table) -> bool:
    """Whether a row is a note below numbers or dates."""
    place = next((place for place, field in enumerate(row) if field.strip()), 0)
    others = table.column(place)[:SAMPLE_ROWS].to_pylist()[:-1]
    return is_note(row) and sum(map(_is_value, others)) * 2 > len(others)


def _is_total(row: Sequence[str], table: pa.Table) -> bool:
    """Whether a row holds a word such as "Total", which no other row has there, and numbers."""
    place = next((place for place, field in enumerate(row) if field.strip()), 0)
    numbers = [field for field in row[place + 1 :] if field.strip()]
    return (
        row[place].strip().rstrip(":").lower() in _TOTALS and any(map(_is_value, numbers))
        and pc.sum(pc.equal(table.column(place), row[place])).as_py() == 1
    )  # fmt: skip
