"""Bounds of files that anybody may have made: none takes much more memory than its own size, and what says so is read
before the rest."""

from __future__ import annotations

import gzip
import math
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL
from typing import TYPE_CHECKING

import numpy as np

from gatedrnn.children import start_python
from gatedrnn.errors import DataError

if TYPE_CHECKING:  # a quarter of a second, which files of other kinds do without
    import pyarrow as pa
    import pyarrow.parquet as pq

_MAX_TIMES = 200
"""The factor by which a file may grow when unpacked; text packs 3 to 20 times, gzip at most 1,032 times."""
ALWAYS_ALLOWED = 1 << 26
"""Bytes that any file may unpack to: a short text that repeats itself is no attack."""


def most_bytes(path: Path) -> int:
    """The most bytes that a packed file may unpack to."""
    return max(ALWAYS_ALLOWED, _MAX_TIMES * path.stat().st_size)


def check_size(path: Path, size: int) -> None:
    """Check that what a file holds is not much larger than the file.

    Args:
        size: bytes that it takes in memory, as far as the file says it or has been read.

    Raises:
        DataError: it is more than `most_bytes`.
    """
    most = most_bytes(path)
    if size > most:
        raise DataError(
            f"{path}: takes {size:,} bytes or more, and a file of its size may take {most:,}; this looks like a bomb. "
            "If it is not, save it as CSV"
        )


class BoundedGzip(gzip.GzipFile):
    """A gzip file to read, which stops where it unpacks to more than `_MAX_TIMES` its size and `ALWAYS_ALLOWED` bytes.

    Raises:
        DataError: in reading, where it would be more.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self._most = most_bytes(path)
        self._place, self._read = path, 0

    def read(self, size: int | None = -1) -> bytes:
        whole = size is None or size < 0
        return self._counted(super().read(self._most + 1 if whole else size))

    def read1(self, size: int = -1) -> bytes:
        return self._counted(super().read1(size))

    def _counted(self, block: bytes) -> bytes:
        self._read += len(block)
        if self._read > self._most:
            raise DataError(
                f"{self._place}: unpacks to more than {self._most:,} bytes ({_MAX_TIMES} times its size, or "
                f"{ALWAYS_ALLOWED:,}); this looks like a gzip bomb. If it is not, unpack it and give the unpacked file"
            )
        return block


def check_bounded(path: Path) -> None:
    """Check that a zip file, such as NumPy's, unpacks to no more than a gzip file may.

    Raises:
        DataError: it would unpack to more.
        BadZipFile: it is none.
    """
    with zipfile.ZipFile(path) as held:
        check_size(path, sum(entry.file_size for entry in held.infolist()))


def check_arrays(path: Path) -> None:
    """Check that an .npz file is bounded, and that each array in it is as large as its header says: NumPy takes memory
    for all of it first.

    Raises:
        DataError: it would unpack to more.
        ValueError: a header promises other bytes than there are.
        BadZipFile: it is none.
    """
    check_bounded(path)
    with zipfile.ZipFile(path) as held:
        for entry in held.infolist():
            with held.open(entry) as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(file)
                promised, there = math.prod(shape) * dtype.itemsize, entry.file_size - file.tell()
                if promised != there or (math.prod(shape) > there and not dtype.itemsize):
                    raise ValueError(f"{entry.filename}: promises {promised:,} bytes, holds {there:,}")


_FIELD = 8
"""Bytes that a field of a table takes at least when it is read: those of a reference."""


def check_table(path: Path, rows: int, columns: int) -> None:
    """Check that a table whose rows lack fields, such as JSON lines, has not many more fields than its file has bytes.

    Raises:
        DataError: it has.
    """
    check_size(path, _FIELD * rows * columns)


def check_parquet(path: Path, footer: pq.FileMetaData) -> None:
    """Check that a Parquet file holds no more than its size allows, by its footer: a column of one value is nearly free
    on disk.

    Raises:
        DataError: it holds more, or its footer is damaged.
    """
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    check_size(path, max(sum(group.total_byte_size for group in groups), _FIELD * footer.num_rows * footer.num_columns))
    _check_chunks(path, footer)
    fields = size = 0
    for group in groups:
        for index in range(group.num_columns):
            chunk = group.column(index)
            fields += max(group.num_rows, chunk.num_values)
            size += chunk.total_uncompressed_size
    check_size(path, max(size, _FIELD * fields))


def _check_chunks(path: Path, footer: pq.FileMetaData) -> None:
    """Check what the footer says of each column of each group of rows. Arrow ends the process where it is asked for a
    damaged description; it raises where it begins to read that column, whose first row may be a list of any length.

    Raises:
        DataError: a group has other columns than the file, or a description is damaged.
        ArrowException: a description is damaged.
    """
    import pyarrow.parquet as pq

    groups = range(footer.num_row_groups)
    if any(footer.row_group(number).num_columns != footer.num_columns for number in groups):
        raise DataError(f"{path}: cannot be read as parquet: a group of rows has other columns than the file")
    if any(footer.schema.column(index).max_repetition_level for index in range(footer.num_columns)):
        with start_python(_ASK_FOR_CHUNKS, stderr=DEVNULL) as child:
            child.communicate(os.fsencode(path))
        if child.returncode:
            raise DataError(f"{path}: cannot be read as parquet: what it says of its columns is damaged")
    else:
        with pq.ParquetFile(path, metadata=footer) as file:
            for number in groups:
                next(file.iter_batches(batch_size=1, row_groups=[number]), None)


_ASK_FOR_CHUNKS = """
import os, sys
import pyarrow.parquet as pq
footer = pq.read_metadata(os.fsdecode(sys.stdin.buffer.read()))
for number in range(footer.num_row_groups):
    for index in range(footer.num_columns):
        footer.row_group(number).column(index)
"""


def parquet_batches(path: Path, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file in batches, bounded by its footer, then by what has been read: a text that is
    in the file may stand in every row. Text and bytes are dictionaries of Arrow, which hold it once.

    Raises:
        DataError: it holds more than its size allows.
    """
    import pyarrow.parquet as pq

    footer = pq.read_metadata(path)
    check_parquet(path, footer)
    leaves = [footer.schema.column(index) for index in range(len(footer.schema))]
    texts = {leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"}
    widths = [leaf.length for leaf in leaves if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY"]
    for number in range(footer.num_row_groups):
        for index in range(footer.num_columns):
            chunk = footer.row_group(number).column(index)
            if any(encoding.startswith("DELTA") for encoding in chunk.encodings):  # which Arrow reads value by value
                texts.discard(chunk.path_in_schema)
                widths.append(chunk.total_uncompressed_size)  # a value may begin as the one before it
    rows, read = max(1, min(_ROWS_AT_ONCE, most_bytes(path) // max(1, *widths, 1))), 0
    with pq.ParquetFile(path, metadata=footer, read_dictionary=sorted(texts)) as file:
        for number in range(footer.num_row_groups):  # one after the other: each has a dictionary of its own
            for batch in file.iter_batches(columns=columns, batch_size=rows, row_groups=[number]):
                read += sum(map(_bytes_of, batch.columns))
                check_size(path, read)
                yield batch


_ROWS_AT_ONCE = 1 << 16


def _bytes_of(values: pa.Array) -> int:
    """The bytes of an array's values, each text as often as it occurs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(values.type):
        lengths = pc.binary_length(values.dictionary).cast(pa.int64())
        return pc.sum(lengths.take(values.indices)).as_py() or 0
    if pa.types.is_struct(values.type):
        return sum(map(_bytes_of, values.flatten()))
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type) or pa.types.is_map(values.type):
        return _FIELD * len(values) + (_bytes_of(values.values) if values.values is not None else 0)
    return int(values.nbytes)
