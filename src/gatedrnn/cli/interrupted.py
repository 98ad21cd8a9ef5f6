"""How a command goes on that Ctrl-C or another signal ended: what is printed then is what works."""

import os
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from gatedrnn.errors import Interrupted, in_one_line

AGAIN = "the same command begins again"
SAME = "the same command goes on with it"


def begins_again() -> str:
    """How a command goes on that keeps nothing before its end."""
    return AGAIN


_way: Callable[[], str] = begins_again  # of the command under way: `main` runs one at a time


def goes_on(way: Callable[[], str]) -> None:
    """Set how the command under way goes on where a signal ends it.

    Args:
        way: asked for the sentence when it is needed: what works depends on what the command had written by then.
    """
    global _way
    _way = way


def interruption(error: BaseException) -> str:
    """The sentence that is printed where a signal has ended the command."""
    return f"{in_one_line(error) if isinstance(error, Interrupted) else 'interrupted'}; {_way()}"


def of_run(folder: Path, flags: Mapping[str, object]) -> str:
    """How a run goes on that `gatedrnn train` began or resumed.

    Args:
        folder: of the run.
        flags: those that its folder does not hold, which have to be given again, by name; True for a flag alone.
    """
    if not (folder / "config.yaml").exists():
        return AGAIN
    parts: list[object] = ["train", "--resume", folder]
    for name, value in flags.items():
        several = value if isinstance(value, tuple) else () if value is True else (value,)
        parts += [f"--{name.replace('_', '-')}", *several]
    said = f"to go on: {_program()} {shlex.join(map(str, parts))}"
    if not (folder / "result.json").exists() and any(folder.glob("checkpoint/step-*")):
        said += f"; to end it here: {_program()} {shlex.join(['train', '--finish', *map(str, parts[2:])])}"
    return said


def of_study(folder: Path, *, fresh: bool, since: float) -> str:
    """How a comparison, a suite or probes go on.

    Args:
        folder: of the study, or of the studies that it consists of.
        fresh: whether the command begins with what removes them.
        since: the time at which it began.
    """
    begun = [file.stat().st_mtime >= since for file in folder.glob("**/comparison.yaml")]
    if not fresh:
        return SAME if begun else AGAIN
    return "the same command without --fresh goes on with it" if all(begun) else AGAIN


def now() -> float:
    """The time, as files have it, in seconds; a file that is written afterwards is no older."""
    return time.time() - 0.1


def _program() -> str:
    return "gatedrnn" if os.environ.get("WORLD_SIZE", "1") == "1" else "torchrun … -m gatedrnn"
