"""The recipe of forecasts on development sets: default flags beside plain methods, on the same test windows.

    python tools/recipe_forecasts.py SETS KEPT [FLAGS ...]    writes KEPT/NAME.json for each set, and prints the table

SETS is a folder with a table NAME-train.csv a set, and its continuation NAME-test.csv where it has one; the weekly
carbon dioxide that ships is one more. A set that is kept already is not run again. FLAGS go to `gatedrnn forecast`:
variants of the recipe are judged by their validation, the table is made once. The count of optimiser steps 1 at a rate
of 1e-9 is the untrained start.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gatedrnn.data import TaskData, Windows, load_task
from gatedrnn.records import environment
from gatedrnn.tasks.forecast.baselines import forecast_baselines
from gatedrnn.training.evaluate import evaluate
from gatedrnn.training.finished import open_tested
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.loop import accelerator_for
from gatedrnn.training.result import RunResult, read_record

PLAIN = ("last value", "drift", "seasonal naive", "season + level", "MSTL", "AutoETS", "AutoTheta")
SHIPPED = "carbon-dioxide"
MAX_REFITS = 2_000
"""Series of a competition to each of which a method of statsforecast is fitted; of others as many as `train` has."""
PARTS = {"plain": 1.0, "gated": 0.0}
"""The forecasts of a model by its smoothers alone, and as its network weighs them, with the shrinkage of either."""


class Set(NamedTuple):
    """A table, and its continuation."""

    name: str
    train: Path | None
    """The table of training; None for the one that ships."""
    test: Path | None


def first_run(table: Set, flags: list[str], folder: Path) -> float:
    """Train and forecast with default flags; the seconds of the whole process."""
    files = [] if table.train is None else [str(table.train)]
    files += [] if table.test is None else ["--test-file", str(table.test), "--horizon", str(steps_of(table.test))]
    command = [sys.executable, "-m", "gatedrnn", "forecast", *files, "--baselines", "none", *flags]
    started = time.perf_counter()
    subprocess.run([*command, "--output", str(folder)], check=True, capture_output=True)
    return time.perf_counter() - started


def steps_of(table: Path) -> int:
    """The steps of each series of a continuation, a long table with the series' names first."""
    names = [line.partition(",")[0] for line in table.read_text().splitlines()[1:]]
    return len(names) // len(set(names))


def plain_methods(data: TaskData, threads: int, refits: int | None) -> dict[str, dict[str, float]]:
    """The MASE and seconds of simple methods on a test part."""
    scores = {}
    tested = replace(data, evaluation={"test": data.evaluation["test"]})
    for name, fit in forecast_baselines(tested, threads, refits):
        if name.startswith(PLAIN) and (fitted := fit()) is not None:
            scores[name] = {"mase": fitted.outcomes["test"].rate, "seconds": fitted.seconds}
    return scores


def parts_of(folder: Path, data: TaskData) -> dict[str, float]:
    """The MASE of each part of the model that is tested."""
    model, accelerator = open_tested(folder).model, accelerator_for(RunFolder(folder).settings())
    scores = {}
    for name, shrinkage in PARTS.items():
        model.config.shrinkage = shrinkage
        scores[name] = evaluate(model, data, "test", accelerator).outcomes.rate
    return scores


def record_of(folder: Path, seconds: float) -> dict[str, object]:
    """The scores of a run, and of what it consists of."""
    run, settings = read_record(folder / "result.json", RunResult), RunFolder(folder).settings()
    data = load_task(settings.data)
    windows = data.evaluation["test"]
    assert isinstance(windows, Windows)
    refits = None if settings.flat().get("test_file") is None else MAX_REFITS
    points = int(windows.labelled.sum())
    return {
        "series": len(windows.series), "windows": len(windows), "horizon": windows.horizon, "points": points,
        "seconds": seconds, "training_seconds": run.measured.training_seconds,
        "test": run.scores["test"].mase, "coverage": run.scores["test"].coverage, "parts": parts_of(folder, data),
        "plain_part": None if run.plain_part is None else run.plain_part.model_dump(),
        "plain": plain_methods(data, settings.threads, refits), "settings": settings.shown(),
    }  # fmt: skip


def sets_in(folder: Path) -> Iterator[Set]:
    """All of them."""
    for train in sorted(folder.glob("*-train.csv")):
        name = train.name.removesuffix("-train.csv")
        test = folder / f"{name}-test.csv"
        yield Set(name, train, test if test.exists() else None)
    yield Set(SHIPPED, None, None)


def row_of(name: str, record: dict[str, Any]) -> str:
    """The row of the table."""
    plain, score, part = record["plain"], record["test"], record["plain_part"]
    best = min(plain, key=lambda method: plain[method]["mase"])
    theta = next((entry["mase"] for method, entry in plain.items() if method.startswith("AutoTheta")), np.nan)
    lowers = "–" if part is None else "yes" if part["high"] < 0 else "no"
    cells = [
        name, f"{record['series']:,}", f"{score:.3f}", *(f"{entry:.3f}" for entry in record["parts"].values()),
        f"{theta:.3f}",
        f"{score / theta:.3f}", f"{best} {plain[best]['mase']:.3f}", lowers,
        f"{record['coverage']:.0%} of {record['points']:,}", f"{record['seconds']:.0f}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


HEAD = (
    "set", "series", "run", "plain part", "gated part", "AutoTheta", "run ÷ AutoTheta", "best plain method",
    "gated part lowers validation error", "in 80 % interval", "seconds",
)  # fmt: skip


if __name__ == "__main__":
    sets, kept, flags = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    kept.mkdir(parents=True, exist_ok=True)
    print(f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD), sep="\n")
    for one in sets_in(sets):
        file = kept / f"{one.name}.json"
        if not file.exists():
            with tempfile.TemporaryDirectory() as folder:
                run = Path(folder) / "run"
                found = record_of(run, first_run(one, flags, run))
            file.write_text(json.dumps({"name": one.name, "flags": flags, **found} | environment(), indent=1) + "\n")
        print(row_of(one.name, json.loads(file.read_text())), flush=True)
