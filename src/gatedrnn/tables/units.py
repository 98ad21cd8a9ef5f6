"""Units behind the numbers of a column, as dashboards write them: 1.68 kW, 841 MiB, 9.8 °C."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

_WITH_UNIT = re.compile(r"([+-]?[\d.,' ]*\d(?:[eE][+-]?\d+)?)(?:\s+([^\W\d_][\w/²³]{0,9})|\s*(°\w?))")
"""A number and its unit: a word behind a blank, or degrees."""
_PREFIXES = {
    "": 1.0, "n": 1e-9, "µ": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip


class Units(NamedTuple):
    """The unit of a column."""

    unit: str
    """The unit of most rows, in which all are read."""
    factors: dict[str, float]
    """The number by which values of each unit are multiplied."""


def units_of(fields: Iterable[str]) -> Units | None:
    """The unit of numbers that all have one, whatever its prefix; None where a field has none, or they differ.

    Example:
        >>> units_of(["1.5 kW", "2 kW", "800 W"])
        Units(unit='kW', factors={'kW': 1.0, 'W': 0.001})
        >>> units_of(["3 rooms", "2 baths"])
    """
    counts = Counter(split_unit(field)[1] for field in fields)
    if not counts or "" in counts:
        return None
    usual = counts.most_common(1)[0][0]
    # A unit such as m is a prefix too: whichever reading explains all units of the column is right.
    bases = [usual.removeprefix(prefix) for prefix in _PREFIXES if usual.startswith(prefix)]
    for base in filter(None, bases):
        scales = {unit: _PREFIXES.get(unit.removesuffix(base)) for unit in counts if unit.endswith(base)}
        factors = {unit: scale / (scales[usual] or 1) for unit, scale in scales.items() if scale is not None}
        if len(factors) == len(counts):
            return Units(usual, factors)
    return None


def split_unit(field: str) -> tuple[str, str]:
    """A field without its unit, and the unit; "" of none."""
    found = _WITH_UNIT.fullmatch(field)
    return (field, "") if found is None else (found[1].strip(), found[2] or found[3])
