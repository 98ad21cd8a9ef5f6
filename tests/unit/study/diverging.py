"""Runs whose loss is no number any more."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gatedrnn.errors import NonFiniteLoss
from gatedrnn.executors import here
from gatedrnn.train.result import RunResult


@contextmanager
def diverging(*folders: str) -> Iterator[None]:
    """Those of this process whose folders end so."""
    original = here.run

    def run(settings: Any, path: Path, on_step: Any = None) -> RunResult:
        if path.as_posix().endswith(folders):
            raise NonFiniteLoss(f"{path}: the loss is nan at step 1")
        return original(settings, path, on_step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(here, "run", run)
        yield
