"""Units behind the numbers of a column, as dashboards write them: 1.68 kW, 841 MiB, 9.8 °C."""

import re
from collections.abc import Iterable
from typing import NamedTuple

_WITH_UNIT = re.compile(r"([+-]?[\d.,' ]*\d(?:[eE][+-]?\d+)?)(?:\s+([^\W\d_][\w/²³]{0,9})|\s*(°\w?))")
"""A number and its unit: a word behind a blank, or degrees."""
_PREFIXES = {
    "n": 1e-9, "µ": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip
_BASES = ("W", "Wh", "V", "VA", "A", "Hz", "B", "B/s", "b", "bit", "bps", "Pa", "bar", "g", "m", "l", "L", "J", "N")
"""Units that have prefixes; a minute is none."""


class Units(NamedTuple):
    """The unit of a column."""

    unit: str
    """The unit in which all are read: without a prefix, so that it is the same in every file of the same numbers."""
    factors: dict[str, float]
    """The number by which values of each unit are multiplied."""


def units_of(fields: Iterable[str]) -> Units | None:
    """The unit of numbers that all have one, whatever its prefix; None where a field has none, or they differ.

    Example:
        >>> units_of(["1.5 kW", "800 W"])
        Units(unit='W', factors={'kW': 1000.0, 'W': 1.0})
        >>> units_of(["3 rooms", "2 baths"])
    """
    found = {unit: _without_prefix(unit) for unit in dict.fromkeys(split_unit(field)[1] for field in fields)}
    bases = {base for base, _ in found.values()}
    if len(bases) != 1 or "" in bases:
        return None
    return Units(bases.pop(), {unit: factor for unit, (_, factor) in found.items()})


def _without_prefix(unit: str) -> tuple[str, float]:
    """A unit without its prefix, and the factor of the prefix."""
    if unit not in _BASES:
        for prefix, factor in _PREFIXES.items():
            if unit.startswith(prefix) and unit.removeprefix(prefix) in _BASES:
                return unit.removeprefix(prefix), factor
    return unit, 1.0


def split_unit(field: str) -> tuple[str, str]:
    """A field without its unit, and the unit; "" of none."""
    found = _WITH_UNIT.fullmatch(field)
    return (field, "") if found is None else (found[1].strip(), found[2] or found[3])
