"""What is refused, in a line."""

import pytest


def refused(error, said, call, *given, **named):
    """A call raises this class of error, in words that match; for None, in any."""
    with pytest.raises(error, match=said):
        call(*given, **named)
