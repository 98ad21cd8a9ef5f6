"""The columns that name the series of a long table: one, or several together."""

import csv
import io
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from gatedrnn.errors import Question
from gatedrnn.tables.files import column_of, names_in_column
from gatedrnn.tables.table import Table

SERIES_COLUMNS = (
    "unique_id", "id", "series", "series_id", "case", "record", "recordid", "recording", "recording_id", "trial",
)  # fmt: skip
"""Usual names of columns of series, in small letters."""
MIN_STEPS = 3
"""The fewest steps of each series, where none of the columns has a usual name for them."""
MIN_SHARE = 1 / 3
"""The share of all times that a series has in the mean: a measured value comes at fewer."""
_MAX_DOUBLED = 0.02
"""The part of the rows at times that come again, at most, that comes again within a series too."""
_MAX_KEYS = 3
"""Columns that name a series together, at most, where they are found."""


def with_key_column(data: Table, place: str, wanted: str) -> tuple[Table, str, tuple[str, ...]]:
    """A table with one column of names of series, its name, and the columns that it joins; () where it is one of them.

    Names of several columns are written as a line of CSV, so that 1 and 11 are not 11 and 1.

    Args:
        data: a table.
        place: the file, for messages.
        wanted: a column, or several with commas between.

    Raises:
        DataError: a column is not there, or a row has no name.
    """
    if wanted in data.column_names or "," not in wanted:
        return data, column_of(data.column_names, place, "series", wanted, ()), ()
    parts = [column_of(data.column_names, place, "series", name.strip(), ()) for name in wanted.split(",")]
    rows = zip(*(names_in_column(data, place, part) for part in parts), strict=True)
    name = ", ".join(parts)
    columns = {name: [as_line(row) for row in rows], **data.columns}
    return data.with_columns(columns), name, tuple(parts)


def is_constant(data: Table, series: str, name: str) -> bool:
    """Whether each series has one value of a column, such as its place or its label."""

    def pairs_are_few(keys: Sequence[object], values: Sequence[object]) -> bool:
        names = list(map(str, keys))
        return len({*zip(names, map(str, values), strict=True)}) == len({*names})

    # Most columns change within the first rows: few are looked at as a whole.
    return pairs_are_few(data.head(series), data.head(name)) and pairs_are_few(data[series], data[name])


def as_line(names: Sequence[str]) -> str:
    """Names as a line of CSV.

    Example:
        >>> as_line(["1", "11"]), split_line("1,11")
        ('1,11', ['1', '11'])
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def split_line(line: str) -> list[str]:
    """The names in a line of CSV."""
    return next(csv.reader([line]))


def find_keys(data: Table, place: str, names: Sequence[str], order: np.ndarray) -> str | None:
    """The column, or the fewest columns with commas between, whose values part rows at the same times into series of
    some length.

    Args:
        data: a table whose times come again.
        place: the file, for messages.
        names: columns that may be keys.
        order: (rows,), rising with time.

    Raises:
        DataError: several do, each in its own way.
    """
    codes = {name: np.unique([str(value).strip() for value in data[name]], return_inverse=True)[1] for name in names}
    # A column with as many values as rows names rows, not series.
    few = [name for name in names if 0 < codes[name].max(initial=0) < len(data) // MIN_STEPS]
    times = len(np.unique(order))
    for count in range(1, _MAX_KEYS + 1):
        found: dict[bytes, str] = {}
        for some in combinations(few, count):
            keys = np.unique(np.stack([codes[name] for name in some]), axis=1, return_inverse=True)[1].ravel()
            rows = np.lexsort((order, keys))
            again = (keys[rows][1:] == keys[rows][:-1]) & (order[rows][1:] == order[rows][:-1])
            counts = np.bincount(keys)
            long_enough = np.median(counts) >= MIN_STEPS and counts.mean() >= MIN_SHARE * times
            if long_enough and again.sum() <= _MAX_DOUBLED * (len(order) - times):
                _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
                found.setdefault(first[inverse].tobytes(), ",".join(some))
        if len(found) > 1:
            raise Question(
                f"{place}: times come more than once: which columns name the series?",
                [{"series_column": name.split(",")} for name in found.values()],
            )
        if found:
            return next(iter(found.values()))
    return None
