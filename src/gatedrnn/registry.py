"""Every cell by its name, one entry a cell: models, commands and reports look cells up here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# "X as X" marks a re-export: mypy takes other imported names for private.
from gatedrnn.cells.base import CELLS as CELLS
from gatedrnn.cells.base import CellRecord as CellRecord
from gatedrnn.cells.base import register as register
from gatedrnn.equations import Equations, Option, option_word
from gatedrnn.errors import unknown


@dataclass(frozen=True)
class CellChoice:
    """A cell with its options, in one word: `gru`, `gru:reset_after=false`, `mingru:activation=identity`."""

    name: str
    options: Mapping[str, Option] = field(default_factory=dict)
    """The options that differ from their defaults."""

    @classmethod
    def parse(cls, text: str) -> "CellChoice":
        """Parse the word of a cell with its options.

        Raises:
            ValueError: there is no such cell or option, or the option does not take that value; the message names the
                nearest that exists.

        Example:
            >>> str(CellChoice.parse("gru:reset_after=False"))
            'gru:reset_after=false'
        """
        name, *settings = text.split(":")
        if name not in CELLS:
            raise ValueError(unknown("cell", name, CELLS))
        defaults, values = CELLS[name].options, dict[str, Option]()
        for setting in settings:
            option, equals, value = setting.partition("=")
            if not equals:
                raise ValueError(f"{text!r}: an option is given as {name}:option=value, got {setting!r}")
            if option not in defaults:
                if not defaults:
                    raise ValueError(f"{name} takes no options, got {option!r}")
                raise ValueError(unknown(f"option of {name}", option, defaults))
            values[option] = _value(f"{name}:{option}", value, defaults[option])
        # An option written with its default names the same cell, and words are keys of programs and runs.
        choice = cls(name, {option: value for option, value in values.items() if value != defaults[option]})
        # The constructor of the equations checks the value itself.
        choice.equations()  # which refuses a value that it does not take
        return choice

    def equations(self) -> Equations:
        """Return the cell's equations with these options."""
        return CELLS[self.name].equations(**self.options)

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the tensors of `hx`, in order."""
        equations = self.equations()
        return (*equations.states, *CELLS[self.name].layer.wrapper(equations).states)

    def __str__(self) -> str:
        return ":".join([self.name, *(f"{name}={option_word(value)}" for name, value in self.options.items())])


def _value(title: str, text: str, default: Any) -> Any:
    """Read a value of the type of the default."""
    # bool("false") is True, so that truth values are read by their names.
    if isinstance(default, bool):
        values = {"true": True, "false": False}
        if text.lower() not in values:
            raise ValueError(f"{title} must be true or false, got {text!r}")
        return values[text.lower()]
    try:
        return type(default)(text)
    except ValueError:
        raise ValueError(f"{title} must be of type {type(default).__name__}, got {text!r}") from None
