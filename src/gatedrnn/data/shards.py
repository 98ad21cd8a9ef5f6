"""Numbers in files of equal length, mapped into memory and read as one array."""

from collections.abc import Sequence
from operator import index
from pathlib import Path

import numpy as np

LENGTH = 1 << 26
"""Numbers of a shard; the last one has fewer."""


class ShardWriter:
    """Writes `NAME-00000.tokens` and so on into a folder; used in a `with` block."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype, length: int | None = None) -> None:
        self.folder, self.name, self.dtype, self.length = folder, name, dtype, length or LENGTH
        self.count, self.written = 0, 0
        self._next()

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, numbers: np.ndarray) -> None:
        """Append numbers."""
        numbers = numbers.astype(self.dtype)
        while len(numbers):
            if self.written == self.length:
                self._file.close()
                self._next()
            part, numbers = np.split(numbers, [self.length - self.written])
            self._file.write(part.tobytes())
            self.written += len(part)

    def _next(self) -> None:
        self._file = (self.folder / f"{self.name}-{self.count:05d}.tokens").open("wb")
        self.count, self.written = self.count + 1, 0


def opened(paths: Sequence[Path], dtype: np.dtype) -> "Shards | np.ndarray":
    """The numbers of shards; a single one is an array as it is."""
    return Shards(paths, dtype) if len(paths) > 1 else np.memmap(paths[0], dtype, "r")


class Shards:
    """The numbers of shards in their order, as a read-only array of one axis.

    Args:
        paths: all of one length but for the last.
        dtype: of their numbers.
    """

    def __init__(self, paths: Sequence[Path], dtype: np.dtype) -> None:
        self.parts = [np.memmap(path, dtype, "r") for path in paths]
        self.dtype, self.length = dtype, len(self.parts[0])
        self.shape = (sum(map(len, self.parts)),)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, at: slice | int) -> np.ndarray:
        if not isinstance(at, slice):
            part, offset = divmod(index(at) % len(self), self.length)
            return self.parts[part][offset]
        first, last, stride = at.indices(len(self))
        if stride != 1:
            raise ValueError(f"shards are read step by step, got a stride of {stride}")
        numbers = range(first // self.length, -(-last // self.length))
        pieces = [self.parts[n][max(0, first - n * self.length) : last - n * self.length] for n in numbers]
        return pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, self.dtype), *pieces])

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return np.concatenate(self.parts).astype(dtype or self.dtype, copy=False)
