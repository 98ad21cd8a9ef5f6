"""The roles of a table's columns: those that only count its rows are left out, and the rest is said in one line."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from gatedrnn.data.rows import RawTable

WITHOUT_NAME = re.compile(r"|unnamed: \d+(_level_\d+|\.\d+)*|__index_level_\d+__", re.IGNORECASE)
"""The name of a column that pandas wrote for an index without a name."""
INDEX = re.compile(r"index|level_\d+", re.IGNORECASE)
FEWEST_ROWS = 10
"""The rows from which a column of another name counts by chance no longer."""
SHOWN = 30
"""Names of a role in a line, at most."""


def without_row_numbers(data: RawTable, names: Sequence[str], keep: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Separate the columns to read from those that only count rows: columns without a name; those called index, and
    rising; or those holding 0, 1, 2, … or 1, 2, 3, … from the first row to the last, unless there is no other.

    Args:
        keep: names that are not left out, whatever they hold.
    """
    some = [name for name in names if name not in keep]
    left_out = {name for name in some if WITHOUT_NAME.fullmatch(name.strip()) or _is_index(data, name)}
    counts = {name for name in some if _counts(data[name])}
    left_out |= counts if left_out | counts != {*names} else set()
    return [name for name in names if name not in left_out], [name for name in names if name in left_out]


def _is_index(data: RawTable, name: str) -> bool:
    return INDEX.fullmatch(name.strip()) is not None and bool((_steps(data[name]) > 0).all())


def _counts(values: Sequence[object]) -> bool:
    return len(values) >= FEWEST_ROWS and str(values[0]) in ("0", "1") and set(_steps(values)) == {1}


def _steps(values: Sequence[object]) -> np.ndarray:
    """The differences from row to row; NaN where a column holds other things than numbers."""
    try:
        return np.diff(np.array([str(value) for value in values], np.float64))
    except ValueError:
        return np.array([np.nan])


def said_columns(
    name: object, roles: Mapping[str, str | Sequence[str] | None], names: Sequence[str], left_out: Sequence[str] = ()
) -> str:
    """A line on what was taken as what.

    Args:
        name: of the file.
        roles: columns by role; None and () where there is none.
        names: all columns; those without a role are not used.
        left_out: those of them that only count the rows.
    """
    listed = {role: [some] if isinstance(some, str) else list(some or ()) for role, some in roles.items()}
    taken = {column for columns in listed.values() for column in columns}
    listed["not used"] = [column for column in names if column not in taken and column not in left_out]
    listed["left out, as it only counts rows:"] = list(left_out)
    parts = [f"{role} {_shown(columns)}" for role, columns in listed.items() if columns]
    return f"Columns of {name}: {'; '.join(parts)}."


def _shown(columns: list[str]) -> str:
    more = f" and {len(columns) - SHOWN:,} more" if len(columns) > SHOWN else ""
    return ", ".join(map(repr, columns[:SHOWN])) + more
