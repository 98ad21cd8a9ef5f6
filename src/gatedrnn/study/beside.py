"""Records beside results.json: what is too large for it. A study is whole without them, but its report shows less."""

from pathlib import Path
from typing import ClassVar, TypeVar

from gatedrnn.training.result import Record, read_record


class Beside(Record):
    """One of these files."""

    FILE: ClassVar[str]


AnyBeside = TypeVar("AnyBeside", bound=Beside)


class Curve(Record):
    """Validation of one run while it trained; one entry of each list per validation."""

    step: list[int]
    loss: list[float]
    score: list[float]


class Curves(Beside):
    """curves.json.gz: the learning curve of each run."""

    FILE: ClassVar[str] = "curves.json.gz"

    runs: dict[str, Curve]
    """The curves by the name of the run."""


class Confusion(Beside):
    """confusion.json.gz: the confusion tables of each run of a classifier."""

    FILE: ClassVar[str] = "confusion.json.gz"

    runs: dict[str, dict[str, list[list[int]]]]
    """The confusion matrices by the name of the run and by split; rows are true classes, columns predicted ones."""


class Trial(Record):
    """One trial of a search."""

    contender: str
    number: int
    values: dict[str, bool | int | float | str]
    """The values of the settings that were searched."""
    score: float | None
    """The score on the validation split; None where the loss became NaN or infinite."""
    loss: float | None
    seconds: float | None
    """The seconds of training; None where the loss became NaN or infinite, and in results.json."""


class Trials(Beside):
    """trials.json.gz: every trial of a search."""

    FILE: ClassVar[str] = "trials.json.gz"

    trials: list[Trial]


def beside(folder: Path, kind: type[AnyBeside]) -> AnyBeside | None:
    """A record beside results.json; None if it is missing.

    Raises:
        Damaged: it is there and cannot be read.
    """
    return read_record(folder / kind.FILE, kind) if (folder / kind.FILE).exists() else None
