"""Text and labels from the user's own files, or from the hub."""

import hashlib
import logging
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from gatedrnn.data.labels import (
    SEPARATOR,
    check_as_many,
    check_classes,
    check_numbers,
    holds_lists,
    holds_several,
    listed,
    several_in_column,
    several_in_columns,
    tags_in_column,
    words_in_column,
)
from gatedrnn.errors import DataError, Question
from gatedrnn.tables.files import (
    FORMATS,
    NESTED,
    column_of,
    ending_of,
    kind_of,
    missing,
    names_in_column,
    read_table,
    reader,
    said_columns,
    without_row_numbers,
)
from gatedrnn.tables.numbers import is_number, numbers_of
from gatedrnn.tables.options import AS_SHOWN, DialectOptions, Order
from gatedrnn.tables.table import Table, is_number_of_column, type_kept
from gatedrnn.tables.time_columns import with_time_column
from gatedrnn.tables.times import read_times

LOG = logging.getLogger("gatedrnn")
LOOKED_AT = 100
"""Rows that say whether a column holds texts."""
MIN_WORDS, MIN_ROWS, MAX_LABELS = 3, 3, 200
"""The fewest words of a text, the fewest rows with a label, and the most labels, where no name tells their columns."""
TEXT_COLUMNS = ("text", "document", "sentence", "review", "content", "comment", "body")


LABEL_COLUMNS = (
    "label", "labels", "class", "category", "target", "sentiment", "klasse", "kategorie", "레이블", "라벨", "분류",
)  # fmt: skip
_NUMBER_COLUMNS = ("label", "target", "score", "rating", "stars", "value", "price", "number", "y")
_WORD_COLUMNS = ("tokens", "words")
_TAG_COLUMNS = ("tags", "ner_tags", "pos_tags", "labels", "label")
Kind: TypeAlias = Literal["class", "number", "tags"]
"""The label of a row: one class or several, a number, or a tag for each word."""


class LabelledTexts(NamedTuple):
    """One split as read: texts, labels as they stand in the file, and their names in order where the file says so."""

    texts: list[str]
    labels: list[str]
    """The label of each row; several labels have | between them."""
    label_names: tuple[str, ...] | None
    source: dict[str, Any]
    columns: tuple[str, *tuple[str, ...]]
    """The columns of the text, and of the label or of each of several."""
    groups: list[str] | None
    """The group that each row belongs to; None where no groups are asked for."""
    times: np.ndarray | None
    """(rows,): what rises with time, where it is asked for."""
    said: str
    """A line that says which columns were taken as what."""
    sets: list[tuple[str, ...]] | None = None
    """The labels of each row, where it has several, or the tags of its words; None where it has one."""
    words: list[tuple[str, ...]] | None = None
    """The words of each row that has tags; its text is these with blanks between them."""
    weights: np.ndarray | None = None
    """(rows,): what each counts in the loss; None where no weights are asked for."""
    label_type: str | None = None
    """The type of the labels, by pyarrow's name; None of text."""


class Wanted(NamedTuple):
    """Columns of a table of texts, and how they are read; None for what is guessed."""

    text: str | None = None
    label: str | Sequence[str] | None = None
    """The column of labels, or several columns of 0 and 1."""
    group: str | None = None
    time: str | None = None
    timed: bool = False
    """Whether times are read."""
    date_order: Order | None = None
    like: tuple[str, *tuple[str, ...]] | None = None
    """The columns of texts and labels of a table that this one goes with; None of the first."""
    kind: Kind = "class"
    several: bool | None = None
    """Whether a row has several labels; None where the column says it."""
    weight: str | None = None


_GUESSED = Wanted()


@reader
def read_file(path: Path, wanted: Wanted = _GUESSED, dialect: DialectOptions = AS_SHOWN) -> LabelledTexts:
    """A CSV, TSV, JSON-lines or Parquet file as texts and labels.

    Args:
        wanted: its columns.
        dialect: how CSV and TSV files are written.

    Raises:
        DataError: the file is missing, empty, unreadable, binary, not UTF-8, or lacks a column.
    """
    data = read_table(path, dialect)
    return _table(data, path.name, str(path), wanted)


def read_hub(name: str, split: str, wanted: Wanted) -> LabelledTexts:
    """One split of a data set on the Hugging Face hub."""
    from datasets import ClassLabel, load_dataset  # half a second, which tables do without

    LOG.info("loading %s %s from the Hugging Face hub, unless it was before", name, split)
    try:
        data = load_dataset(name, split=split)
    except Exception as error:  # no network, no such set, a proxy: all end in the same advice
        raise DataError(
            f"{name}: could not be loaded from the hub ({type(error).__name__}); "
            "give local copies with --train-file and --test-file"
        ) from error
    classes = {column: tuple(of.names) for column, of in data.features.items() if isinstance(of, ClassLabel)}
    return _table(Table(data[:], classes), f"{name} {split}", name, wanted)


def _table(data: Table, name: str, place: str, wanted: Wanted) -> LabelledTexts:
    if not len(data):
        raise DataError(f"{place}: there are columns but no rows")
    if wanted.kind == "tags":
        return _tagged(data, name, place, wanted)
    if wanted.text is None and wanted.label is None:
        data = with_names(data, place, wanted.like and wanted.like[0])
        if wanted.like is not None and {*wanted.like} <= {*data.column_names}:
            wanted = wanted._replace(text=wanted.like[0], label=wanted.like[1:])
    text = text_column_of(data, place, wanted.text)
    data, roles, groups, times = _together(data, place, wanted)
    named_labels = _labels(data, place, wanted, [text, *roles.values()])
    labels, names = named_labels.labels, named_labels.names
    texts = texts_in_column(data, place, text)
    digest = data.sha256 or hashlib.sha256("\0".join([*texts, *labels]).encode()).hexdigest()
    what = "number" if wanted.kind == "number" else "label" if named_labels.sets is None else "several labels"
    said = said_columns(name, {"text": text, what: named_labels.columns, **roles}, data.column_names)
    source: dict[str, Any] = {"name": name, "rows": len(texts), "sha256": digest}
    return LabelledTexts(
        texts, labels, names, source, (text, *named_labels.columns), groups, times, said, named_labels.sets,
        weights=_weights(data, place, wanted), label_type=type_kept(data.types.get(named_labels.columns[0])),
    )  # fmt: skip


def _together(
    data: Table, place: str, wanted: Wanted
) -> tuple[Table, dict[str, str], list[str] | None, np.ndarray | None]:
    """The table, the columns that say which rows belong together and when they were, the groups, and the times."""
    roles, groups, times = dict[str, str](), None, None
    if wanted.group is not None:
        roles["group"] = column_of(data.column_names, place, "group", wanted.group, ())
        groups = names_in_column(data, place, roles["group"], "group")
    if wanted.timed:
        data, roles["time"] = with_time_column(data, place, wanted.time)
        column = roles["time"]
        times = read_times(
            data[column], lambda row: f"{place}: row {row + 1}, column {column!r}", wanted.date_order
        ).order
    return data, roles, groups, times


def _tagged(data: Table, name: str, place: str, wanted: Wanted) -> LabelledTexts:
    """Lists of words, with a tag for each."""
    columns = (wanted.label,) if isinstance(wanted.label, str) else tuple(wanted.label or ())
    if len(columns) > 1:
        raise DataError(f"--label-column: the tags stand in one column, got {', '.join(columns)}")
    asked = columns[0] if columns else None
    if wanted.text is None and asked is None and wanted.like is not None and {*wanted.like} <= {*data.column_names}:
        text, label = wanted.like[0], wanted.like[-1]
    else:
        text, label = tag_columns_of(data, place, wanted.text, asked)
    data, roles, groups, times = _together(data, place, wanted)
    words, tags = words_in_column(data, place, text), tags_in_column(data, place, label)
    check_as_many(words, tags, place, text, label)
    texts, labels = ([" ".join(row) for row in rows] for rows in (words, tags))
    digest = data.sha256 or hashlib.sha256("\0".join([*texts, *labels]).encode()).hexdigest()
    said = said_columns(name, {"words": text, "tags": label, **roles}, data.column_names)
    source: dict[str, Any] = {"name": name, "rows": len(texts), "sha256": digest}
    names = data.class_names.get(label)
    weights = _weights(data, place, wanted)
    kept = type_kept(data.types.get(label))
    return LabelledTexts(texts, labels, names, source, (text, label), groups, times, said, tags, words, weights, kept)


def _weights(data: Table, place: str, wanted: Wanted) -> np.ndarray | None:
    """Weights of rows, if a column has them; only training must have it."""
    if wanted.weight is None or (wanted.like is not None and wanted.weight not in data.column_names):
        return None
    column = column_of(data.column_names, place, "weight", wanted.weight, ())
    return numbers_of(data[column], lambda row: f"{place}: row {row + 1}, column {column!r}")


def tag_columns_of(data: Table, place: str, text: str | None, label: str | None) -> tuple[str, str]:
    """The columns of words and of tags: those asked for, the only usual names, or the only two columns of lists, of
    which tags are the one with fewer different ones.

    Raises:
        DataError: one is not there, or several could be it.
    """
    names = {name.lower() for name in data.column_names}
    if text is None and label is None and not (names & {*_WORD_COLUMNS} and names & {*_TAG_COLUMNS}):
        lists = [name for name in data.column_names if holds_lists(data[name])]
        if len(lists) == 2:
            different = {name: len({word for row in data[name] for word in listed(row) or ()}) for name in lists}
            label, text = sorted(lists, key=lambda name: different[name])
    text = column_of(data.column_names, place, "text", text, _WORD_COLUMNS)
    return text, column_of(data.column_names, place, "label", label, _TAG_COLUMNS, [text])


class _Labels(NamedTuple):
    """The labels of a table."""

    columns: tuple[str, ...]
    labels: list[str]
    names: tuple[str, ...] | None = None
    sets: list[tuple[str, ...]] | None = None


def _labels(data: Table, place: str, wanted: Wanted, taken: Sequence[str]) -> _Labels:
    """One class a row, several, or a number; as it is asked for, or as the column says."""
    columns = (wanted.label,) if isinstance(wanted.label, str) else tuple(wanted.label or ())
    asked = columns[0] if len(columns) == 1 else None
    if wanted.kind == "number":
        if len(columns) > 1:
            raise DataError(f"--label-column: a number stands in one column, got {', '.join(columns)}")
        column = number_column_of(data, place, asked, taken)
        labels, _ = labels_in_column(data, place, column)
        check_numbers(labels, place, column, "text-regression")
        return _Labels((column,), labels)
    if len(columns) > 1:
        if wanted.several is False:
            raise DataError("--label-column: several columns are several labels; name one, or leave --several-labels")
        columns = tuple(column_of(data.column_names, place, "label", column, ()) for column in columns)
        return _with_several(columns, several_in_columns(data, place, columns))
    column = label_column_of(data, place, asked, taken)
    if wanted.several if wanted.several is not None else is_several_of(data[column], place, column):
        return _with_several((column,), several_in_column(data, place, column))
    labels, names = labels_in_column(data, place, column)
    check_classes(labels, place, column)
    return _Labels((column,), labels, names)


def _with_several(columns: tuple[str, ...], sets: list[tuple[str, ...]]) -> _Labels:
    return _Labels(columns, [SEPARATOR.join(labels) for labels in sets], None, sets)


def is_several_of(values: Sequence[object], place: str, column: str) -> bool:
    """Whether a column holds several labels a row.

    Raises:
        DataError: it may be either; the flag that says it is named.
    """
    several = holds_several(values)
    if several is None:
        example = next(value for value in values if isinstance(value, str) and SEPARATOR in value)
        raise Question(
            f"{place}: column {column!r}: is {example[:40]!r} one label or several?",
            [{"several_labels": ()}, {"several_labels": ["false"]}],
        )
    return several


def with_names(data: Table, place: str, like: str | None = None) -> Table:
    """A table of texts, with the numbers of its columns as names, and a warning, where its first line is a row: a text
    stands in it above texts, a label above labels, among which it comes again, a number above all else; and no word of
    it is a usual name.

    Args:
        like: the column of texts of a table that it goes with, which says it of both.
    """
    names = data.column_names
    words = {word for name in names for word in name.lower().split()}
    named = like is not None and not is_number_of_column(like)
    if named or FORMATS.get(ending_of(Path(place))) not in ("csv", "sheet") or words & {*TEXT_COLUMNS, *LABEL_COLUMNS}:
        return data
    if like is not None:
        return data if like in names else data.without_header()
    texts = [name for name in names if len(name.split()) >= MIN_WORDS and holds_texts(data.head(name))]
    others = [name for name in names if name not in texts]
    labels = [name for name in others if name in data[name] and holds_labels(data[name])]
    alike = all(name in labels or is_number(name) for name in others)
    if not texts or not others or not alike:
        return data
    LOG.warning("%s: the first line is a row, so that its columns are called 'column 1', 'column 2' …", place)
    return data.without_header()


def text_column_of(data: Table, place: str, wanted: str | None) -> str:
    """The column of texts: the one asked for, the only usual name, or the only column that holds texts.

    Raises:
        DataError: it is not there, or several could be it.
    """
    names = data.column_names
    if wanted is None and not any(name.lower() in TEXT_COLUMNS for name in names):
        columns = [name for name in names if holds_texts(data.head(name))]
        if len(columns) == 1:
            return columns[0]
    return column_of(names, place, "text", wanted, TEXT_COLUMNS)


def label_column_of(data: Table, place: str, wanted: str | None, taken: Sequence[str]) -> str:
    """The column of labels: the one asked for, the only usual name, or the only other column of few values.

    Args:
        taken: columns that are something else.

    Raises:
        DataError: it is not there, or several could be it.
    """
    names = [name for name in data.column_names if name not in taken]
    if wanted is None and not any(name.lower() in LABEL_COLUMNS for name in names):
        columns = [name for name in names if holds_labels(data[name]) or holds_lists(data[name])]
        if len(columns) == 1:
            return columns[0]
    return column_of(data.column_names, place, "label", wanted, LABEL_COLUMNS, taken)


def number_column_of(data: Table, place: str, wanted: str | None, taken: Sequence[str]) -> str:
    """The column of numbers to predict: the one asked for, the only usual name, or the only other column of numbers
    that does more than count the rows.

    Args:
        taken: columns that are something else.

    Raises:
        DataError: it is not there, or several could be it.
    """
    names, _ = without_row_numbers(data, [name for name in data.column_names if name not in taken])
    if wanted is None and not any(name.lower() in _NUMBER_COLUMNS for name in names):
        columns = [name for name in names if all(map(is_number, data[name]))]
        if len(columns) == 1:
            return columns[0]
    return column_of(data.column_names, place, "label", wanted, _NUMBER_COLUMNS, taken)


def holds_texts(values: Sequence[object]) -> bool:
    """Whether most fields of a column are several words, and few come again."""
    texts = [value for value in values if isinstance(value, str) and len(value.split()) >= MIN_WORDS]
    return len(texts) * 2 > len(values) and len(set(texts)) * 2 > len(texts)


def holds_labels(values: Sequence[object]) -> bool:
    """Whether a column has a few values, which come again."""
    there = [str(value) for value in values if value is not None and not isinstance(value, NESTED)]
    return 1 < len(set(there)) <= MAX_LABELS and len(set(there)) * MIN_ROWS <= len(there)


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Different labels: numbers by size, 2 before 10, then words by their letters.

    Example:
        >>> in_order(["10", "2", "none", "2"])
        ('2', '10', 'none')
    """
    return tuple(sorted(set(labels), key=lambda label: (float(label) if is_number(label) else math.inf, label)))


def texts_in_column(data: Table, place: str, column: str) -> list[str]:
    """The texts of a column; nothing is an empty text.

    Raises:
        DataError: a row holds an object, a list or bytes.
    """
    texts = []
    for row, value in enumerate(data[column], start=1):
        if isinstance(value, NESTED):
            raise DataError(f"{place}: row {row}, column {column!r}: holds {kind_of(value)}, not text")
        texts.append("" if value is None else str(value))
    return texts


def labels_in_column(data: Table, place: str, column: str) -> tuple[list[str], tuple[str, ...] | None]:
    """The labels of a column by name, and all names in order where the file lists them.

    Raises:
        DataError: a row has none, or holds an object, a list or bytes.
    """
    names = data.class_names.get(column)
    labels = []
    for row, value in enumerate(data[column], start=1):
        if isinstance(value, NESTED):
            raise DataError(f"{place}: row {row}, column {column!r}: holds {kind_of(value)}, not a label")
        if value is None or value == "" or value != value or (names is not None and value < 0):  # NaN is not itself
            raise missing("label", place, row, column)
        labels.append(names[value] if names is not None else str(value).strip())
    return labels, names
