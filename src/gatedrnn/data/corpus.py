"""Running text, a chunk at a time: from the user's files, from the hub, or from Python's own documentation."""

import gzip
import hashlib
import io
import json
import logging
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from glob import glob
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from gatedrnn.data.files import TEXT_COLUMNS
from gatedrnn.data.token_cache import counts_folder
from gatedrnn.errors import DataError
from gatedrnn.machine import cores
from gatedrnn.records import write_whole
from gatedrnn.tables.files import (
    Kind,
    Source,
    column_of,
    in_a_sentence,
    is_several,
    kind_of,
    names_of,
    reader,
    said_columns,
    values_of,
)
from gatedrnn.tables.table import Table
from gatedrnn.unpacking import BoundedGzip

LOG = logging.getLogger("gatedrnn")
BLOCK = 1 << 16  # characters of a text file in memory at a time
TEXT_ENDINGS = (".txt", ".txt.gz")
TABLES = (".csv", ".tsv", ".ts")
"""Endings of what other tasks read."""
_ROW_FORMATS: dict[str, Kind] = {".parquet": "parquet", ".jsonl": "json", ".json": "json"}


class Piece(NamedTuple):
    """A chunk of text."""

    text: str
    begins: bool
    """Whether a document begins with it."""


class Corpus(NamedTuple):
    """A text that can be iterated any number of times, and is never in memory as a whole."""

    place: str
    """The name in messages: the path, where there is one."""
    name: str
    """The name in results: never a path."""
    pieces: Callable[[], Iterator[Piece]]
    digest: str
    """sha256 of the whole text as it is read."""
    reading: tuple[Any, ...] = ()
    """The way in which it is read: the column, where documents begin, which part. With the digest it says what the
    pieces are."""
    characters: Callable[[], int] | None = None
    """The number of characters; None for a text that is read to know it."""
    files: tuple[tuple[str, str], ...] = ()
    """Names and sha256 sums of several files that make it up."""
    columns: tuple[str, ...] = ()
    """Lines that say which column of rows is the text, one for each file where several differ."""


@reader
def read_corpus(source: Source, text_column: str | None, document_start: str | None) -> Corpus:
    """A `.txt`, `.txt.gz`, Parquet or JSON-lines file, or all of them in a folder or under a pattern such as
    `books/*.txt`, in the order of their names; or a table in memory.

    Args:
        source: the file. A text file is one document, a row of the others is one each.
        text_column: of Parquet and JSON lines; guessed where one name is obvious.
        document_start: regular expression that a line's (or row's) beginning matches where a document begins; rows are
            then lines.

    Raises:
        DataError: a file is missing, empty, of another kind, not UTF-8, or lacks the column.
    """
    if isinstance(source, Table):
        return _of_table(source, text_column, document_start)
    path = source
    if is_several(path):
        with ThreadPoolExecutor(cores()) as threads:  # each file is summed
            corpora = threads.map(lambda file: read_corpus(file, text_column, document_start), _files(path))
            return _joined(path, list(corpora))
    if not path.is_file():
        raise DataError(f"{path}: no such file" if not path.exists() else f"{path}: not a file")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty")
    start = _compiled(document_start)
    name = path.name.lower()
    if name.endswith(TEXT_ENDINGS):
        format = None
    elif path.suffix.lower() in _ROW_FORMATS:
        format = _ROW_FORMATS[path.suffix.lower()]
    else:
        if path.suffix.lower() in TABLES:
            raise DataError(
                f"{path}: a table: name --task, such as text-classification, series-classification or forecast; the "
                "text of a language model is in .txt, .jsonl or .parquet"
            )
        endings = ", ".join((*TEXT_ENDINGS, *_ROW_FORMATS))
        raise DataError(f"{path}: the ending must be one of {endings}, got {path.suffix or 'none'!r}")

    columns, column = tuple[str, ...](), ""
    if format is not None:
        columns, column = _said(names_of(path, format), str(path), path.name, text_column)

    def pieces() -> Iterator[Piece]:
        with in_a_sentence(path):
            if format is None:
                yield from _documents(_blocks(path), start)
            else:
                yield from _rows(values_of(path, format, column), column, str(path), start)

    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    reading = (text_column, document_start)
    count = partial(_counted, pieces, digest, reading)
    return Corpus(str(path), path.name, pieces, digest, reading, count, columns=columns)


def _of_table(data: Table, text_column: str | None, document_start: str | None) -> Corpus:
    start = _compiled(document_start)
    columns, column = _said(data.column_names, data.place, data.name, text_column)
    return _summed(data.name, lambda: _rows(data[column], column, data.place, start), columns)


def _files(path: Path) -> list[Path]:
    paths = path.rglob("*") if path.is_dir() else map(Path, glob(str(path), recursive=True))
    endings = (*TEXT_ENDINGS, *_ROW_FORMATS)
    files = sorted(file for file in paths if file.is_file() and file.name.lower().endswith(endings))
    if not files:
        raise DataError(f"{path}: holds no file that ends in one of {', '.join(endings)}")
    return files


def holds_running_text(path: Path) -> bool:
    """Whether a folder or pattern has text files, and no tables alone."""
    paths = path.rglob("*") if path.is_dir() else map(Path, glob(str(path), recursive=True))
    return any(file.name.lower().endswith(TEXT_ENDINGS) for file in paths)


def _joined(path: Path, corpora: list[Corpus]) -> Corpus:
    """Several files as one text."""
    digests = [corpus.digest for corpus in corpora]
    columns = {line.partition(": ")[2]: line for part in reversed(corpora) for line in part.columns}
    return Corpus(
        str(path), f"{path.name} ({len(corpora)} files)",
        lambda: chain.from_iterable(part.pieces() for part in corpora),
        hashlib.sha256("\n".join(digests).encode()).hexdigest(), corpora[0].reading,
        lambda: sum(map(characters_of, corpora)), tuple((part.name, part.digest) for part in corpora),
        tuple(columns.values()),
    )  # fmt: skip


def characters_of(corpus: Corpus) -> int:
    """The number of characters of a text."""
    return sum(len(piece.text) for piece in corpus.pieces()) if corpus.characters is None else corpus.characters()


def _counted(pieces: Callable[[], Iterator[Piece]], digest: str, reading: tuple[Any, ...]) -> int:
    """The characters of a file; counted once, and kept by what the file holds."""
    key = hashlib.sha256(json.dumps([digest, reading]).encode()).hexdigest()[:20]
    file = counts_folder() / key
    try:
        count, check = file.read_text().split()
        if check == _check(key, int(count)):
            return int(count)
    except (OSError, ValueError):
        pass
    total = sum(len(piece.text) for piece in pieces())
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, f"{total} {_check(key, total)}")
    return total


def _check(key: str, count: int) -> str:
    return hashlib.sha256(f"{key} {count}".encode()).hexdigest()[:16]


class HubSet(NamedTuple):
    """A data set on the Hugging Face hub, or a folder with the layout of one."""

    name: str
    configuration: str | None = None
    streaming: bool = False
    """Whether rows are read as they arrive, as often as they are needed, instead of from a copy on the disk."""

    def splits(self) -> list[str]:
        """The splits of the data set.

        Raises:
            DataError: it cannot be reached.
        """
        from datasets import get_dataset_split_names  # half a second, which files do without

        return [str(split) for split in self._asked("", get_dataset_split_names)]

    def corpus(self, split: str, text_column: str | None, document_start: str | None) -> Corpus:
        """The text of one split; each row is a document, or a line with `document_start`.

        Raises:
            DataError: it cannot be reached, or has no such split.
        """
        from datasets import load_dataset, load_dataset_builder

        start = _compiled(document_start)
        label = " ".join(part for part in (self.name, self.configuration, split) if part)
        if not self.streaming:
            LOG.info("loading %s from the Hugging Face hub, unless it was before", label)
        data = self._asked(split, partial(load_dataset, split=split, streaming=self.streaming))

        columns, column = _said(list(data.features or next(iter(data))), label, label, text_column)

        def pieces() -> Iterator[Piece]:
            return _rows((row[column] for row in data.select_columns([column])), column, label, start)

        if not self.streaming:
            return _summed(label, pieces, columns)
        # The library's own fingerprint of the files and their revision: to sum the rows is to load them all.
        made = self._asked(split, load_dataset_builder)
        digest = hashlib.sha256(f"{made.hash} {made.config_id} {split}".encode()).hexdigest()
        reading = (text_column, document_start)
        count = partial(_counted, pieces, digest, reading)
        return Corpus(label, label, pieces, digest, reading, count, columns=columns)

    def _asked(self, split: str, call: Callable[..., Any]) -> Any:
        try:
            return call(self.name, self.configuration)
        except Exception as error:  # no network, no such set, a proxy: all end in the same advice
            raise DataError(
                f"{self.name} {split}".rstrip() + f": could not be loaded from the hub ({type(error).__name__}); "
                "give local copies with --train-file, --validation-file and --test-file"
            ) from error


def python_topics() -> Corpus:
    """The reference of the Python language that `help()` shows: English text that comes with the interpreter."""
    from pydoc_data.topics import topics

    def pieces() -> Iterator[Piece]:
        for name in sorted(topics):
            yield Piece(topics[name].strip() + "\n", True)

    return _summed("pydoc_data.topics", pieces)


def _summed(name: str, pieces: Callable[[], Iterator[Piece]], columns: tuple[str, ...] = ()) -> Corpus:
    digest = hashlib.sha256()
    for piece in pieces():
        digest.update(f"{len(piece.text)} {piece.begins}\n{piece.text}".encode())
    return Corpus(name, name, pieces, digest.hexdigest(), columns=columns)


def between(corpus: Corpus, low: float, high: float, inside_lines: bool) -> Corpus:
    """The part of a text from one fraction of its characters to another.

    Args:
        corpus: the whole.
        low, high: fractions, 0 to 1.
        inside_lines: whether a cut falls on its very character; else on the end of the line or row.
    """
    total = characters_of(corpus)
    first, last = int(total * low), int(total * high)

    def pieces() -> Iterator[Piece]:
        seen = 0
        for text, begins in corpus.pieces():
            edges = [_edge(text, edge - seen, inside_lines) for edge in (first, last)]
            inside = text[edges[0] : edges[1]]
            if inside:
                yield Piece(inside, begins and edges[0] == 0)
            seen += len(text)
            if seen >= last:
                return

    reading = (*corpus.reading, low, high, inside_lines)
    return corpus._replace(pieces=pieces, reading=reading, characters=lambda: last - first)


def _edge(text: str, place: int, inside_lines: bool) -> int:
    """The position at which a cut at `place` falls within a piece: its ends if it lies outside."""
    if place <= 0:
        return 0
    if place >= len(text):
        return len(text)
    return place if inside_lines else (text.find("\n", place - 1) + 1 or len(text))


def _compiled(document_start: str | None) -> re.Pattern[str] | None:
    try:
        return None if document_start is None else re.compile(document_start)
    except re.error as error:
        raise DataError(f"--document-start: {document_start!r} is no regular expression: {error}") from error


def _blocks(path: Path) -> Iterator[str]:
    """A text file in blocks that end with a line where they can, else between words."""
    rest = ""
    opened = BoundedGzip(path) if path.suffix.lower() == ".gz" else path.open("rb")
    try:
        with io.TextIOWrapper(opened, encoding="utf-8-sig") as file:
            while block := file.read(BLOCK):
                if "\0" in block:
                    raise DataError(f"{path}: holds a zero byte; this looks like a binary file")
                rest += block
                cut = max(rest.rfind("\n"), rest.rfind(" ") if len(rest) > 8 * BLOCK else -1) + 1
                if cut:
                    yield rest[:cut]
                    rest = rest[cut:]
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error.reason}); save it as UTF-8 first") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not a whole gzip file: {error}") from error
    if rest:
        yield rest


def _documents(blocks: Iterator[str], start: re.Pattern[str] | None) -> Iterator[Piece]:
    first = True
    for block in blocks:
        lines = [block] if start is None else block.splitlines(keepends=True)
        for line in lines:
            yield Piece(line, first or (start is not None and start.match(line) is not None))
            first = False


def _said(names: list[str], place: str, name: str, text_column: str | None) -> tuple[tuple[str, ...], str]:
    """`Corpus.columns` of one file or set of rows, and the column of texts."""
    column = column_of(names, place, "text", text_column, TEXT_COLUMNS)
    return (said_columns(name, {"text": column}, names),), column


def _rows(texts: Iterable[object], column: str, place: str, start: re.Pattern[str] | None) -> Iterator[Piece]:
    first = True
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str) and text is not None:
            raise DataError(f"{place}: row {number}, column {column!r}: holds {kind_of(text)}, not text")
        text = text or ""
        begins = first or start is None or start.match(text) is not None
        yield Piece(text if text.endswith("\n") else text + "\n", begins)
        first = False
