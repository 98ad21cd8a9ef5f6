"""Questions on a table: all are asked at once, with its first rows."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TypeAlias, TypeVar, cast

from gatedrnn.errors import DataError, Question, typed
from gatedrnn.tables.table import Table

Read = TypeVar("Read")
_SHOWN_ROWS, _SHOWN_COLUMNS, _SHOWN_WIDTH = 3, 8, 24
"""Rows and columns of a table that are shown with a question, and characters of a field."""


def ask_at_once(read: Callable[[Mapping[str, Sequence[str]]], Read]) -> Read:
    """Read without an answer. Where there is a question, its first answer is taken to find the next, and all are asked
    together.

    Args:
        read: reads with the answers that are given it, settings by name.

    Raises:
        Question: of what the table does not tell.
        DataError: it cannot be read.
    """
    questions, answers = list[Question](), cast(Answers, {})
    while True:
        try:
            table = read(answers)
        except Question as question:
            if not question.answers and not questions:
                raise
            first = question.answers[0] if question.answers else {}
            given = {*first} <= {*answers} and all({*values} <= {*answers[name]} for name, values in first.items())
            if given or question.asked in (one.asked for one in questions):
                break  # its answer did not help
            questions.append(question)
            answers = _together(answers, first)
        except DataError:
            if not questions:
                raise
            break
        else:
            if not questions:
                return table
            break
    if len(questions) == 1:
        raise questions[0]
    asked = "; ".join(f"{one.asked} ({' or '.join(map(typed, one.answers))})" for one in questions)
    commands = [answers]
    for number, one in enumerate(questions):  # one question is answered otherwise, the others as before
        before, after = ([other.answers[0] for other in some] for some in (questions[:number], questions[number + 1 :]))
        commands += [reduce(_together, [*before, other, *after]) for other in one.answers[1:]]
    joint = Question(asked, commands[:1], questions[0].rows)
    joint.answers = commands
    raise joint


Answers: TypeAlias = Mapping[str, Sequence[str]]


def _together(answers: Answers, others: Answers) -> Answers:
    """Answers to two questions; of a setting that both give the later, but words for missing values of both."""
    missing = [*answers.get("missing", ()), *others.get("missing", ())]
    return {**answers, **others} | ({"missing": missing} if missing else {})


def first_rows(table: Table) -> list[str]:
    """The names and the first rows of a table, in columns of equal width.

    Example:
        >>> first_rows(Table({"ds": ["2024-01-01"], "y": ["1"]}))
        ['ds          y', '2024-01-01  1']
    """
    names = table.column_names[:_SHOWN_COLUMNS]
    columns = [[name, *map(str, table[name][:_SHOWN_ROWS])] for name in names]
    return _aligned([[_shortened(field) for field in column] for column in columns])


def _shortened(field: str) -> str:
    line = " ".join(field.split())
    return line if len(line) <= _SHOWN_WIDTH else f"{line[: _SHOWN_WIDTH - 1]}…"


def _aligned(columns: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in columns]
    return [
        "  ".join(field.ljust(width) for field, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    ]
