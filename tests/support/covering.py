"""Cases of a test over several axes: every pair of values meets, without the full product.

Most faults show where two values meet (Kuhn, Wallace and Gallo 2004, "Software fault interactions"), so the fast suite
takes a covering array of strength 2; `make exhaustive` takes the product.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

import pytest

Values = Sequence[Any] | Mapping[str, Any]
"""The values of an axis; of a mapping, by their names in the test's id."""
Pair = tuple[int, int, int, int]
"""One axis and the number of a value of its, twice."""


class Axis(NamedTuple):
    """An axis of which the fast suite takes a part: other values, other path through the code."""

    fast: Sequence[Any]
    every: Sequence[Any]


def over(where: Callable[..., bool] | None = None, **axes: Values | Axis) -> pytest.MarkDecorator:
    """Run a test over the axes that its arguments name.

    Args:
        where: whether a combination exists, by the arguments that it names; for None, every one does.
        axes: values by the argument's name.

    Example:
        >>> @over(bias=(True, False), proj_size=(0, 2), layers=(1, 2))  # 4 cases, not 8
        ... def test_a_layer(bias, proj_size, layers): ...
    """
    return pytest.mark.over(where, axes)


def cases(where: Callable[..., bool] | None, axes: Mapping[str, Values | Axis], exhaustive: bool) -> list[Any]:
    """The parameters of each case, as `parametrize` takes them."""
    chosen = [_values(axis, exhaustive) for axis in axes.values()]
    named = [axis if isinstance(axis, Mapping) else dict(enumerate(axis)) for axis in chosen]
    ids, values = [list(axis) for axis in named], [list(axis.values()) for axis in named]

    def exists(row: Sequence[int]) -> bool:
        given = {name: axis[number] for name, axis, number in zip(axes, values, row, strict=True)}
        return where is None or where(**{name: given[name] for name in _arguments(where)})

    numbers = [row for row in product(*(range(len(axis)) for axis in values)) if exists(row)]
    rows = numbers if exhaustive or len(axes) < 3 else covering(numbers)
    return [_case(ids, values, row) for row in rows]


def _case(ids: Sequence[Sequence[Any]], values: Sequence[Sequence[Any]], row: Sequence[int]) -> Any:
    """The values of a row of numbers, and their names."""
    chosen = [axis[number] for axis, number in zip(values, row, strict=True)]
    names = (axis[number] for axis, number in zip(ids, row, strict=True))
    return pytest.param(*chosen, id="-".join(map(_word, names, chosen)))


def covering(rows: Iterable[Sequence[int]]) -> list[Sequence[int]]:
    """Few of the rows, in which every pair of values meets that meets in any; always the same ones.

    Greedy: the row with the most pairs that no earlier one has, the first among equals.
    """
    left = {row: set(pairs(row)) for row in map(tuple, rows)}
    found: list[Sequence[int]] = []
    while left:
        best = max(left, key=lambda row: len(left[row]))
        covered = left.pop(best)
        if not covered:
            break
        found.append(best)
        for missing in left.values():
            missing -= covered
    return found


def pairs(row: Sequence[int]) -> Iterator[Pair]:
    """Every two values of a row."""
    for (i, a), (j, b) in combinations(enumerate(row), 2):
        yield i, a, j, b


def _values(axis: Values | Axis, exhaustive: bool) -> Values:
    if isinstance(axis, Axis):
        return axis.every if exhaustive else axis.fast
    return axis


def _arguments(function: Callable[..., bool]) -> Sequence[str]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def _word(name: Any, value: Any) -> str:
    """Of a value in a test's id: the name that it has, or itself where that is short."""
    if isinstance(name, str):
        return name
    plain = getattr(value, "__name__", None) or str(value)
    return plain if len(plain) < 60 else str(name)
