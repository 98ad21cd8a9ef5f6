"""Assertions on refusals, in a line."""

from collections.abc import Callable

import pytest


def refused(error: type[Exception], said: str | None, call: Callable[..., object], *args: object, **kw: object) -> None:
    """A call raises this class of error, in words that match; for None, in any."""
    with pytest.raises(error, match=said):
        call(*args, **kw)
