"""Help that shows a task's own defaults: what a run of that task takes where nothing is given."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import Field, create_model

from gatedrnn.data import DataSettings, Settings
from gatedrnn.train.recipes import RECIPES


def asked(flag: str, tokens: Sequence[str]) -> str | None:
    """The value that a command line gives a flag; None if it does not."""
    for here, after in zip(tokens, [*tokens[1:], None], strict=True):
        if here == f"--{flag}":
            return after
        if here.startswith(f"--{flag}="):
            return here.partition("=")[2]
    return None


def with_defaults_of(task: str | None, command: Callable[..., Any]) -> Callable[..., Any]:
    """The command for its help page: the defaults of its settings are those of the task, its own task if None.

    Raises:
        ValidationError: there is no such task.
    """
    hints = get_type_hints(command, include_extras=True)
    own = next(kind for hint in hints.values() if (kind := _settings_in(hint)) and "task" in kind.model_fields)
    name = DataSettings(task=own.model_fields["task"].default if task is None else task).task

    @wraps(command)
    def shown(*args: Any, **kwargs: Any) -> Any:
        return command(*args, **kwargs)

    shown.__annotations__ = {parameter: _of_task(name, hint) for parameter, hint in hints.items()}
    return shown


def _settings_in(hint: Any) -> type[Settings] | None:
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return kind if isinstance(kind, type) and issubclass(kind, Settings) else None


def _of_task(task: str, hint: Any) -> Any:
    """The annotation, with the recipe's values as the defaults of the settings in it."""
    kind = _settings_in(hint)
    if kind is None:
        return hint
    recipe = {name: value for part in RECIPES[task].values() for name, value in part.items()}
    fields: dict[str, Any] = {
        name: (field.annotation, Field(recipe[name], description=field.description))
        for name, field in kind.model_fields.items()
        if name in recipe
    }
    return Annotated[create_model(kind.__name__, __base__=kind, **fields), *hint.__metadata__]
