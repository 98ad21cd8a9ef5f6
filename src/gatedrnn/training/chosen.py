"""The recipe of a run by its task: calls of what decides, from the data, settings that nobody gave."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple, cast

from gatedrnn.data import (
    FORECAST,
    SERIES,
    SERIES_REGRESSION,
    TASKS,
    TEXT,
    TEXT_REGRESSION,
    Examples,
    TaskData,
    load_task,
)
from gatedrnn.data.settings import SeriesTask, unknown_name
from gatedrnn.errors import UsageError
from gatedrnn.records import Json
from gatedrnn.training.forecast_recipe import forecast_recipe, size_for
from gatedrnn.training.recipes import Chosen, recipe_of, with_options
from gatedrnn.training.resources import fitting_batch
from gatedrnn.training.series_recipe import series_recipe
from gatedrnn.training.settings import CellSettings, ModelSettings, RunSettings, TrainSettings
from gatedrnn.training.text_recipe import text_recipe


def chosen(data: TaskData) -> dict[str, Chosen]:
    """The settings that these data decide, by the names of their flags; none for tasks whose recipe is fixed."""
    if data.name == FORECAST:
        return size_for(data)
    if data.name not in (TEXT, TEXT_REGRESSION, SERIES, SERIES_REGRESSION):
        return {}
    examples, classes = cast(Examples, data.train), len(data.label_names)
    if data.name in (TEXT, TEXT_REGRESSION):
        return text_recipe(examples.lengths.tolist(), classes)
    if examples.gaps is not None:
        whole, cells = (recipe_of(data.name, whole=flag) for flag in (True, False))
        reason = "convolutions take steps for equally far apart, and these are not: the recipe of cells alone"
        values = cells | {name: _default_of(name) for name in whole.keys() - cells.keys()}
        return {name: Chosen(value, reason) for name, value in values.items() if value != whole[name]}
    channels = cast(int, data.model_inputs["input_size"])
    return series_recipe(len(examples), int(examples.lengths.max()), channels, max(1, classes))


class Recipe(NamedTuple):
    """The values of flags that `train` and `forecast` take for some data, by name."""

    decided: dict[str, Chosen]
    """The values that the data decide."""
    fixed: dict[str, Json]
    """The values for all data of the task."""
    notes: list[str]
    """The notes on the data."""


def recipe_for(file: Path, task: str) -> Recipe:
    """The whole recipe for a file of training data.

    Raises:
        DataError: the file cannot be used.
    """
    settings = default_run(task, train_file=str(file))
    data, values = load_task(settings.data), settings.flat()
    decided = forecast_recipe(data) if task == FORECAST else chosen(data)
    fixed = {name: value for name, value in recipe_of(task, whole=True).items() if name not in decided}
    if settings.train.total_steps:
        fixed.pop("epochs", None)
    if values["batch_size"] != fixed.get("batch_size", values["batch_size"]):
        decided["batch_size"] = Chosen(values["batch_size"], "as many as fit into the memory that is available")
    return Recipe(decided, fixed, data.notes)


def _default_of(name: str) -> Json:
    kinds = (SeriesTask, ModelSettings, TrainSettings)
    return next(kind.model_fields[name].default for kind in kinds if name in kind.model_fields)


def default_run(task: str, **given: Json) -> RunSettings:
    """Settings of a run as `train` and `forecast` have them with default flags, but for those given, by their names."""
    return completed(run_of_recipe(task, **given), given)


def run_of_recipe(task: str, **given: Json) -> RunSettings:
    """Settings of a run by the task's recipe, but for those given; what the data decide is left at its default.

    Raises:
        UsageError: there is no such task.
        ValidationError: a setting is unknown or out of range, or does not go with another.
    """
    if task not in TASKS:
        raise UsageError(unknown_name("task", task, TASKS))
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
    decided = {name: choice.value for name, choice in chosen(data).items()}
    if "epochs" in given:  # in the place of the recipe's steps
        decided["total_steps"] = 0
    settings = with_values(settings, {name: value for name, value in decided.items() if name not in given})
    several = os.environ.get("WORLD_SIZE", "1") != "1"  # processes that must agree, and may see other memory
    if "batch_size" in given or several or not isinstance(data.train, Examples):
        return settings
    return with_values(settings, {"batch_size": fitting_batch(settings, load_task(settings.data))})


def with_values(settings: RunSettings, values: Mapping[str, Json]) -> RunSettings:
    """Settings with others of these names; the same object where nothing changes."""
    flat = settings.flat()
    changed = {name: value for name, value in values.items() if flat.get(name) != value}
    return RunSettings.from_flat(flat | changed) if changed else settings
