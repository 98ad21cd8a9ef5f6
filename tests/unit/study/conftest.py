"""Speeds of small comparisons are measured in a moment."""

import pytest

from gatedrnn.study import experiment


@pytest.fixture(autouse=True, scope="session")
def speed_in_a_moment():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "SPEED_SECONDS", 0.05)
        yield
