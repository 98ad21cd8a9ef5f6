"""Parts that commands share: cells as arguments (parsed in `registry`), groups of flags, the command line, large
pages.
"""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from cyclopts import Group, Parameter

from gatedrnn.names import refuse_unknown
from gatedrnn.records import Json
from gatedrnn.runs import Baselines as Baselines

if TYPE_CHECKING:
    from gatedrnn.data import Settings

DATA, MODEL, TRAINING, COMPARISON, SEARCH, RUN = (
    Group(title, sort_key=place)
    for place, title in enumerate(("Data", "Model", "Training", "Comparison", "Search", "Run"))
)
"""Groups of flags on help pages."""


def known_cell(_: object, cell: str) -> None:
    """Refuse a word that names no cell."""
    refuse_unknown(cell)
    from gatedrnn.registry import CellChoice

    CellChoice.parse(cell)


CellName: TypeAlias = Annotated[str, Parameter(validator=known_cell)]
"""A cell with its options in one word."""


def is_table(word: str) -> bool:
    """Whether a word is a file with an ending, which no cell's name has."""
    return bool(Path(word).suffix) and Path(word).is_file()


def at_least_one(_: object, value: int | None) -> None:
    """Refuse a count below 1."""
    if value is not None and value < 1:
        raise ValueError("must be at least 1")


def not_negative(_: object, value: float | None) -> None:
    """Refuse a size below 0."""
    if value is not None and not value >= 0:
        raise ValueError("must be at least 0")


def above_zero(_: object, value: float | None) -> None:
    """Refuse a value that is not above 0 and finite."""
    if value is not None and not 0 < value < float("inf"):
        raise ValueError("must be above 0")


TrainMinutes: TypeAlias = Annotated[float | None, Parameter(validator=above_zero, group=TRAINING)]
"""Minutes that a training may take."""
Log: TypeAlias = Annotated[tuple[str, ...], Parameter(group=RUN)]
"""Names of trackers."""


def given(*parts: "Settings") -> dict[str, Json]:
    """Return the settings that the command line names, by name, without those of a task that its file decides."""
    return {
        name: value
        for part in parts
        for name, value in part.model_dump(include=part.model_fields_set - {"task"}).items()
    }


def command_line(program: str = "gatedrnn") -> str:
    """The command as typed after the program, files and folders by name alone."""

    def by_name(part: str) -> str:
        flag, equals, value = part.partition("=") if part.startswith("--") else ("", "", part)
        return flag + equals + (Path(value).name if "/" in value else value)

    return shlex.join([*program.split(), *(by_name(part) for part in sys.argv[1:])])


def use_large_pages() -> None:
    """Have torch request pages of 2 MiB for its large tensors; to be called before the first tensor is made.

    glibc maps a tensor of 32 MiB or more anew at each allocation, by default in pages of 4 KiB: with a vocabulary of
    33,278 that took a quarter of a training step. Telling glibc to cache such memory is faster still, but fragments it
    until memory runs out. A variable that is set already is left as it is.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
