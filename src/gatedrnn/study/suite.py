"""A comparison's settings by the names of flags; a suite of comparisons from one YAML file to one joined report."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, cast

import yaml
from pydantic import ValidationError

from gatedrnn.data import Settings, data_settings, load_task
from gatedrnn.data.registry import settings_of
from gatedrnn.data.settings import unknown_name
from gatedrnn.errors import Error, UsageError, reason
from gatedrnn.records import read_yaml
from gatedrnn.study.experiment import Comparison
from gatedrnn.study.joined import check_common
from gatedrnn.study.report import write_report
from gatedrnn.study.results import ComparisonResults
from gatedrnn.study.settings import CompareSettings, ContenderSettings
from gatedrnn.study.space import search_settings
from gatedrnn.training.recipes import recipe_of, with_options
from gatedrnn.training.settings import ModelSettings, TrainSettings
from gatedrnn.training.task import task_named

_OF_SEARCH = ("trials", "space", "minutes", "search_seed")


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
        "data": settings_of(task), "contenders": ContenderSettings, "model": ModelSettings, "train": TrainSettings,
    }  # fmt: skip
    known = [name for kind in kinds.values() for name in kind.model_fields] + [*_OF_SEARCH]
    for name in given:
        if name not in known:
            raise UsageError(unknown_name("setting", name.replace("_", "-"), [n.replace("_", "-") for n in known]))
    search: dict[str, Any] = {name: given.pop(name) for name in _OF_SEARCH if name in given}
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
    data = data_settings(task, **_of(settings_of(task), values))
    decided = {
        name: choice.value for name, choice in task_named(task).chosen(load_task(data)).items() if name not in given
    }
    decided.pop("validation_fraction", None)
    return decided | ({"total_steps": 0} if "epochs" in given else {})


def _of(kind: type[Settings], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of one kind of settings; ones that are None are left to their defaults."""
    return {name: values[name] for name in kind.model_fields if name in values}


Run: TypeAlias = Callable[[CompareSettings, Path], ComparisonResults]
LOG = logging.getLogger("gatedrnn")


def read_suite(file: Path, threads: int) -> dict[str, CompareSettings]:
    """Comparisons by name, in the order of the file.

    `tasks` holds a name and the settings of each; whatever else the file holds is shared by all of them. Settings
    are flags of `gatedrnn compare` without the dashes in front. A name is that of a task, or `task` names it.

    Args:
        file: YAML.
        threads: of each run.

    Raises:
        UsageError: the file cannot be read, or a setting is unknown or out of range; it names the task.

    Example::

        cells: [lstm, gru, mingru]
        match: [params]
        tasks:
          digits: {seeds: [0, 1, 2, 3, 4]}
          reviews: {task: text-classification, train-file: reviews.csv}
    """
    try:
        held: Any = read_yaml(file)
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"--suite {file}: cannot be read ({reason(error)})") from error
    if not isinstance(held, dict) or not isinstance(held.get("tasks"), dict) or len(held["tasks"]) < 2:
        raise UsageError(f"--suite {file}: must name two comparisons or more under 'tasks'")
    shared, suite = {name: value for name, value in held.items() if name != "tasks"}, {}
    for name, task_settings in held["tasks"].items():
        where = f"--suite {file}: {name}"
        if not isinstance(name, str) or Path(name).name != name:
            raise UsageError(f"{where}: a name becomes a folder's; write a word")
        if task_settings is not None and not isinstance(task_settings, dict):
            raise UsageError(f"{where}: must hold settings as 'name: value', got {task_settings!r}")
        with _naming(where):
            suite[name] = comparison_of_flags({"task": name, **shared, **(task_settings or {})}, threads)
    return suite


def run_suite(suite: Mapping[str, CompareSettings], folder: Path, run: Run, *, fresh: bool) -> list[Path]:
    """Run the comparisons one after another, each in a folder of `folder`, and write the report of each; their folders.

    Everything that can be refused is refused before the first one runs.

    Args:
        suite: as `read_suite` returns it.
        folder: of the suite.
        run: `experiment.compare` but for the settings and the folder.
        fresh: as it is given to `run`.

    Raises:
        UsageError: one cannot be run; they have fewer than two contenders in common, or different numbers of trials.
        Whatever `run` raises.
    """
    names: list[list[str]] = []
    for name, settings in suite.items():
        with _naming(f"--suite: {name}"):
            comparison = Comparison(settings, folder / name)
        comparison.check(fresh=fresh)
        names.append([contender.name for contender in comparison.contenders])
    check_common(names, list(suite))
    if len({settings.search and settings.search.trials for settings in suite.values()}) > 1:
        raise UsageError("--suite: all tasks need the same number of trials, or none")
    for name, settings in suite.items():
        LOG.info("%s, task %d of %d of the suite", name, list(suite).index(name) + 1, len(suite))
        run(settings, folder / name)
        write_report(folder / name)
    return [folder / name for name in suite]


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """Put the place before what is wrong there."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][-1:]).replace("_", "-")
        said = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{where}: {f'{place}: ' if place else ''}{said}") from error
    except Error as error:
        raise UsageError(f"{where}: {error}") from error
