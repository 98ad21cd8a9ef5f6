"""Cells that a page or an example registers."""

from collections.abc import Iterator

import pytest

from gatedrnn.registry import CELLS


@pytest.fixture
def only_our_cells() -> Iterator[None]:
    """They are forgotten after the test."""
    before = dict(CELLS)
    yield
    CELLS.clear()
    CELLS.update(before)
