"""Three commands from a user's file to an answer, traced: what a reader of the code would have to enter.

    python tools/trace_commands.py [FOLDER]

Counts the files of the package of which a function runs, calls of `build_model`, how often the user's file is opened,
and how often it is parsed. Writes a JSON into FOLDER, or prints it.
"""

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from budgets import SRC

from gatedrnn.cli.app import main
from gatedrnn.records import write_whole

SMALL = "--total-steps 4 --hidden-size 4 --threads 1".split()
PARSER = str(SRC / "tables" / "files.py"), "_read"
"""The function, by its file and name, that turns the content of a table into columns."""


class Trace(NamedTuple):
    """Counts over one command, or several."""

    files: int
    build_model: int
    opened: int
    parsed: int


@contextmanager
def traced(file: Path, found: dict[str, Trace], name: str) -> Iterator[None]:
    """Count what runs within the context, and put it under a name."""
    entered, calls, opened = set[str](), Counter[tuple[str, str]](), [0]
    watching = [True]

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SRC)):
            entered.add(code.co_filename)
            calls[code.co_filename, code.co_name] += 1

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if watching[0] and event == "open" and str(arguments[0]) == str(file):
            opened[0] += 1

    sys.addaudithook(audit)  # which cannot be taken away again
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        watching[0] = False
        built = calls[str(SRC / "training" / "model.py"), "build_model"]
        found[name] = Trace(len(entered), built, opened[0], calls[PARSER])


def run(*arguments: object) -> None:
    """Run a command of gatedrnn in this process."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as ended:
        if ended.code:
            raise


def forecast(folder: Path, found: dict[str, Trace]) -> None:
    """Trace a table to forecast.csv."""
    file = folder / "sales.csv"
    rows = [f"{2015 + n // 12}-{n % 12 + 1:02d}-01,{100 + n + 9 * (n % 12)}" for n in range(96)]
    file.write_text("date,y\n" + "\n".join(rows) + "\n")
    with traced(file, found, "forecast"):
        run("forecast", file, *SMALL, "--output", folder / "forecast")


def texts(folder: Path, found: dict[str, Trace]) -> None:
    """Trace texts to a model, and to predictions."""
    file = folder / "texts.csv"
    file.write_text(
        "text,label\n" + "".join(f"{'good' if n % 2 else 'bad'} film {n % 7},{n % 2}\n" for n in range(200))
    )
    with traced(file, found, "train on texts"):
        run("train", "--train-file", file, *SMALL, "--output", folder / "texts")
    with traced(file, found, "predict texts"):
        run("predict", folder / "texts", file, "--output", folder / "predicted.csv")


def compare(folder: Path, found: dict[str, Trace]) -> None:
    """Trace series to a verdict, over four runs."""
    file = folder / "series.csv"
    rows = [f"s{n},{t},{(t * (1 + n % 2)) % 5},{'ab'[n % 2]}" for n in range(60) for t in range(12)]
    file.write_text("series,time,x,label\n" + "\n".join(rows) + "\n")
    who = "--cells gru mingru --match layers --seeds 0 1".split()
    with traced(file, found, "compare of 4 runs"):
        run("compare", "--train-file", file, *who, *SMALL[:-2], "--output", folder / "compare")


TRACED: tuple[Callable[[Path, dict[str, Trace]], None], ...] = (forecast, texts, compare)


def measure() -> dict[str, Trace]:
    """The traces of all three commands, by name."""
    found: dict[str, Trace] = {}
    os.environ["OMP_NUM_THREADS"] = "1"
    for _ in range(2):  # the first time imports modules, whose bodies run too
        with tempfile.TemporaryDirectory() as place:
            for trace in TRACED:
                trace(Path(place), found)
    return found


if __name__ == "__main__":
    record = {name: trace._asdict() for name, trace in measure().items()}
    text = json.dumps(record, indent=1)
    if sys.argv[1:]:
        write_whole(Path(sys.argv[1]) / "traces.json", text)
    print(text)
