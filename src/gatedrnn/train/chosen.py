"""The part of a recipe that depends on the data: values of settings that nobody gave."""

from collections.abc import Collection
from typing import cast

from gatedrnn.data import SERIES, TEXT, Examples, TaskData, load_task
from gatedrnn.data.settings import SeriesTask
from gatedrnn.records import Json
from gatedrnn.train.recipes import recipe_of
from gatedrnn.train.series_recipe import series_recipe
from gatedrnn.train.settings import ModelSettings, RunSettings, TrainSettings
from gatedrnn.train.text_recipe import text_recipe


def chosen(data: TaskData) -> dict[str, Json]:
    """The settings that these data decide, by the names of their flags; none for tasks whose recipe is fixed."""
    examples, classes = cast(Examples, data.train), len(data.label_names)
    if data.name == TEXT:
        return text_recipe(len(examples), classes, several=examples.several)
    if data.name == SERIES and examples.gaps is not None:
        # Convolutions take steps for equally far apart: the recipe of cells alone.
        whole, plain = (recipe_of(SERIES, whole=flag) for flag in (True, False))
        return plain | {name: _default_of(name) for name in whole.keys() - plain.keys()}
    if data.name == SERIES:
        channels = cast(int, data.model_inputs["input_size"])
        return series_recipe(len(examples), int(examples.lengths.max()), channels, classes)
    return {}


def _default_of(name: str) -> Json:
    kinds = (SeriesTask, ModelSettings, TrainSettings)
    return next(kind.model_fields[name].default for kind in kinds if name in kind.model_fields)


def completed(settings: RunSettings, given: Collection[str]) -> RunSettings:
    """Settings of a run with what its data decide of those that nobody gave.

    Args:
        settings: with the recipe's fixed values for all others.
        given: names of settings that stay as they are.
    """
    own = chosen(load_task(settings.data)) if settings.data.task in (TEXT, SERIES) else {}
    if "epochs" in given:  # in the place of the recipe's steps
        own["total_steps"] = 0
    own = {name: value for name, value in own.items() if name not in given}
    return RunSettings.from_flat(settings.flat() | own) if own else settings
