"""The recipe of forecasts on development sets: default flags beside plain methods, on the same test windows.

    python tools/recipe_forecasts.py SETS KEPT [FLAGS ...]    writes KEPT/NAME.json for each set, and prints the table

SETS is a folder with a table NAME-train.csv a set, and its continuation NAME-test.csv where it has one. A set that is
kept already is not run again. FLAGS go to `gatedrnn forecast`: variants of the recipe are judged by their validation,
the table is made once. The count of optimiser steps 1 at a rate of 1e-9 is the untrained start.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gatedrnn.data import Windows, load_task
from gatedrnn.records import environment
from gatedrnn.study.forecast_baselines import forecast_baselines
from gatedrnn.train.folder import RunFolder
from gatedrnn.train.result import RunResult, read_record

PLAIN = ("last value", "drift", "seasonal naive", "season + level", "AutoETS", "AutoTheta")
Z95 = 1.96


def first_run(train: Path, test: Path | None, flags: list[str], folder: Path) -> float:
    """Train and forecast with default flags; the seconds of the whole process."""
    given = [] if test is None else ["--test-file", str(test), "--horizon", str(steps_of(test))]
    command = [sys.executable, "-m", "gatedrnn", "forecast", str(train), *given, "--baselines", "none", *flags]
    started = time.perf_counter()
    subprocess.run([*command, "--output", str(folder)], check=True, capture_output=True)
    return time.perf_counter() - started


def steps_of(table: Path) -> int:
    """Of each series of a continuation, a long table with the series' names first."""
    names = [line.partition(",")[0] for line in table.read_text().splitlines()[1:]]
    return len(names) // len(set(names))


def plain_methods(folder: Path) -> dict[str, dict[str, float]]:
    """The MASE and seconds of simple methods on the test of a run."""
    settings = RunFolder(folder).settings()
    found = {}
    for name, fit in forecast_baselines(load_task(settings.data), settings.threads):
        if name.startswith(PLAIN) and (fitted := fit()) is not None:
            found[name] = {"mase": fitted.outcomes["test"].rate, "seconds": fitted.seconds}
    return found


def record_of(folder: Path, seconds: float) -> dict[str, object]:
    """The scores of a run, with the standard error of its coverage over series."""
    run, settings = read_record(folder / "result.json", RunResult), RunFolder(folder).settings()
    windows = load_task(settings.data).evaluation["test"]
    assert isinstance(windows, Windows)
    return {
        "series": len(windows.series), "windows": len(windows), "horizon": windows.horizon,
        "seconds": seconds, "training_seconds": run.measured.training_seconds, "best_step": run.best_step,
        "validation": run.scores["validation"].mase if "validation" in run.scores else None,
        "test": run.scores["test"].mase, "coverage": run.scores["test"].coverage, "plain": plain_methods(folder),
        "settings": settings.shown(),
    }  # fmt: skip


def sets_in(folder: Path) -> Iterator[tuple[str, Path, Path | None]]:
    """Name, table and continuation of each set."""
    for train in sorted(folder.glob("*-train.csv")):
        name = train.name.removesuffix("-train.csv")
        test = folder / f"{name}-test.csv"
        yield name, train, test if test.exists() else None


def row_of(name: str, record: dict[str, object]) -> str:
    """Of the table."""
    plain: dict[str, dict[str, float]] = record["plain"]  # type: ignore[assignment]
    best = min(plain, key=lambda method: plain[method]["mase"])
    theta = next((one["mase"] for method, one in plain.items() if method.startswith("AutoTheta")), np.nan)
    return (
        f"| {name} | {record['series']:,} | {record['test']:.3f} | {theta:.3f} | {best} {plain[best]['mase']:.3f} | "
        f"{record['coverage']:.0%} | {record['seconds']:.0f} |"
    )


if __name__ == "__main__":
    sets, kept, flags = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    kept.mkdir(parents=True, exist_ok=True)
    for name, train, test in sets_in(sets):
        file = kept / f"{name}.json"
        if not file.exists():
            with tempfile.TemporaryDirectory() as folder:
                run = Path(folder) / "run"
                found = record_of(run, first_run(train, test, flags, run))
            file.write_text(json.dumps({"name": name, "flags": flags, **found} | environment(), indent=1) + "\n")
        print(row_of(name, json.loads(file.read_text())), flush=True)
