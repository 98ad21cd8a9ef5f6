"""Training runs in processes of their own, which a signal strikes at a chosen moment.

`endings` starts this file, which trains for a step and forks the processes of each run from there: to import all that
they need takes longer than the runs do.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from contextlib import redirect_stdout, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from commands import heeds_signals


@dataclass(frozen=True)
class Strike:
    """The signal, and when: after the process has passed a point so many times, and some seconds more."""

    number: int = signal.SIGKILL
    point: str = "step"
    times: int = 1
    seconds: float = 0.0
    rank: int = 0


@dataclass(frozen=True)
class Run:
    """The command line, and how many processes share it."""

    arguments: list[Any]
    strike: Strike | None = None
    processes: int = 1
    rows: Path | None = None  # where each process logs the rows that it reads at each step; its rank is appended


def command_of(run: Run) -> list[str]:
    """The command that makes this process run it, or each of the processes that share it, where torchrun starts
    them.
    """
    return [__file__, json.dumps(asdict(run), default=str)]


def endings(*runs: Run) -> list[list[int]]:
    """Runs one after the other; the exit code of each process, below zero of a signal."""
    command = [sys.executable, __file__, json.dumps([asdict(run) for run in runs], default=str)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}  # whose libraries a fork would not survive
    done = subprocess.run(command, capture_output=True, text=True, env=environment, preexec_fn=heeds_signals)
    assert done.returncode == 0, done.stderr
    print(done.stderr)  # shown where a test fails
    return [json.loads(line) for line in done.stdout.splitlines()]


def warmed_up() -> None:
    from gatedrnn.cli.app import main

    with tempfile.TemporaryDirectory() as folder, redirect_stdout(sys.stderr), suppress(SystemExit):
        main(["train", "--task", "digits", "--total-steps", "1", "--threads", "1", "--output", f"{folder}/run"])


def ended(run: dict[str, Any]) -> list[int]:
    """The exit codes of a run. Where one process ends otherwise than well, the others are ended, as by torchrun."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = [forked(run, rank, port) for rank in range(run["processes"])]
    codes: dict[int, int] = {}
    while len(codes) < len(started):
        process, status = os.wait()
        codes[process] = os.waitstatus_to_exitcode(status)
        if codes[process] != 0:
            for other in set(started) - set(codes):
                os.kill(other, signal.SIGKILL)
    return [codes[process] for process in started]


def forked(run: dict[str, Any], rank: int, port: int) -> int:
    if process := os.fork():
        return process
    from accelerate.state import AcceleratorState

    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if run["processes"] > 1:
            several = {"WORLD_SIZE": run["processes"], "LOCAL_WORLD_SIZE": run["processes"], "MASTER_PORT": port}
            place = {"RANK": rank, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1"}
            os.environ |= {name: str(value) for name, value in (several | place).items()}
            AcceleratorState._reset_state(reset_partial_state=True)  # of the process alone, from the step before
        struck(run, rank)
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)


def struck(run: dict[str, Any], rank: int) -> None:
    """The command, in this process."""
    from gatedrnn import manifest
    from gatedrnn.cli.app import main
    from gatedrnn.data import Batch
    from gatedrnn.records import Json, write_whole
    from gatedrnn.training import folder, loop
    from gatedrnn.training.objective import rows_of

    strike = Strike(**run["strike"]) if run["strike"] else None
    passed, now = dict.fromkeys(["", strike.point if strike else ""], 0), [0]

    def passes(point: str) -> None:
        if strike and (strike.point, strike.rank) == (point, rank):
            passed[point] += 1
            if passed[point] == strike.times and strike.seconds:
                threading.Timer(strike.seconds, os.kill, (os.getpid(), strike.number)).start()
            elif passed[point] == strike.times:
                os.kill(os.getpid(), strike.number)

    rename, remove, write, step = Path.rename, shutil.rmtree, manifest.write, loop.Trainer._step

    def watched_rename(self: Path, target: Path) -> Path:
        ours = target.name.startswith("step-") and target.suffix != ".removing"
        if ours:
            passes("before the rename")
        found = rename(self, target)
        if ours:
            passes("after the rename")
        return found

    def watched_remove(path: str | Path, *rest: Any, **named: Any) -> None:
        going = Path(path)
        if going.suffix == ".removing" and going.exists():
            if going.name.startswith("step-"):
                passes("before the removal")
            if going.stem == "checkpoint":
                passes("result written")
        remove(path, *rest, **named)

    def watched_sums(path: Path, files: dict[str, manifest.Entry], **facts: Json) -> None:
        if path.name.startswith("writing-"):
            passes("temporary written")
        if "result.json" in files:
            passes("model written")
        write(path, files, **facts)

    def watched_text(path: Path, text: str | bytes) -> None:
        if path.name == "result.json":
            passes("sums written")
        write_whole(path, text)

    def watched_step(self: loop.Trainer, *given: Any) -> tuple[float, float, int]:
        now[0] = self.state.step
        found = step(self, *given)
        passes("step")
        return found

    def watched_rows(batch: Batch, *of_rank: Any) -> Batch:
        share = rows_of(batch, *of_rank)
        if run["rows"]:
            with Path(f"{run['rows']}-{rank}").open("a") as file:
                file.write(json.dumps([now[0], share["input_ids"].tolist()]) + "\n")
        return share

    for owner, name, watched in (
        (Path, "rename", watched_rename), (shutil, "rmtree", watched_remove), (manifest, "write", watched_sums),
        (folder, "write_whole", watched_text), (loop.Trainer, "_step", watched_step), (loop, "rows_of", watched_rows),
    ):  # fmt: skip
        setattr(owner, name, watched)
    main([str(part) for part in run["arguments"]])


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    if isinstance(asked, dict):
        again = os.environ["TORCHELASTIC_RESTART_COUNT"] != "0"
        struck(asked | ({"strike": None} if again else {}), int(os.environ["RANK"]))
    else:
        warmed_up()
        for one in asked:
            print(json.dumps(ended(one)), flush=True)
