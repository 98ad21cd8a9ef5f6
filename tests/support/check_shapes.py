"""The checker of shapes that tests of operations run with (`--jaxtyping-packages`)."""

import types
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Annotated, Any, get_args, get_origin

import jaxtyping
from beartype import beartype


def check_shapes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check each call of a function, unless it takes a layer: of a protocol no argument can be asked for."""
    hints = getattr(function, "__annotations__", {})
    if any(getattr(hint, "_is_protocol", False) for hint in hints.values()):
        return function
    function.__annotations__ = {name: of_jaxtyping(hint) for name, hint in hints.items()}
    return beartype(function)


def of_jaxtyping(hint: Any) -> Any:
    """A hint with jaxtyping's types in the place of the aliases of `gatedrnn.shapes`."""
    if get_origin(hint) is Annotated:
        tensor, kind, axes = get_args(hint)
        return getattr(jaxtyping, kind)[tensor, axes]
    parts = tuple(map(of_jaxtyping, get_args(hint)))
    if parts == get_args(hint):
        return hint
    return reduce(or_, parts) if isinstance(hint, types.UnionType) else get_origin(hint)[parts]
