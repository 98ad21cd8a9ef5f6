"""One writer a folder: a lock that the system releases when its process ends, however it ends."""

import datetime
import logging
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

from gatedrnn.errors import InUse
from gatedrnn.records import remove_folder

LOCK = ".lock"
"""The file in a folder that its writer holds: process number, and since when."""
LOG = logging.getLogger("gatedrnn")


@contextmanager
def sole_writer(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a folder, which is made if it is not there, against other processes that write into it.

    Args:
        folder: what is written into.
        wait: wait until it is free, and say so, instead of giving up.

    Raises:
        InUse: another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder / LOCK, f"{folder}", wait=wait):
        yield


def empty(folder: Path, keep: Collection[str] = ()) -> None:
    """Remove what is in a folder, but for the lock that its writer holds and files of these names."""
    for child in folder.iterdir():
        if child.is_dir() and not child.is_symlink():
            remove_folder(child)
        elif child.name not in (LOCK, *keep):
            child.unlink()


@contextmanager
def held(path: Path, what: str, *, wait: bool) -> Iterator[None]:
    """Hold the lock file `path`, which protects `what`; it is gone afterwards."""
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        if not wait:
            raise InUse(f"{what}: is in use by {_holder(path)}; use --wait to wait") from error
        LOG.warning("%s: is in use by %s; waiting", what, _holder(path))
        lock.acquire(poll_interval=0.2)
    # A file system without locks has files in their place, whose content is filelock's own.
    by_kernel = not isinstance(lock, SoftFileLock)
    try:
        if by_kernel:
            path.write_text(f"{os.getpid()} {datetime.datetime.now():%Y-%m-%d %H:%M}\n")
        yield
    finally:
        if by_kernel:
            with suppress(OSError):
                path.unlink()  # while it is held: who waits for this file sees that it is gone, and takes a new one
        lock.release()


def _holder(path: Path) -> str:
    """The holder of a lock, as far as its file says."""
    try:
        process, day, time = path.read_text().split()
    except (OSError, ValueError):
        return "another process"
    today = day == f"{datetime.datetime.now():%Y-%m-%d}"
    return f"process {process} since {time if today else f'{day} {time}'}"
