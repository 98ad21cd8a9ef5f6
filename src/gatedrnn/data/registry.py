"""Tasks by their names: those that installed packages register, and classes of a Python file that the user names.

A package registers a task as an entry point of the group `gatedrnn.tasks`: its name, and the class that is called with
this name, see `gatedrnn.training.task.Task`.
"""

import logging
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, TypeAlias

from pydantic import BeforeValidator, SerializeAsAny

from gatedrnn.data.settings import TaskSettings, unknown_name
from gatedrnn.errors import UsageError, reason
from gatedrnn.names import PROBES
from gatedrnn.records import Json
from gatedrnn.trust import class_of_file, file_of, is_in_file

if TYPE_CHECKING:
    from gatedrnn.data.task import TaskData

LOG = logging.getLogger("gatedrnn")
# The name of a group, not of the package: this floor lies below the tasks.
_GROUP = f"{__name__.partition('.')[0]}.tasks"
DEFAULT_TASK = "language-model"
"""The task of a training that names neither a task nor data."""


Parts = Mapping[str, Mapping[str, Json]]
"""Values of settings, by the part that they are of (contenders, data, model, train) and by name."""


class Recipe(NamedTuple):
    """The settings that a run of a task takes where the user gives none."""

    cells: Parts = {}
    """The recipe of cells alone, which `compare` takes."""
    beside: Parts = {}
    """The values that `train` and `forecast` take besides, or instead, for the parts beside the cells."""
    options: Mapping[str, str] = {}
    """Options of cells, by the name of a cell."""
    most_steps: bool = False
    """Whether more steps than the recipe's do not pay: they learn the training data by heart."""


class RegisteredTask(Protocol):
    """A task, as far as its data and the settings of its runs go."""

    name: str
    settings: type[TaskSettings]

    @property
    def recipe(self) -> Recipe:
        """The settings of a run where the user gives none."""
        ...

    def read(self, settings: TaskSettings) -> "TaskData":
        """Read the data."""
        ...


@cache
def _entry_points() -> dict[str, EntryPoint]:
    """The registered tasks; those of this package first, in the order of pyproject.toml."""
    # Reading the metadata of all installed packages takes milliseconds: once a process.
    found = sorted(entry_points(group=_GROUP), key=lambda entry: not entry.value.startswith("gatedrnn."))
    return {entry.name: entry for entry in found}


def task_names() -> list[str]:
    """The names of all registered tasks."""
    return [*_entry_points()]


def registered_task(name: str) -> RegisteredTask:
    """The task of a name, or of a word such as FILE.py:CLASS; the same object for the same name.

    Raises:
        UsageError: there is no such task, or it cannot be imported.
        UntrustedCode: it is a class of a file that may not be run.

    Example:
        >>> registered_task("digits").name
        'digits'
    """
    # The resolved path is part of the key: the same word means another file in another folder.
    return _of_file(name, str(file_of(name).resolve())) if is_in_file(name) else _of_package(name)


@cache
def _of_file(word: str, file: str) -> RegisteredTask:
    try:
        return _made(class_of_file(word), word, word)
    except ValueError as error:
        raise UsageError(f"--task {error}") from error


@cache
def _of_package(name: str) -> RegisteredTask:
    entry = _entry_points().get(name)
    if entry is None:
        raise UsageError(unknown_name("task", name, task_names()))
    place = f"{name}: {entry.value}" + ("" if entry.dist is None else f" of the package {entry.dist.name}")
    try:
        return _made(entry.load(), name, place)
    except Exception as error:  # running another package's code may raise anything
        raise UsageError(f"--task {place} cannot be imported: {reason(error)}; other tasks work") from error


def _made(kind: Any, name: str, place: str) -> RegisteredTask:
    settings = getattr(kind, "settings", None)
    if not (isinstance(settings, type) and issubclass(settings, TaskSettings)):
        raise ValueError(f"{place}: is no task, which names its `settings`, a subclass of TaskSettings")
    made: RegisteredTask = kind(name)
    return made


def settings_of(task: str) -> type[TaskSettings]:
    """The class of a task's settings; raises as `registered_task`."""
    return registered_task(task).settings


def all_settings() -> dict[str, type[TaskSettings]]:
    """The class of the settings of each registered task, by its name; those that cannot be imported are left out."""
    kinds = {}
    for name in task_names():
        try:
            kinds[name] = settings_of(name)
        except UsageError as error:
            LOG.warning("%s", error)
    return kinds


def data_settings(task: str, **given: object) -> TaskSettings:
    """Settings of a task by its name.

    Args:
        task: a registered one, or a class of a file.
        given: fields of its class; those of other tasks are refused.

    Raises:
        UsageError: there is no such task, or the setting belongs to another.
        ValidationError: a setting is unknown, or its value out of range.

    Example:
        >>> data_settings("digits", steps=64).steps
        64
    """
    kind = settings_of(task)
    for name in given:
        if name not in kind.model_fields and (owners := tasks_with(name)):
            raise UsageError(belongs(name, owners, task))
    return kind.model_validate({"task": task, **given})


def tasks_with(field: str) -> list[str]:
    """The tasks that have a setting of that name."""
    return [task for task, settings in all_settings().items() if field in settings.model_fields]


def belongs(field: str, owners: Iterable[str], task: str) -> str:
    """A sentence for a setting of another task; probes are named as one."""
    *most, last = dict.fromkeys("probes" if owner in PROBES else owner for owner in owners)
    named = f"{', '.join(most)} and {last}" if most else last
    return f"--{field.replace('_', '-')} belongs to {named}, not to {task}; name one with --task"


def _of_its_task(values: object) -> object:
    """A mapping as the settings of the task that it names."""
    if not isinstance(values, dict):
        return values
    flat = dict(values)
    return data_settings(str(flat.pop("task", "")), **flat)


DataSettings: TypeAlias = Annotated[SerializeAsAny[TaskSettings], BeforeValidator(_of_its_task)]
"""Settings of any task; from a mapping, of the task that it names."""
