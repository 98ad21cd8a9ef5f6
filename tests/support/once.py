"""Fixtures that cost much are made once for all worker processes, by the one that needs it first."""

from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder of that name, which `make` fills; tests read it, and copy what they change.

    A lock for each name: two workers that need different things make them at the same time.
    """
    base = factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base  # of a worker: its session's
    folder = shared / name
    with FileLock(shared / f"{name}.lock"):
        if not folder.exists():
            unfinished = shared / f"{name}.unfinished"  # a failure is raised in every worker, not taken for a result
            unfinished.mkdir(exist_ok=True)
            make(unfinished)
            unfinished.rename(folder)
    return folder
