"""gatedrnn describe --recipe."""

from pathlib import Path

from rich.table import Table

from gatedrnn.data import FORECAST, tasks_kept
from gatedrnn.data.task_of_file import task_of_file
from gatedrnn.records import Json
from gatedrnn.terminal import Console
from gatedrnn.training.chosen import recipe_for


@tasks_kept()
def print_recipe(file: Path, task: str | None) -> None:
    """The settings of a run on a file's data, each with its reason.

    Args:
        task: guessed if None.
    """
    console = Console()
    task = task or task_of_file(file)
    recipe = recipe_for(file, task)
    for note in recipe.notes:
        console.print(note, highlight=False)
    command = "forecast" if task == FORECAST else "train --train-file"
    table = Table(title=f"gatedrnn {command} {file.name}: what it takes, and why", title_justify="left")
    for column in ("flag", "value", "reason"):
        table.add_column(column)
    for name, choice in recipe.decided.items():
        table.add_row(_flag(name), _as_typed(choice.value), choice.reason)
    table.add_section()
    for name, value in recipe.fixed.items():
        table.add_row(_flag(name), _as_typed(value), f"the same for every {task}")
    console.print(table)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _as_typed(value: Json) -> str:
    """A value as a flag has it."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
