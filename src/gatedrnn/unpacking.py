"""Packed files that anybody may have made: none unpacks to much more than itself."""

import gzip
import zipfile
from pathlib import Path

from gatedrnn.errors import DataError

MOST_TIMES = 200
"""The factor by which a file may grow when unpacked; text packs 3 to 20 times, gzip at most 1,032 times."""
ALWAYS_ALLOWED = 1 << 26
"""Bytes that any file may unpack to: a short text that repeats itself is no attack."""


def most_bytes(path: Path) -> int:
    """The most bytes that a packed file may unpack to."""
    return max(ALWAYS_ALLOWED, MOST_TIMES * path.stat().st_size)


class BoundedGzip(gzip.GzipFile):
    """A gzip file to read, which stops where it unpacks to more than `MOST_TIMES` its size and `ALWAYS_ALLOWED` bytes.

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
                f"{self._place}: unpacks to more than {self._most:,} bytes ({MOST_TIMES} times its size, or "
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
        size, most = sum(entry.file_size for entry in held.infolist()), most_bytes(path)
    if size > most:
        raise DataError(f"{path}: unpacks to {size:,} bytes, more than the {most:,} that a file of its size may have")
