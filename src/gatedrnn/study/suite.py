"""A suite: comparisons of the same contenders on several tasks, from one YAML file to one joined report."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from pydantic import ValidationError

from gatedrnn.errors import Error, UsageError, reason
from gatedrnn.records import read_yaml
from gatedrnn.study.experiment import Comparison
from gatedrnn.study.joined import check_common
from gatedrnn.study.recipe import comparison_of_flags
from gatedrnn.study.report import write_report
from gatedrnn.study.results import ComparisonResults
from gatedrnn.study.settings import CompareSettings

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
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
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
