"""Runs whose loss is no number any more."""

from contextlib import contextmanager

import pytest

from gatedrnn.errors import NonFiniteLoss
from gatedrnn.executors import work


@contextmanager
def diverging(*folders):
    """Let the runs of this process diverge whose folders end so."""
    original = work.run

    def run(settings, path, on_step=None):
        if path.as_posix().endswith(folders):
            raise NonFiniteLoss(f"{path}: the loss is nan at step 1")
        return original(settings, path, on_step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work, "run", run)
        yield
