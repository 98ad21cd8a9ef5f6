"""The settings that the data decide, task by task, where nobody gave them."""

import os
from collections.abc import Collection, Mapping
from typing import NamedTuple

from gatedrnn.data import Examples, load_task
from gatedrnn.errors import UsageError
from gatedrnn.records import Json
from gatedrnn.training.precision import faster_precision, in_precision
from gatedrnn.training.recipes import recipe_of, with_options
from gatedrnn.training.resources import fitting_batch
from gatedrnn.training.settings import CellSettings, RunSettings
from gatedrnn.training.task import Chosen, task_named


class RecipeForData(NamedTuple):
    """The values of flags that `train` and `forecast` take for some data, by name."""

    decided: dict[str, Chosen]
    """The values that the data decide."""
    fixed: dict[str, Json]
    """The values for all data of the task."""
    notes: list[str]
    """The notes on the data."""


def recipe_for(task: str, **given: Json) -> RecipeForData:
    """The whole recipe for training data, but for the settings that are given.

    Raises:
        DataError: the data cannot be used.
    """
    settings = default_run(task, **given)
    data, values = load_task(settings.data), settings.flat()
    decided = {n: choice for n, choice in task_named(task).chosen(data, explain=True).items() if n not in given}
    fixed = {n: value for n, value in recipe_of(task, whole=True).items() if n not in decided and n not in given}
    if settings.train.total_steps:
        fixed.pop("epochs", None)
    if values["batch_size"] != fixed.get("batch_size", values["batch_size"]):
        decided["batch_size"] = Chosen(values["batch_size"], "as many as fit into the memory that is available")
    return RecipeForData(decided, fixed, data.notes)


def default_run(task: str, **given: Json) -> RunSettings:
    """Settings of a run as `train` and `forecast` have them with default flags, but for those given, by their names."""
    return completed(run_of_recipe(task, **given), given)


def run_of_recipe(task: str, **given: Json) -> RunSettings:
    """Settings of a run by the task's recipe, but for those given; what the data decide is left at its default.

    Raises:
        UsageError: there is no such task.
        ValidationError: a setting is unknown or out of range, or does not go with another.
    """
    fixed: dict[str, Json] = {**CellSettings().model_dump(), "task": task, **recipe_of(task, whole=True)}
    named = fixed | given
    return RunSettings.from_flat(named | {"cell": with_options(task, str(named["cell"]))})


def completed(settings: RunSettings, given: Collection[str]) -> RunSettings:
    """Settings of a run with what its data, and the memory of this machine, decide of those that nobody gave.

    Args:
        settings: with the recipe's fixed values for all others.
        given: names of settings that stay as they are.
    """
    data = load_task(settings.data)
    decided = {name: choice.value for name, choice in task_named(settings.data.task).chosen(data).items()}
    if "epochs" in given:  # in the place of the recipe's steps
        decided["total_steps"] = 0
    settings = with_values(settings, {name: value for name, value in decided.items() if name not in given})
    several = os.environ.get("WORLD_SIZE", "1") != "1"  # processes that must agree, and may see other memory
    if "batch_size" not in given and not several and isinstance(data.train, Examples):
        settings = with_values(settings, {"batch_size": fitting_batch(settings, load_task(settings.data))})
    if settings.train.precision == "auto":
        if several:
            raise UsageError("--precision auto: several processes may measure different times; name the precision")
        settings = in_precision(settings, faster_precision(settings, data))
    return settings


def with_values(settings: RunSettings, values: Mapping[str, Json]) -> RunSettings:
    """Settings with others of these names; the same object where nothing changes."""
    flat = settings.flat()
    changed = {name: value for name, value in values.items() if flat.get(name) != value}
    return RunSettings.from_flat(flat | changed) if changed else settings
