"""Processes and threads beside this one: how many may be asked for, and that no process outlives its parent."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gatedrnn.errors import UsageError
from gatedrnn.records import cores

EACH_CORE = 4
"""Processes or threads for each core, at most: a machine that runs a thousand answers nobody."""
_allowed = False  # in this process, to ask for more


@contextmanager
def oversubscribing(allowed: bool) -> Iterator[None]:
    """Allow any number of processes within this context, if `allowed`."""
    global _allowed
    before, _allowed = _allowed, _allowed or allowed
    try:
        yield
    finally:
        _allowed = before


def may_oversubscribe() -> bool:
    """Whether more processes than cores may run here; a worker is sent it."""
    return _allowed


def check_cores(count: int, asked: str) -> None:
    """Check that the machine can run so many processes or threads.

    Args:
        count: of them.
        asked: the words that ask for them.

    Raises:
        UsageError: they are more than `EACH_CORE` for each core.
    """
    if count > EACH_CORE * cores() and not _allowed:
        raise UsageError(
            f"{asked}: this machine has {cores()} cores, and more than {EACH_CORE} for each of them only take "
            f"turns; give {EACH_CORE * cores()} or fewer, or --oversubscribe if you want them all the same"
        )


def end_with_parent() -> None:
    """Called by a child process as it begins: it ends within a second of its parent, which may be killed."""
    threading.Thread(target=_wait_for_end, args=(os.getppid(),), daemon=True).start()


def _wait_for_end(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
