"""Measure what handing a run to a worker takes beyond the run itself, on each engine, one run at a time.

    python tools/measure_scheduling.py OUTPUT.json

Two loopback nodes of Ray are measured too where their address is in RAY_ADDRESS (HOST:PORT).
"""

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from gatedrnn.data import data_settings
from gatedrnn.executors import Workers, executor_for
from gatedrnn.executors.engines import Local
from gatedrnn.records import environment
from gatedrnn.training.settings import ModelSettings, RunSettings, TrainSettings

RUNS = 20


def tiny(seed: int) -> RunSettings:
    """A run of a few steps."""
    return RunSettings(
        cell="mingru", hidden_size=8, seed=seed, data=data_settings("digits"),
        model=ModelSettings(embedding_size=8), train=TrainSettings(total_steps=5),
    )  # fmt: skip


def measure(executor: Workers) -> dict[str, object]:
    """Medians over runs; the first run of a worker's process starts it."""
    with tempfile.TemporaryDirectory() as folder, executor:
        executor.run_all({f"run-{seed}": tiny(seed) for seed in range(RUNS)}, Path(folder), lambda *_: None)
    scheduling = sorted(beyond.scheduling for beyond in executor.beyond.values())
    starting = [beyond.starting for beyond in executor.beyond.values() if beyond.starting]
    return {
        "runs": len(scheduling), "scheduling_seconds": round(statistics.median(scheduling), 3),
        "largest": round(scheduling[-1], 3), "processes_started": len(starting),
        "starting_seconds": round(statistics.median(starting), 3),
    }  # fmt: skip


def main(output: Path) -> None:
    """Measure all engines that are there."""
    places = ["slurm,cluster=local", "ray"]
    if "RAY_ADDRESS" in os.environ:
        places.append(f"ray:{os.environ.pop('RAY_ADDRESS')}")
    measured = {"local": measure(Workers(Local(1)))}
    for place in places:
        executor = executor_for(place, jobs=1)
        assert isinstance(executor, Workers)
        measured[place.partition(":")[0] + (" on two nodes" if ":" in place else "")] = measure(executor)
        print(place, measured, flush=True)
    output.write_text(json.dumps({**environment(), "engines": measured}, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
