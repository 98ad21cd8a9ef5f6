"""Cases of a test over several axes: every pair of values meets, without the full product.

Most faults show where two values meet (Kuhn, Wallace and Gallo 2004, "Software fault interactions"), so the fast suite
takes a covering array of strength 2; `make exhaustive` takes the product.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from inspect import signature
from itertools import combinations, product
from typing import Any, NamedTuple, TypeVar

import pytest

Key = TypeVar("Key")
Values = Sequence[Any] | Mapping[str, Any]  # of an axis


class Axis(NamedTuple):
    """An axis of which the fast suite takes a part: other values, other path through the code."""

    fast: Sequence[Any]
    every: Sequence[Any]


def over(where: Callable[..., bool] | None = None, **axes: Values | Axis) -> pytest.MarkDecorator:
    """Run a test over the axes that its arguments name.

    Args:
        where: whether a combination exists, by the arguments that it names; for None, every one does.
        axes: values by the argument's name; those of a mapping by their names in the test's id, of an `Axis` a part.

    Example:
        >>> @over(bias=(True, False), proj_size=(0, 2), layers=(1, 2))  # 4 cases, not 8
        ... def test_a_layer(bias, proj_size, layers): ...
    """
    return pytest.mark.over(where, axes)


def cases(where: Callable[..., bool] | None, axes: Mapping[str, Values | Axis], exhaustive: bool) -> list[Any]:
    """The parameters of each case, as `parametrize` takes them."""
    chosen = [axis[exhaustive] if isinstance(axis, Axis) else axis for axis in axes.values()]  # the fast part, or every
    named = [axis if isinstance(axis, Mapping) else dict(enumerate(axis)) for axis in chosen]
    asked = signature(where).parameters if where else ()

    def exists(row: Iterable[tuple[object, object]]) -> bool:
        given = {name: value for name, (_, value) in zip(axes, row, strict=True)}
        return where is None or where(**{name: given[name] for name in asked})

    rows = [row for row in product(*(axis.items() for axis in named)) if exists(row)]
    places = [list(axis) for axis in named]
    numbers = {tuple(place.index(k) for place, (k, _) in zip(places, row, strict=True)): row for row in rows}
    kept = rows if exhaustive or len(axes) < 3 else [numbers[row] for row in covering(numbers)]
    return [pytest.param(*(value for _, value in row), id="-".join(_word(*pair) for pair in row)) for row in kept]


def covering(rows: Iterable[Iterable[int]]) -> list[tuple[int, ...]]:
    """Few of the rows of numbers, in which every pair of values meets that meets in any; always the same ones."""
    return few_that_cover({row: set(pairs(row)) for row in map(tuple, rows)})


def few_that_cover(parts: Mapping[Key, Collection[object]]) -> list[Key]:
    """Few of the keys, whose parts together are all parts: the one with the most new ones, the first among equals."""
    left, found = {key: set(own) for key, own in parts.items()}, list[Key]()
    while any(left.values()):
        found.append(max(left, key=lambda key: len(left[key])))
        covered = left.pop(found[-1])
        for missing in left.values():
            missing -= covered
    return found


def pairs(row: Iterable[int]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Every two values of a row, each with the number of its axis."""
    return combinations(enumerate(row), 2)


def _word(name: object, value: object) -> str:
    """The word for a value in a test's id: the name that it has, or itself where that is short."""
    if isinstance(name, str):
        return name
    plain = getattr(value, "__name__", None) or str(value)
    return plain if len(plain) < 60 else str(name)
