"""Seconds from typing a command to its answer, as whole processes, with kernels compiled before and without.

    python tools/measure_answers.py DATA KEPT.json      DATA as for `tools/first_runs.py`

Each command of the README's first examples runs several times with its kernels on disk, and once with an empty cache of
kernels. Inside, the seconds of imports, reading, compiling, training, plain methods and the report are added up;
`other` is the rest of the whole process.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gatedrnn.records import environment, write_whole

COMMANDS = {
    "forecast": ["forecast"],
    "texts": ["train", "--train-file", "text-sets/cr.parquet"],
    "series": [
        "train", "--train-file", "ucr/JapaneseVowels/JapaneseVowels_TRAIN.ts.gz",
        "--test-file", "ucr/JapaneseVowels/JapaneseVowels_TEST.ts.gz",
    ],
}  # fmt: skip
RUNS = 5
STAGES = {
    "reading": [("gatedrnn.data", "load_task")],
    "compiling": [("gatedrnn.training.loop", "compile_kernels")],
    "training": [("gatedrnn.training.loop", "Trainer.fit")],
    "plain methods": [("gatedrnn.study.plain", "write_standing")],
    "report": [("gatedrnn.training.report", "write_report")],
}
"""Functions whose calls are one stage; what one of them calls of another counts there too."""


def timed(function: Callable[..., Any], stage: str, spent: dict[str, float]) -> Callable[..., Any]:
    """Add the seconds of each call to a stage; a call within one of the same stage is part of it."""
    running = [False]

    def call(*arguments: Any, **named: Any) -> Any:
        if running[0]:
            return function(*arguments, **named)
        begun, running[0] = time.perf_counter(), True
        try:
            return function(*arguments, **named)
        finally:
            running[0] = False
            spent[stage] = spent.get(stage, 0.0) + time.perf_counter() - begun

    return call


def run_timed(arguments: list[str], begun: float, into: Path) -> None:
    """Run a command in this process, and write the seconds of its stages."""
    from importlib import import_module

    from gatedrnn.cli.app import main

    spent: dict[str, float] = {}
    for stage, functions in STAGES.items():
        for module, name in functions:
            holder: Any = import_module(module)
            *path, last = name.split(".")
            for part in path:
                holder = getattr(holder, part)
            original = getattr(holder, last)
            setattr(holder, last, timed(original, stage, spent))
            for other in list(sys.modules.values()):  # names that modules have imported
                if getattr(other, last, None) is original:
                    setattr(other, last, getattr(holder, last))
    spent["imports"] = time.time() - begun
    try:
        main(arguments)
    except SystemExit as end:
        if end.code:
            raise
    into.write_text(json.dumps(spent))


def once(words: list[str], kernels: Path | None) -> dict[str, float]:
    """The seconds of a whole process, and of its stages."""
    with tempfile.TemporaryDirectory() as folder:
        into, output = Path(folder) / "stages.json", str(Path(folder) / "run")
        env = os.environ if kernels is None else {**os.environ, "NUMBA_CACHE_DIR": str(kernels)}
        begun = time.time()
        child = [sys.executable, __file__, "--child", str(begun), str(into), *words, "--output", output]
        subprocess.run(child, check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        whole = time.time() - begun
        spent: dict[str, float] = json.loads(into.read_text())
    return {"whole": whole, **spent, "other": whole - sum(spent.values())}


def main(arguments: list[str]) -> None:
    """Measure every command, and write a record."""
    data, kept = Path(arguments[0]), Path(arguments[1])
    found: dict[str, Any] = {}
    for name, command in COMMANDS.items():
        words = [str((data / word).resolve()) if (data / word).is_file() else word for word in command]
        once(words, None)  # reads what is not in memory yet, and compiles
        warm = [once(words, None) for _ in range(RUNS)]
        with tempfile.TemporaryDirectory() as kernels:
            cold = once(words, Path(kernels))
        medians = {stage: round(statistics.median(run.get(stage, 0.0) for run in warm), 2) for stage in warm[0]}
        found[name] = {"warm": medians, "cold": {stage: round(seconds, 2) for stage, seconds in cold.items()}}
        print(name, json.dumps(found[name]), flush=True)
    write_whole(kept, json.dumps({**environment(), "runs": RUNS, "commands": found}, indent=1))


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        run_timed(sys.argv[4:], float(sys.argv[2]), Path(sys.argv[3]))
        os._exit(0)  # as the command does, without freeing object by object
    main(sys.argv[1:])
