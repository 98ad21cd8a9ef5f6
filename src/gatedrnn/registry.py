"""Every cell by its name, one entry a cell: what models, commands and reports know of a cell they ask here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeVar

from gatedrnn.equations import Equations, Option, options_of
from gatedrnn.layers import RecurrentLayer, SingleStep
from gatedrnn.ops.cells import CLASSES, known

Layer = TypeVar("Layer", bound=type[RecurrentLayer])


@dataclass(frozen=True)
class CellRecord:
    """What belongs to one cell."""

    layer: type[RecurrentLayer]
    """The cell over time."""
    single_step: type[SingleStep] | None = None
    """One step of it as a module; None if it has none."""
    variants: tuple[Mapping[str, Option], ...] = ()
    """Options with which it is another cell, each to be verified by itself."""

    @property
    def equations(self) -> type[Equations]:
        """Its equations, to be made with its options."""
        return self.layer.cell_class

    @property
    def name(self) -> str:
        """As on the command line."""
        return self.equations.name

    @property
    def options(self) -> Mapping[str, Option]:
        """Keyword arguments of the equations, with their defaults."""
        return options_of(self.equations)


CELLS: dict[str, CellRecord] = {}
"""Every registered cell by its name, in the order in which they were registered."""


def register(
    layer: Layer, *, single_step: type[SingleStep] | None = None, variants: Iterable[Mapping[str, Option]] = ()
) -> Layer:
    """Make a layer known by its cell's name to models and to all commands, and its kernel to operations; a decorator.

    Args:
        single_step: the cell's single-step module, if it has one.
        variants: options with which it is another cell, each to be verified by itself.

    Raises:
        ValueError: another layer has that name.
        TypeError: it names no equations, or these have no name.

    Example:
        >>> from gatedrnn import MinGRU
        >>> from gatedrnn.registry import CELLS
        >>> CELLS["mingru"].layer is MinGRU
        True
    """
    name = getattr(getattr(layer, "cell_class", None), "name", None)
    if not name:
        raise TypeError(
            f"{layer.__name__} must name its equations, cell_class, and these their name, see "
            "gatedrnn.equations.Equations"
        )
    taken = CELLS[name].layer if name in CELLS else layer
    # A class that is defined again, as where a notebook is run again, takes its own place.
    if (taken.__module__, taken.__qualname__) != (layer.__module__, layer.__qualname__):
        raise ValueError(f"the name {name!r} is taken by {taken.__module__}.{taken.__qualname__}; choose another")
    record = CELLS[name] = CellRecord(layer, single_step, tuple(variants))
    CLASSES[name] = record.equations
    # A graph that was exported names equations by their word: those of every variant are there to be found.
    for options in ({}, *record.variants):
        known(record.equations(**options), anew=True)
    return layer


@dataclass(frozen=True)
class CellChoice:
    """A cell with its options, in one word: `gru`, `gru:reset_after=false`, `mingru:activation=identity`."""

    name: str
    options: Mapping[str, Option] = field(default_factory=dict)
    """Those that are not the default."""

    @classmethod
    def parse(cls, text: str) -> "CellChoice":
        """The choice that a word names.

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
        known, found = CELLS[name].options, {}
        for setting in settings:
            option, equals, value = setting.partition("=")
            if not equals:
                raise ValueError(f"{text!r}: an option is given as {name}:option=value, got {setting!r}")
            if option not in known:
                if not known:
                    raise ValueError(f"{name} takes no options, got {option!r}")
                raise ValueError(unknown(f"option of {name}", option, known))
            found[option] = _value(f"{name}:{option}", value, known[option])
        choice = cls(name, {option: value for option, value in found.items() if value != known[option]})
        choice.equations()  # which refuses a value that it does not take
        return choice

    def equations(self) -> Equations:
        """The cell's equations with these options."""
        return CELLS[self.name].equations(**self.options)

    def __str__(self) -> str:
        return ":".join([self.name, *(f"{name}={_word(value)}" for name, value in self.options.items())])


def _value(place: str, text: str, default: Any) -> Any:
    """A value of the type of the default."""
    if isinstance(default, bool):
        values = {"true": True, "false": False}
        if text.lower() not in values:
            raise ValueError(f"{place} must be true or false, got {text!r}")
        return values[text.lower()]
    try:
        return type(default)(text)
    except ValueError:
        raise ValueError(f"{place} must be of type {type(default).__name__}, got {text!r}") from None


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """A sentence for a name that does not exist, with the nearest that does."""
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    return f"there is no {kind} {name!r}; {hint}"
