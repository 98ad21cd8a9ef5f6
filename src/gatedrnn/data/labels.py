"""Labels that are more or less than one class a row: several a row, lists of words, numbers."""

import ast
import json
import re
from collections import Counter
from collections.abc import Collection, Sequence

from gatedrnn.errors import DataError
from gatedrnn.tables.files import NESTED, kind_of
from gatedrnn.tables.numbers import LARGEST, is_number
from gatedrnn.tables.table import Table

SEPARATOR = "|"
"""The mark between the labels of a row, in a field that is no list."""
TRUE, FALSE = ("1", "1.0", "true"), ("0", "0.0", "false")
"""Fields of a column that is a label."""
FEW = 20
"""Different numbers that may well be classes."""
_MAX_CLASSES = 200
"""Different whole numbers that may be classes."""


def listed(value: object) -> list[str] | None:
    """A list of words: as it is, or as a text that is one in JSON or in Python; None for anything else.

    Example:
        >>> listed("['a', 'b']"), listed('["a", 1]'), listed("a, b")
        (['a', 'b'], ['a', '1'], None)
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = _parsed(value)
    if not isinstance(value, list) or any(item is None or isinstance(item, NESTED) for item in value):
        return None
    return [str(item) for item in value]


WHOLE = re.compile(r"(-?\d+)\.0*")
"""A whole number with a point, as a column of whole numbers is read that once lacked some."""


def as_trained(labels: Sequence[str], names: Collection[str]) -> list[str]:
    """Labels by the names that they have in training: 1.0 is 1 where that is a name and 1.0 is none, and 1 is 1.0.

    Example:
        >>> as_trained(["1.0", "0", "x"], ["0", "1"])
        ['1', '0', 'x']
    """
    held, by_number = set(names), {WHOLE.sub(r"\1", name): name for name in names}
    return [label if label in held else by_number.get(WHOLE.sub(r"\1", label), label) for label in labels]


def _parsed(text: str) -> object:
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return None


def holds_lists(values: Sequence[object]) -> bool:
    """Whether all fields of a column that are not empty are lists of words."""
    there = [value for value in values if value is not None and value != ""]
    return bool(there) and all(listed(value) is not None for value in there)


def holds_several(values: Sequence[object]) -> bool | None:
    """Whether a column holds several labels a row: True for lists, and where most words between `|` come again in other
    combinations; False where no two fields are such combinations; None where it may be either."""
    if holds_lists(values):
        return True
    different = {value for value in values if isinstance(value, str)}
    joined = [value for value in different if len(_split(value)) > 1]
    combinations = Counter(label for value in different for label in _split(value))
    labels = {label for value in joined for label in _split(value)}
    again = sum(combinations[label] > 1 for label in labels)
    if 2 * again > len(labels):
        return True
    return False if len(joined) < 2 else None


def _split(value: str) -> set[str]:
    return {label.strip() for label in value.split(SEPARATOR)} - {""}


def several_in_column(data: Table, place: str, column: str) -> list[tuple[str, ...]]:
    """The labels of each row; none where the field is empty.

    Raises:
        DataError: a row holds an object or bytes, or a label has the separator in it.
    """
    sets = []
    for row, value in enumerate(data[column], start=1):
        where, labels = f"{place}: row {row}, column {column!r}", listed(value)
        if labels is None and isinstance(value, NESTED):
            raise DataError(f"{where}: holds {kind_of(value)}, not a list of labels")
        if labels is None:
            empty = value is None or value != value  # NaN is not itself
            labels = [] if empty else str(value).split(SEPARATOR)
        labels = [label.strip() for label in labels]
        held = next((label for label in labels if SEPARATOR in label), None)
        if held is not None:
            raise DataError(f"{where}: the label {held!r} holds {SEPARATOR}, which separates labels; rename it")
        sets.append(tuple(dict.fromkeys(label for label in labels if label)))
    return sets


def several_in_columns(data: Table, place: str, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """The labels of each row, from columns of 0 and 1 that have their names.

    Raises:
        DataError: a field is something else, or a name has the separator in it.
    """
    sets: list[list[str]] = [[] for _ in range(len(data))]
    for column in columns:
        if SEPARATOR in column:
            raise DataError(f"{place}: the column {column!r} holds {SEPARATOR}, which separates labels; rename it")
        for row, value in enumerate(data[column]):
            word = str(value).strip().lower()
            if word not in TRUE + FALSE:
                raise DataError(
                    f"{place}: row {row + 1}, column {column!r}: must be 0 or 1, as one of several columns of labels, "
                    f"got {str(value)[:40]!r}"
                )
            if word in TRUE:
                sets[row].append(column)
    return [tuple(labels) for labels in sets]


def words_in_column(data: Table, place: str, column: str) -> list[tuple[str, ...]]:
    """The words of each row: a list, or a text with blanks between them.

    Raises:
        DataError: a row holds something else.
    """
    texts = []
    for row, value in enumerate(data[column], start=1):
        words = listed(value)
        if words is None and isinstance(value, NESTED):
            raise DataError(f"{place}: row {row}, column {column!r}: must be a list of words, got {str(value)[:40]}")
        if words is None:
            words = [] if value is None or value != value else str(value).split()  # NaN is not itself
        texts.append(tuple(words))
    return texts


def tags_in_column(data: Table, place: str, column: str) -> list[tuple[str, ...]]:
    """The tags of each row, by name where the file has names for their numbers; -100 of a word without one.

    Raises:
        DataError: a row holds something else than a list.
    """
    names, words = data.class_names.get(column), words_in_column(data, place, column)
    if names is None:
        return words
    return [tuple(names[int(tag)] if int(tag) >= 0 else tag for tag in tags) for tags in words]


def check_as_many(
    words: Sequence[Sequence[str]], tags: Sequence[Sequence[str]], place: str, text: str, label: str
) -> None:
    """Check that each word has a tag.

    Raises:
        DataError: a row has another number of tags; it is named.
    """
    for row, (row_words, tagged) in enumerate(zip(words, tags, strict=True), start=1):
        if len(row_words) != len(tagged):
            raise DataError(
                f"{place}: row {row} has {len(row_words):,} words in {text!r} and {len(tagged):,} tags in {label!r}; "
                "each word has one tag, -100 where it has none"
            )


def check_numbers(labels: Sequence[str], place: str, column: str, task: str) -> None:
    """Check that each label is a number that float32 holds.

    Raises:
        DataError: one is not; its row is named.
    """
    for row, label in enumerate(labels, start=1):
        if not is_number(label):
            raise DataError(
                f"{place}: row {row}, column {column!r}: --task {task} predicts a finite number, got {label[:40]!r}; "
                "name another column with --label-column, or take --task text-classification"
            )
        if abs(float(label)) > LARGEST:
            raise DataError(
                f"{place}: row {row}, column {column!r}: {label} is too large; numbers up to {LARGEST:g} are read"
            )


def are_measured(labels: Sequence[str]) -> bool:
    """Whether labels are numbers to be predicted, not classes: there are many, and they have decimals, or hardly come
    again, or are more than classes are."""
    different = set(labels)
    if len(different) <= FEW or not all(map(is_number, different)):
        return False
    whole = all(float(label).is_integer() for label in different)
    return not whole or 2 * len(different) > len(labels) or len(different) > _MAX_CLASSES


def check_classes(labels: Sequence[str], place: str, column: str) -> None:
    """Check that labels are classes.

    Raises:
        DataError: they look like numbers to be predicted.
    """
    if are_measured(labels):
        raise DataError(
            f"{place}: column {column!r} holds {len(set(labels)):,} different numbers: is --task text-regression "
            "meant? Where each of them is a class, write a letter before it; or name another with --label-column"
        )
