"""A disk that is full, for tests of what is written."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def small_files(most: int) -> Iterator[None]:
    """Limit files as a full disk would: none grows past so many bytes. Only as long as the code under test runs: the
    limit holds for a file that takes pytest's own output too.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
