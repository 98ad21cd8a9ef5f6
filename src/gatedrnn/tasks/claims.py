"""The task that a file is for, if no task is named: by its ending, its columns and their values."""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from gatedrnn.data.corpus import TEXT_ENDINGS, holds_running_text
from gatedrnn.data.files import (
    LABEL_COLUMNS,
    holds_labels,
    label_column_of,
    number_column_of,
    tag_columns_of,
    text_column_of,
    with_names,
)
from gatedrnn.data.labels import are_measured, holds_lists
from gatedrnn.data.settings import FORECAST, LANGUAGE, SERIES, SERIES_REGRESSION, TAGGING, TEXT, TEXT_REGRESSION
from gatedrnn.errors import DataError, Question
from gatedrnn.tables.files import (
    FOLDER,
    FORMATS,
    column_of,
    ending_of,
    fields_of,
    holds_rows,
    in_a_sentence,
    is_several,
    read_table,
)
from gatedrnn.tables.keys import SERIES_COLUMNS
from gatedrnn.tables.layout import numbered_columns, times_as_rows
from gatedrnn.tables.numbers import is_number
from gatedrnn.tables.options import AS_SHOWN, DialectOptions
from gatedrnn.tables.questions import first_rows
from gatedrnn.tables.table import Table
from gatedrnn.tables.time_columns import with_names_of_parts, with_time_column, without_row_as_header
from gatedrnn.tasks.series.files import named_files
from gatedrnn.tasks.series.formats import is_regression, is_unnamed
from gatedrnn.tasks.series.measurements import holds_measurements

LOG = logging.getLogger("gatedrnn")


def task_of_file(path: Path, dialect: DialectOptions = AS_SHOWN) -> str:
    """The task of a file, with a line on why.

    Args:
        path: the file.
        dialect: how a CSV or TSV file is written, where it does not show it.

    Raises:
        DataError: it cannot be read, or says nothing; the flag that answers is named.
    """
    with in_a_sentence(path):
        task, why = _task_and_why(path, dialect)
    LOG.info("--task %s: %s", task, why)
    return task


def _task_and_why(path: Path, dialect: DialectOptions) -> tuple[str, str]:
    if (path.name.lower().endswith(TEXT_ENDINGS) and not holds_rows(path)) or (
        is_several(path) and holds_running_text(path)
    ):
        return LANGUAGE, f"{path.name} is running text"
    if ".ts" in path.suffixes:
        task, label = (SERIES_REGRESSION, "number") if is_regression(path) else (SERIES, "class")
        return task, f"{path.name} holds series with a {label} each"
    if not is_several(path) and (ending_of(path) not in FORMATS or not path.is_file()):
        return LANGUAGE, f"{path.name} is no table"  # which the reader says, with what it reads
    if is_unnamed(path) and not _begins_with_times(path) and _are_classes([row[0] for _, row in fields_of(path)]):
        return SERIES, f"{path.name} holds a series a row, its class first"
    if named_files(path, dialect) is not None:
        return SERIES, f"{path.name} names a file for each series"
    return _of_table(with_names(read_table(path, dialect), str(path)), str(path), path.name)


def _begins_with_times(path: Path) -> bool:
    with suppress(DataError):  # rows of unequal lengths
        data = read_table(path)
        return with_names_of_parts(data) is not data
    return False


def _are_classes(values: list[str]) -> bool:
    """Whether values are classes: few that come again, or whole numbers, most of which do."""
    whole = all(is_number(value) and float(value).is_integer() for value in values)
    return holds_labels(values) or (whole and 1 < len({*values}) <= len(values) // 2)


def _answer(ask: Callable[..., Any], *given: object) -> Any:
    """The answer, or None where the data leave a question."""
    try:
        return ask(*given, None)
    except DataError:
        return None


def _of_table(data: Table, place: str, name: str) -> tuple[str, str]:
    data = without_row_as_header(with_names_of_parts(data))
    names = {column.lower() for column in data.column_names}
    curves = numbered_columns(data.column_names)
    labels = [name for name in data.column_names if name not in curves and name.lower() in LABEL_COLUMNS]
    if curves and len(labels) == 1:
        task = SERIES if holds_labels(data[labels[0]]) else SERIES_REGRESSION
        return task, f"{name} holds a series a row, in {curves[0]!r} to {curves[-1]!r}, and {labels[0]!r}"
    turned = _answer(lambda _: times_as_rows(data, place, "D"))  # whatever the step of lists is
    if turned is not None and turned[0] is not data:
        return FORECAST, f"{name} holds a time in each column, or lists of values"
    time = _answer(with_time_column, data, place)
    ids = [column for column in data.column_names if column.lower() in SERIES_COLUMNS]
    several = any(len({*map(str, data[column])}) < len(data) for column in ids)  # rows of a series, not a row each
    if holds_measurements(data.column_names) or (time and several and names & {*LABEL_COLUMNS}):
        series, label = (
            column_of(data.column_names, place, "series", None, SERIES_COLUMNS),
            label_column_of(data, place, None, []),
        )
        labels = list(dict(zip(data[series], data[label], strict=True)).values())
        task = SERIES if holds_labels(labels) or not all(map(is_number, labels)) else SERIES_REGRESSION
        return task, f"{name} holds series with a label each, in {label!r}"
    tagged = _answer(tag_columns_of, data, place, None)
    if tagged is not None and all(holds_lists(data[column]) for column in tagged):
        return TAGGING, f"{name} holds words in {tagged[0]!r} and a tag for each in {tagged[1]!r}"
    text = _answer(text_column_of, data, place)
    if text is not None and (label := _answer(partial(label_column_of, taken=[text]), data, place)):
        if are_measured([str(value) for value in data[label]]):
            return TEXT_REGRESSION, f"{name} holds texts in {text!r} and many different numbers in {label!r}"
        return TEXT, f"{name} holds texts in {text!r} and labels in {label!r}"
    if FOLDER in data.column_names and not all(is_number(folder) for folder in {*data[FOLDER]}):
        asked = f"{place}: are folders classes of the series in their files, or are all files to be forecast?"
        raise Question(asked, [{"task": [SERIES]}, {"task": [FORECAST]}], first_rows(data))
    if time:
        return FORECAST, f"{name} holds numbers over time"
    if text is not None and (number := _answer(partial(number_column_of, taken=[text]), data, place)):
        if are_measured([str(value) for value in data[number]]):
            return TEXT_REGRESSION, f"{name} holds texts in {text!r} and many different numbers in {number!r}"
    if text is not None and len(data.column_names) == 1:
        return LANGUAGE, f"{name} holds texts alone"
    tasks = (TEXT, TEXT_REGRESSION, LANGUAGE) if text is not None else (FORECAST, SERIES, SERIES_REGRESSION)
    raise Question(f"{place}: which task is it for?", [{"task": [task]} for task in tasks], first_rows(data))
