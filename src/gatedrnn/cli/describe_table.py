"""gatedrnn describe FILE: how a table is read, and what a run takes for it."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from gatedrnn.cli.arguments import DATA, given
from gatedrnn.data import FORECAST
from gatedrnn.data.settings import TaskSettings
from gatedrnn.records import Json
from gatedrnn.terminal import Console


def describe_table(
    *, data: Annotated[TaskSettings, Parameter(name="*", group=DATA)] = TaskSettings(task=FORECAST)
) -> None:  # fmt: skip
    """Print how a table is read (dialect, roles of columns, grid), and what `gatedrnn train` and `gatedrnn forecast` do
    with it, each setting with its reason.

    Flags are those of the task's data: one that answers a question is tried here before a run takes it.
    """
    from gatedrnn.data import LANGUAGE, tasks_kept
    from gatedrnn.tables.files import FORMATS, ending_of, read_table
    from gatedrnn.tables.options import recorded_dialect
    from gatedrnn.training.chosen import recipe_for

    console, task, settings = Console(), data.task, given(data)
    file = Path(str(settings["train_file"]))
    if task != LANGUAGE and FORMATS.get(ending_of(file)) == "csv":
        dialect = read_table(file, recorded_dialect(settings)).dialect
        if dialect is not None:
            console.print(f"Dialect: {dialect}.", highlight=False)
    with tasks_kept():
        recipe = recipe_for(task, **settings)
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
