"""The checker of shapes that tests of operations run with (`--jaxtyping-packages`)."""

from collections.abc import Callable
from typing import Any

from beartype import beartype


def check_shapes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check each call of a function, unless it takes a layer: of a protocol no argument can be asked for."""
    hints = getattr(function, "__annotations__", {}).values()
    return function if any(getattr(hint, "_is_protocol", False) for hint in hints) else beartype(function)
