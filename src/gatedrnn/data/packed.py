"""gzip files of others: unpacked as far as their size makes sense."""

import gzip
from pathlib import Path

from gatedrnn.errors import DataError

MOST_TIMES = 200
"""How much larger than itself a file may unpack; text packs 3 to 20 times, gzip at most 1,032 times."""
ALWAYS_ALLOWED = 1 << 26
"""Bytes that any file may unpack to: a short text that repeats itself is no attack."""


class BoundedGzip(gzip.GzipFile):
    """A gzip file to read, which stops where it unpacks to more than `MOST_TIMES` its size and `ALWAYS_ALLOWED` bytes.

    Raises:
        DataError: in reading, where it would be more.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self._most = max(ALWAYS_ALLOWED, MOST_TIMES * path.stat().st_size)
        self._place, self._read = path, 0

    def read(self, size: int | None = -1) -> bytes:
        whole = size is None or size < 0
        return self._counted(super().read(self._most + 1 if whole else size))

    def read1(self, size: int = -1) -> bytes:
        return self._counted(super().read1(size))

    def _counted(self, found: bytes) -> bytes:
        self._read += len(found)
        if self._read > self._most:
            raise DataError(
                f"{self._place}: unpacks to more than {self._most:,} bytes ({MOST_TIMES} times its size, or "
                f"{ALWAYS_ALLOWED:,}); this looks like a gzip bomb. If it is not, unpack it and give the unpacked file"
            )
        return found
