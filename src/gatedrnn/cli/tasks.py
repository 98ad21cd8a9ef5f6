"""The flags of `compare` and `train`: those of the task that is named, with its recipe as their defaults."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from cyclopts import Parameter, UnknownOptionError
from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from gatedrnn.data import Settings, data_settings
from gatedrnn.data.registry import belongs, settings_of, tasks_with
from gatedrnn.data.settings import TaskSettings
from gatedrnn.training.recipes import recipe_of, with_options
from gatedrnn.training.settings import OF_SOME_TASKS, REMOVED

Command = Callable[..., None]


def asked(flag: str, tokens: Sequence[str]) -> str | None:
    """The value that a command line gives a flag; None if it does not."""
    for here, after in zip(tokens, [*tokens[1:], None], strict=True):
        if here == f"--{flag}":
            return after
        if here.startswith(f"--{flag}="):
            return here.partition("=")[2]
    return None


def task_of(command: Command, asked_for: str | None) -> str:
    """The task that a command line names, or the command's own if it names none.

    Raises:
        UsageError: there is no such task.
    """
    default = inspect.signature(command).parameters["data"].default.task
    return data_settings(default if asked_for is None else asked_for).task


def with_flags_of(
    task: str, command: Command, *, expert: bool, whole: bool, unnamed: str | None = None
) -> Command:  # fmt: skip
    """The command with the settings of a task: its own data settings, and its recipe's values as all defaults.

    Args:
        task: its name.
        command: its settings are annotated with subclasses of `Settings`, its data with `TaskSettings`.
        expert: whether the help page shows expert flags too; they are accepted in any case.
        whole: whether the recipe has the parts beside the cells.
        unnamed: the task where no flag names one; the command's own if None.
    """
    signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    recipe = recipe_of(task, whole=whole)
    if command.__name__ == "compare":  # which sets a validation part apart, whatever a run does
        recipe.pop("validation_fraction", None)
        recipe |= {k: v for k, v in recipe_of(task, whole=False).items() if k == "validation_fraction"}
    parameters = []
    for parameter in signature.parameters.values():
        annotation, default = hints[parameter.name], parameter.default
        if kind := _settings_in(annotation):
            if kind is TaskSettings:
                kind, recipe["task"] = settings_of(task), unnamed or default.task
            kind = _with_defaults_of(task, kind, recipe, expert)
            annotation = Annotated[kind, *annotation.__metadata__]
            default = kind()
        parameters.append(parameter.replace(annotation=annotation, default=default))

    signature = signature.replace(parameters=parameters)

    @wraps(command)
    def of_task(*files: object, **given: object) -> None:
        bound = signature.bind(*files, **given)
        bound.apply_defaults()
        command(*bound.args, **bound.kwargs)

    of_task.__signature__ = signature  # type: ignore[attr-defined]
    of_task.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return of_task


def unknown_flag(error: UnknownOptionError, task: str) -> str:
    """The message for a flag that a command does not have with a task; it names the tasks that have it, if any."""
    name = (error.token.keyword or error.token.value).partition("=")[0].strip("-[]").replace("-", "_")
    if name in REMOVED:
        return f"--{name.replace('_', '-')} {REMOVED[name]}"
    owners = tasks_with(name)
    return belongs(name, owners, task) if owners else " ".join(str(error).split())


def _settings_in(hint: object) -> type[Settings] | None:
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return kind if isinstance(kind, type) and issubclass(kind, Settings) else None


def _with_defaults_of(task: str, kind: type[Settings], recipe: Mapping[str, object], expert: bool) -> type[Settings]:
    fields: dict[str, Any] = {}
    of_data = settings_of(task)
    unused = {*OF_SOME_TASKS, *of_data.refuses} - {*of_data.uses}
    for name, field in kind.model_fields.items():
        rare = name in kind.expert or name in unused
        off = "--" + "-".join(["no", *name.split("_")]) if field.annotation is bool else ()
        shown = Parameter(show=expert or not rare, negative=off)
        fields[name] = (Annotated[field.annotation, *field.metadata, shown], _field(task, name, field, recipe))
    return create_model(kind.__name__, __base__=kind, **fields)


def _field(task: str, name: str, field: FieldInfo, recipe: Mapping[str, object]) -> Any:
    """A field with the recipe's default; a cell with its options in it."""
    if field.default_factory is not None:
        return Field(default_factory=field.default_factory)
    default = recipe.get(name, field.default)
    if name == "cell":
        default = with_options(task, str(default))
    elif name == "cells":
        default = [with_options(task, cell) for cell in field.default]
    return Field(default)
