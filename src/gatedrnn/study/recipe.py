"""The settings of a comparison: those given, by the names of their flags, and its task's recipe for the rest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from gatedrnn.data import TASKS, Settings, data_settings, load_task
from gatedrnn.data.settings import unknown_name
from gatedrnn.errors import UsageError
from gatedrnn.study.settings import CompareSettings, ContenderSettings
from gatedrnn.study.space import search_settings
from gatedrnn.training.chosen import chosen
from gatedrnn.training.recipes import recipe_of, with_options
from gatedrnn.training.settings import ModelSettings, TrainSettings

OF_SEARCH = ("trials", "space", "minutes", "search_seed")


def comparison_of_flags(flags: Mapping[str, object], threads: int) -> CompareSettings:
    """The settings of a comparison.

    Args:
        flags: settings of data, contenders, model, training and search by the names of their flags, `task` among them.
        threads: of each run.

    Raises:
        UsageError: a setting is unknown, or does not go with another.
        ValidationError: one is out of range.
    """
    given = {name.replace("-", "_"): value for name, value in flags.items()}
    task = data_settings(str(given.pop("task"))).task
    kinds: dict[str, type[Settings]] = {
        "data": TASKS[task], "contenders": ContenderSettings, "model": ModelSettings, "train": TrainSettings,
    }  # fmt: skip
    known = [name for kind in kinds.values() for name in kind.model_fields] + [*OF_SEARCH]
    for name in given:
        if name not in known:
            raise UsageError(unknown_name("setting", name.replace("_", "-"), [n.replace("_", "-") for n in known]))
    search: dict[str, Any] = {name: given.pop(name) for name in OF_SEARCH if name in given}
    if search.get("space") is not None:
        search["space"] = Path(str(search["space"]))
    if not isinstance(search.get("minutes"), int | float | None):
        raise UsageError(f"minutes: must be a number, got {search['minutes']!r}")
    recipes = bool(given.get("recipes", False))
    values: dict[str, Any] = {**_recipe(task, recipes), **given}
    if recipes:
        values |= _decided(task, values, given)
    parts = {
        name: kind.model_validate({"task": task} | _of(kind, values) if name == "data" else _of(kind, values))
        for name, kind in kinds.items()
    }
    who = cast(ContenderSettings, parts["contenders"])
    contenders = who.model_dump()
    if who.ladder is None:
        contenders["cells"] = [with_options(task, cell) for cell in who.cells]
    model, train = cast(ModelSettings, parts["model"]), cast(TrainSettings, parts["train"])
    return CompareSettings.model_validate(
        {
            "contenders": contenders, "threads": threads, "data": parts["data"].model_dump(),
            "model": model.model_dump(), "train": train.model_dump(), "search": search_settings(model, train, **search),
        }
    )  # fmt: skip


def _recipe(task: str, whole: bool) -> dict[str, Any]:
    """The recipe of a task; a validation part is set apart in every comparison."""
    recipe = {**recipe_of(task, whole=whole)}
    recipe.pop("validation_fraction", None)
    return recipe | {k: v for k, v in recipe_of(task, whole=False).items() if k == "validation_fraction"}


def _decided(task: str, values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that nobody gave and the data decide, as `train` takes them."""
    data = data_settings(task, **_of(TASKS[task], values))
    decided = {name: choice.value for name, choice in chosen(load_task(data)).items() if name not in given}
    decided.pop("validation_fraction", None)
    return decided | ({"total_steps": 0} if "epochs" in given else {})


def _of(kind: type[Settings], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of one kind of settings; ones that are None are left to their defaults."""
    return {name: values[name] for name in kind.model_fields if name in values}
