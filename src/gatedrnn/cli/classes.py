"""Tables of classes in a terminal: precision, recall and F1 of each, and their confusion."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from gatedrnn.terminal import Console

if TYPE_CHECKING:
    from gatedrnn.training.metrics import ClassScore
    from gatedrnn.training.result import RunResult

MOST_SHOWN = 16
"""Classes whose confusion is shown as a table."""


def print_classes_of(folder: Path, result: "RunResult", console: Console) -> None:
    """The classes of a finished run on its test split, and their confusion; nothing where there are none."""
    from gatedrnn.training.finished import label_names
    from gatedrnn.training.metrics import classes_of

    if not (classes := classes_of(result, label_names(folder))):
        return
    if len(classes) > MOST_SHOWN:
        console.print(f"Precision, recall and F1 of each of {len(classes)} classes are in the report.", highlight=False)
        return
    print_classes("test", classes, console)
    if result.confusion is not None:
        print_confusion("test", classes, result.confusion["test"], console, "in the report")


def print_classes(run: str, classes: "Sequence[ClassScore]", console: Console) -> None:
    """A row for each class, or for each of several labels.

    Args:
        run: its name, for the title.
    """
    table = Table(title=f"{run}: each class", title_justify="left")
    for column in ("class", "precision", "recall", "F1", "labels"):
        table.add_column(column, justify="left" if column == "class" else "right")
    for score in classes:
        table.add_row(score.name, *map(shown, score[1:]))
    console.print(table)


def print_confusion(
    run: str, classes: "Sequence[ClassScore]", confusion: Sequence[Sequence[int]], console: Console, otherwise: str
) -> None:
    """A row for each true class and a column for each predicted one.

    Args:
        run: its name, for the title.
        otherwise: where the confusion of many classes is.
    """
    if len(classes) > MOST_SHOWN:
        console.print(f"The confusion of {len(classes)} classes is {otherwise}.", highlight=False)
        return
    table = Table(title=f"{run}: confusion, true classes in rows", title_justify="left")
    table.add_column("true \\ predicted")
    for score in classes:
        table.add_column(score.name, justify="right")
    for score, row in zip(classes, confusion, strict=True):
        table.add_row(score.name, *map(shown, row))
    console.print(table)


def shown(value: object) -> str:
    """A cell of a table."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4f}" if abs(value) < 10 else f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
