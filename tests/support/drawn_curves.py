"""Pictures of a training's curves, drawn where a fast test looks at them: one takes as long as a small training.

The page of the same curves is made after every training, and in processes that tests start so are the pictures.
"""

import inspect
import sys
from collections.abc import Iterator
from functools import wraps
from importlib import import_module
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def curves_are_not_drawn(pytestconfig: pytest.Config) -> Iterator[None]:
    """Write an empty picture in the place of one; tests that are marked slow draw all."""
    if pytestconfig.getoption("markexpr") == "slow" or "gatedrnn.training.loop" not in sys.modules:
        yield  # the report loads much of which tests without trainings need nothing
        return
    report = import_module("gatedrnn.training.report")

    @wraps(report._draw)
    def leave_empty(curves: object, path: Path) -> None:
        path.write_text("<svg/>", encoding="utf-8")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "_draw", leave_empty)
        yield


@pytest.fixture
def drawn_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the curves of what this test trains or reports."""
    report = import_module("gatedrnn.training.report")
    monkeypatch.setattr(report, "_draw", inspect.unwrap(report._draw))
