"""The recipe of each task: the settings that a run takes where the user gives none."""

from typing import TypeVar

from gatedrnn.data import Settings
from gatedrnn.records import Json
from gatedrnn.training.task import task_named

S = TypeVar("S", bound=Settings)


def with_recipe(task: str, part: str, given: S) -> S:
    """Settings of a part (contenders, data, model, train): those given, and the task's recipe for all others."""
    recipe = task_named(task).recipe.cells
    return type(given)(**{**recipe.get(part, {}), **given.model_dump(include=given.model_fields_set)})


def recipe_of(task: str, *, whole: bool) -> dict[str, Json]:
    """The recipe of a task, by the names of its flags.

    Args:
        task: its name.
        whole: as `train` and `forecast` take it, with the parts beside the cells; else as `compare` does.
    """
    recipe = task_named(task).recipe
    parts = [*recipe.cells.values(), *(recipe.beside.values() if whole else ())]
    return {name: value for part in parts for name, value in part.items()}


def with_options(task: str, cells: str) -> str:
    """Cells, one or one a layer, with the options of the task's recipe where a bare name is given.

    Example:
        >>> with_options("mnist", "mingru,lstm")
        'mingru:activation=identity,lstm'
    """
    options = task_named(task).recipe.options
    return ",".join(options.get(cell, cell) for cell in cells.split(","))
