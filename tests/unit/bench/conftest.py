"""Sections without the time that they take."""

import pytest

from gatedrnn.bench import measure
from gatedrnn.timing import Samples


@pytest.fixture
def timed_once(monkeypatch):
    """Everything runs once, and is said to take a second."""

    def interleave(actions, seconds, synchronize):
        for action in actions.values():
            action()
        return {key: Samples({0: 1.0}, 1) for key in actions}

    monkeypatch.setattr(measure, "interleave", interleave)
