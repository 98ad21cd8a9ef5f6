"""What commands share on the command line: cells by name, arguments that do not go together."""

import shlex
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from gatedrnn.registry import CELLS


def _known(_: object, value: str) -> None:
    if value not in CELLS:
        near = get_close_matches(value, CELLS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(CELLS)}"
        raise ValueError(f"there is no cell {value!r}; {hint}")


def at_least_one(_: object, value: int | None) -> None:
    """For numbers of things."""
    if value is not None and value < 1:
        raise ValueError("must be at least 1")


CellName: TypeAlias = Annotated[str, Parameter(validator=_known)]


def command_line() -> str:
    """The command as typed, files and folders by name alone."""

    def by_name(part: str) -> str:
        flag, equals, value = part.partition("=") if part.startswith("--") else ("", "", part)
        return flag + equals + (Path(value).name if "/" in value else value)

    return shlex.join(["gatedrnn", *(by_name(part) for part in sys.argv[1:])])
