"""Speeds of small comparisons are measured in a moment; and which runs begin."""

import pytest


@pytest.fixture(autouse=True)
def moments_alone(speed_in_a_moment):
    pass


@pytest.fixture
def started(monkeypatch):
    """The runs that begin, or go on, in this process: the last two names of their folders."""
    from gatedrnn.executors import work

    found, original = [], work.run

    def noted(settings, path, on_step=None):
        if not (path / "result.json").exists():
            found.append("/".join(path.parts[-2:]))
        return original(settings, path, on_step)

    monkeypatch.setattr(work, "run", noted)
    return found
