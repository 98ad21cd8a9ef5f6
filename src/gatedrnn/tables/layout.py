"""Tables whose times are columns, turned so that times are rows: a column a date, a month or a step; or lists."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from gatedrnn.errors import DataError, Question
from gatedrnn.tables.numbers import holds_words
from gatedrnn.tables.options import MISSING, PLAIN
from gatedrnn.tables.table import Table
from gatedrnn.tables.time_columns import (
    MONTH_NUMBERS,
    STEP_COLUMNS,
    TIME_COLUMNS,
    YEAR_COLUMNS,
    may_be_times,
)
from gatedrnn.tables.times import are_dates

_MIN_ROWS = 3
"""Rows from which they may be the steps of series."""
MIN_STEPS = 8
"""Numbered columns from which they are the steps of a series."""
_NUMBERED = re.compile(r"(\D*)(\d+(?:[.,]\d*)?)(\D*)")
TIME, VALUE, STEP = "time", "value", "step"
_MADE = (TIME, STEP, f"({STEP})")
"""Columns of times that are made where a table has none."""
STARTS = ("start", "start_time", "first_time")
_FREQUENCIES = ("freq", "frequency")


def numbered_columns(names: Sequence[str]) -> list[str]:
    """The longest run of columns with one word and rising numbers: x_001 to x_100, or 850, 852 and so on.

    Example:
        >>> numbered_columns(["id", *(f"x_{n}" for n in range(9)), "fat"])[-1]
        'x_8'
    """
    runs: list[list[tuple[str, str, float]]] = [[]]
    for name in names:
        found = _NUMBERED.fullmatch(name.strip())
        column = None if found is None else (name, f"{found[1]}#{found[3]}", float(found[2].replace(",", ".")))
        last = runs[-1][-1] if runs[-1] else None
        if column is None or (last is not None and (column[1] != last[1] or column[2] <= last[2])):
            runs.append([])
        if column is not None:
            runs[-1].append(column)
    longest = max(runs, key=len)
    return [name for name, _, _ in longest] if len(longest) >= MIN_STEPS else []


def times_as_rows(
    data: Table, place: str, frequency: str | None = None, *, columns_are_steps: bool = False
) -> tuple[Table, str]:  # fmt: skip
    """The table with a row for each time, where its columns are times, and a sentence on it; any other as it is.

    Args:
        data: a table. A row is a series, with a column for each date or step; or a year, with a column for each month;
            or a series with its first time and a list of values, as GluonTS writes it.
        place: the file, for messages.
        frequency: the step of lists, where no column has it.
        columns_are_steps: whether columns are steps, where neither their names nor a name for each row show it.

    Raises:
        Question: lists have no frequency; or steps may be columns or rows.
        DataError: columns are to be steps, and there are too few of them.
    """
    names = data.column_names
    months = [name for name in names if name.strip().rstrip(".").casefold() in MONTH_NUMBERS]
    years = [name for name in names if name.strip().casefold() in YEAR_COLUMNS]
    if len(years) == 1 and [MONTH_NUMBERS[name.strip().rstrip(".").casefold()] for name in months] == [*range(1, 13)]:
        first = [[f"{year}-{number:02}" for number in range(1, 13)] for year in data[years[0]]]
        keys = [name for name in names[: names.index(months[0])] if name not in years]
        return _turned(data, months, first, keys, years)
    dated = [name for name in names if re.search(r"\d", name) and are_dates([name])]
    if len(dated) > 2 and len(dated) * 2 > len(names) and are_dates(dated):
        keys = [name for name in names[: names.index(dated[0])] if name not in dated]
        return _turned(data, dated, [dated] * len(data), keys)
    lists = [name for name in names if len(data) and data.holds(name, _are_lists)]
    starts = [name for name in names if name.casefold() in STARTS]
    if len(lists) == 1 and len(starts) == 1:
        return _from_lists(data, lists[0], starts[0], frequency, place)
    return _steps_as_rows(data, place, columns_are_steps)


def _are_lists(values: Sequence[object]) -> bool:
    return all(isinstance(value, list) for value in values)


def _steps_as_rows(data: Table, place: str, columns_are_steps: bool) -> tuple[Table, str]:
    """The table with a row for each step, where its columns are steps: by their numbers and a name for each row."""
    names = data.column_names
    words = {name for name in names if holds_words(data.head(name), PLAIN)}
    steps = numbered_columns(names) or [name for name in names if columns_are_steps and name not in words]
    if steps and steps[0] in words:  # as M4 has them: V1 holds names, V2 and so on values
        steps = steps[1:]
    if len(steps) < (2 if columns_are_steps else MIN_STEPS):
        if columns_are_steps:
            raise DataError(f"{place}: --columns-are-steps: there are no columns of numbers to be steps")
        return data, ""
    keys = [name for name in names if name in words and name not in steps and not are_dates(data.head(name))]
    # Numbers of stations and wavelengths have four digits too: years have names of series before them, and no more.
    of_years = len(steps) + len(keys) == len(names) and all(_YEAR.fullmatch(name.strip()) for name in steps)
    named = _unique_together(data, keys)
    if not named and not (columns_are_steps or of_years):
        if len(steps) < len(names) and not has_no_times(data):
            return data, ""
        if len(data) >= _MIN_ROWS:
            raise Question(
                f"{place}: are the columns {steps[0]!r} to {steps[-1]!r} series, or the steps of a series a row?",
                [{"columns_are_steps": ()}, {"rows_are_steps": ()}],
            )
    columns = data.columns
    if not named and len(data) > 1:
        named, columns = [_ROW], {_ROW: [str(row) for row in range(1, len(data) + 1)], **data.columns}
    # Years are times that go on; a step's number is a count that begins with each series.
    times = steps if of_years else [str(step) for step in range(1, len(steps) + 1)]
    return _turned(data.with_columns(columns), steps, [times] * len(data), named)


def is_made(time: str | None, data: Table) -> bool:
    """Whether a column of times was made when a table like this one was read."""
    return time in _MADE and time not in data.column_names


def _unique_together(data: Table, keys: Sequence[str]) -> list[str]:
    """The fewest columns of words, up to three, whose names together tell the rows apart; none if there are none."""
    texts = {name: list(map(str, data[name])) for name in keys}
    counts = {name: len({*values}) for name, values in texts.items()}
    for count in range(1, _MAX_KEYS + 1):
        for some in itertools.combinations(keys, count):
            if math.prod(counts[name] for name in some) < len(data):  # too few for so many rows
                continue
            if len({*zip(*(texts[name] for name in some), strict=True)}) == len(data):
                return list(some)
    return []


_MAX_KEYS = 3
_YEAR = re.compile("1[6-9]\\d\\d|2[0-5]\\d\\d")
_ROW = "row"


def with_steps(data: Table, series: str | None) -> tuple[Table, str]:
    """A table whose rows are steps, with the column of their numbers, which start with each series anew.

    Args:
        series: the column of the series' names; None where all rows are of one series.
    """
    rows = Counter[str]()
    steps = list[str]()
    for name in [""] * len(data) if series is None else map(str, data[series]):
        steps.append(str(rows[name]))
        rows[name] += 1
    column = next(name for name in (STEP, f"({STEP})") if name not in data.column_names)
    return data.with_columns({column: steps, **data.columns}), column


def has_no_times(data: Table) -> bool:
    """Whether all columns hold numbers, none of them rises as times do, and none is called as times are."""
    usual = {*TIME_COLUMNS, *STEP_COLUMNS, *YEAR_COLUMNS}
    return not any(
        name.strip().lower() in usual or holds_words(data.head(name), PLAIN) or data.holds(name, may_be_times)
        for name in data.column_names
    )


def _turned(
    data: Table, columns: Sequence[str], times: Sequence[Sequence[str]], keys: Sequence[str],
    years: Sequence[str] = (),
) -> tuple[Table, str]:  # fmt: skip
    """One row for each of these columns of each row; empty fields at the ends of a row are no rows."""
    values = list(zip(*(data[name] for name in columns), strict=True))
    rows = list[tuple[int, int]]()
    for row, of_row in enumerate(values):
        there = [step for step, value in enumerate(of_row) if str(value).strip().casefold() not in MISSING]
        rows += [(row, step) for step in range(there[0], there[-1] + 1)] if there else []
    used = {*columns, *keys, *years}
    left_out = [name for name in data.column_names if name not in used]
    turned = {name: [data[name][row] for row, _ in rows] for name in keys}
    turned |= {TIME: [times[row][step] for row, step in rows], VALUE: [values[row][step] for row, step in rows]}
    unused = f"; not used: {', '.join(left_out[:9])}" if left_out else ""
    kind = "steps" if times and times[0][0] == "1" else "times"
    said = f"The columns {columns[0]!r} to {columns[-1]!r} are {kind}{unused}."
    return replace(data, columns=turned, types={}, class_names={}), said


def _from_lists(data: Table, values: str, start: str, frequency: str | None, place: str) -> tuple[Table, str]:
    import pandas as pd

    names = data.column_names
    steps = [name for name in names if name.casefold() in _FREQUENCIES]
    if frequency is None and not steps:
        raise Question(
            f"{place}: column {values!r} holds lists, and no column their step",
            [{"frequency": [step]} for step in ("D", "W", "MS", "h")],
        )
    keys = [name for name in names if name not in (values, start, *steps) and not isinstance(data[name][0], list)]
    columns: dict[str, list[object]] = {name: [] for name in (*keys, TIME, VALUE)}
    for row, numbers in enumerate(data[values]):
        step = frequency or str(data[steps[0]][row])
        try:
            times = pd.date_range(str(data[start][row]), periods=len(numbers), freq=step)
        except ValueError as error:
            raise DataError(f"{place}: row {row + 1}: {error}") from error
        columns[TIME] += [str(time) for time in times]
        columns[VALUE] += numbers
        for name in keys:
            columns[name] += itertools.repeat(data[name][row], len(numbers))
    said = f"Column {values!r} holds a list of values, each a step."
    return replace(data, columns=columns, types={}, class_names={}), said
