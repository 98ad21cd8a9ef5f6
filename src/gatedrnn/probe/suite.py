"""A suite of probes: one comparison a task, all cells with the same number of recurrent parameters."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gatedrnn.compare.experiment import compare
from gatedrnn.compare.match import core_parameters, solve_width
from gatedrnn.compare.report import write_report
from gatedrnn.compare.settings import CompareSettings, ContenderSettings
from gatedrnn.data import DataSettings, load_task
from gatedrnn.data.probes import PROBES
from gatedrnn.probe.settings import ProbeSettings
from gatedrnn.records import environment, write_whole
from gatedrnn.train.recipes import with_recipe
from gatedrnn.train.settings import ModelSettings, TrainSettings

SCHEMA = 1
MEASURE = "lstm"
"""The cell whose parameters, at the width of a task's recipe, all others are matched to."""
OnProgress = Callable[[str, str, float, int, int], None]
"""Called with (task, run, part of it that is done, finished runs of the task, its runs in all)."""


def probe(
    settings: ProbeSettings, folder: Path, *, jobs: int = 1, fresh: bool = False, command: str = "",
    on_progress: OnProgress = lambda *_: None,
) -> dict[str, Any]:  # fmt: skip
    """Run whatever is not finished yet and put the results together.

    Args:
        settings: the whole suite.
        folder: one folder a task goes there, a comparison with its own report.
        jobs: processes that work at the same time; the numbers do not depend on it.
        fresh: remove the comparisons of these tasks that are in `folder` first.
        command: the command line, for the record.
        on_progress: told how far each run is.

    Returns:
        The content of probes.json, which is written into `folder`.

    Raises:
        what `compare` raises; finished runs are kept, and the same call goes on from there.
    """
    found = {}
    for task in settings.tasks:

        def tell(run: str, part: float, finished: int, runs: int, task: str = task) -> None:
            on_progress(task, run, part, finished, runs)

        comparison = compare(
            _comparison(settings, task), folder / task, jobs=jobs, fresh=fresh, command=command, on_progress=tell
        )
        write_report(comparison, folder / task)
        found[task] = _answers(task, comparison)
    results = {
        "schema": SCHEMA,
        "settings": settings.model_dump(mode="json"),
        "tasks": found,
        "measured": {"jobs": jobs, "command": command, **environment()},
    }
    write_whole(folder / "probes.json", json.dumps(results, indent=1))
    return results


def _comparison(settings: ProbeSettings, task: str) -> CompareSettings:
    """The task's recipe, with widths that match."""
    length = with_recipe(task, "data", DataSettings(task=task)).length
    longer = tuple(sorted(other for other in settings.lengths if other > length))
    recipe = with_recipe(task, "contenders", ContenderSettings())
    parts = {
        "threads": settings.threads,
        "data": with_recipe(task, "data", DataSettings(task=task, test_lengths=longer)),
        "model": with_recipe(task, "model", ModelSettings()),
        "train": with_recipe(task, "train", TrainSettings()),
    }
    who = {"cells": list(settings.cells), "match": ["params"], "seeds": list(settings.seeds)}
    measure = CompareSettings(contenders=ContenderSettings(**who), **parts)
    data = load_task(measure.data)
    target = core_parameters(measure, data, MEASURE, recipe.hidden_size)
    first = solve_width(measure, data, settings.cells[0], target)
    return CompareSettings(contenders=ContenderSettings(hidden_size=first, **who), **parts)


def _answers(task: str, comparison: dict[str, Any]) -> dict[str, Any]:
    """What a page or a table of probes needs of a comparison."""
    probe, data = PROBES[task], comparison["settings"]["data"]
    splits = {data["length"]: "test"} | {length: f"test_{length}" for length in data["test_lengths"]}
    return {
        "asks": probe.asks,
        "source": probe.source,
        "chance": probe.chance,
        "trained_at": data["length"],
        "cells": {
            row["cell"]: {
                "hidden_size": row["structure"]["hidden_size"],
                "core": row["parameters"]["core"],
                "accuracy": {
                    str(run["seed"]): {str(length): run[f"{split}_accuracy"] for length, split in splits.items()}
                    for run in row["runs"]
                },
                "seconds": [
                    comparison["measured"]["runs"][f"{row['name']}/seed-{run['seed']}"]["training_seconds"]
                    for run in row["runs"]
                ],
            }
            for row in comparison["contenders"]
        },
    }
