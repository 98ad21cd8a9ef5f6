"""Stop commands at random moments, check what they leave, and go on by what they print: to the same bits.

    python tools/random_stops.py [--stops 60] [--seed 0] [--output stops.json] [--only train-texts]

Commands run in forked processes that have imported everything already. A stop is SIGKILL, SIGINT, SIGTERM, a limit of
the size of files, or a full disk (a small tmpfs, as root). The exit code is 1 if anything is wrong.
"""

import atexit
import csv
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pyarrow.parquet as pq
import yaml
from cyclopts import App, Parameter
from safetensors.numpy import load_file

from gatedrnn import manifest
from gatedrnn.__main__ import run as run_command
from gatedrnn.cli.app import main
from gatedrnn.locks import LOCK
from gatedrnn.training.folder import DERIVED

SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM}
DISKS = ("file size", "full disk")
SECONDS_TO_END = 120
"""Seconds after which a process that was asked to end counts as hanging."""
PARTS = ("writing", "making-", ".removing", LOCK)
"""Parts of the names of files that do not look whole."""
MEASURED = re.compile("measured|seconds|speed|date|command|commit|environment|wall|tokens_per|share")
"""Keys of records whose values differ between equal runs."""
SMALL = "--hidden-size 4 --embedding-size 4 --layers 1 --threads 1 --checkpoint-every 3 --log-every 2".split()
app = App(help=__doc__, default_parameter=Parameter(consume_multiple=True))


class Case(NamedTuple):
    """A command, run in an empty folder."""

    arguments: list[str]
    begins_with: dict[str, Path] = {}
    """Folders and files that are there before it begins, by name."""
    folder: str = "run"
    """The folder of the run that it makes; empty for another command."""


class Ended(NamedTuple):
    """A process that has ended."""

    code: int
    said: str
    seconds: float


def write_data(folder: Path) -> None:
    """Small files of every kind that the commands read."""
    drawn = random.Random(0)
    good, bad = "fine good warm bright kind".split(), "poor bad cold dull mean".split()
    rows = [(" ".join(drawn.choices(words, k=5)), name) for words, name in ((good, "yes"), (bad, "no")) * 60]
    with (folder / "texts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    lines = ["unique_id,ds,load,label"]
    for number in range(60):
        slope = 1 if number % 2 else -1
        lines += [f"s{number},{t},{slope * t + drawn.random():.3f},{'up' if slope > 0 else 'down'}" for t in range(8)]
    (folder / "series.csv").write_text("\n".join(lines) + "\n")
    (folder / "book.txt").write_text("\n".join(f"the {i} cat sat {i * i % 17} on {i % 5} mats" for i in range(300)))
    values = [f"20{year:02}-{month:02}-01,{100 + year + 9 * (month % 6)}.{drawn.randrange(1000):03}"
              for year in range(10, 20) for month in range(1, 13)]  # fmt: skip
    (folder / "sales.csv").write_text("\n".join(["date,sales", *values]) + "\n")


def cases(data: Path, made: Path) -> dict[str, Case]:
    """The commands, by name; those that need a run find it in `made`."""
    steps = [*SMALL, "--total-steps", "12", "--validate-every", "6"]
    alone = ("--baselines", "none")
    task, run = ("train", "--output", "run", "--train-file"), str(made / "train-texts" / "run")
    return {
        "train-texts": Case([*task, str(data / "texts.csv"), *steps]),
        "train-series": Case([*task, str(data / "series.csv"), "--task", "series-classification", *steps, *alone]),
        "train-language": Case([*task, str(data / "book.txt"), *steps, "--length", "16", "--batch-size", "8", *alone]),
        "forecast": Case(["forecast", str(data / "sales.csv"), "--horizon", "3", *steps, *alone, "--output", "run"]),
        "compare": Case(
            ["compare", "--task", "parity", "--cells", "lstm", "mingru", "--seeds", "0", "--match", "layers",
             "--hidden-size", "4", "--total-steps", "4", "--threads", "1", "--output", "run"]
        ),
        "predict": Case(
            ["predict", run, str(data / "texts.csv"), "--output", "p.csv"], {"p.csv": data / "sales.csv"}, ""
        ),
        "export": Case(["export", run, "--output", "onnx"], folder=""),
        "finish": Case(["train", "--finish", "run", *alone], {"run": made / "stopped" / "run"}),
    }  # fmt: skip


def started(arguments: Sequence[str], folder: Path, size: int | None = None) -> int:
    """The process of a command, in a folder; `size` is the size beyond which no file grows."""
    Path(f"{folder}.err").touch()
    if process := os.fork():
        return process
    code = 1
    try:
        os.chdir(folder)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        for target, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{folder}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), target)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        if size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        sys.argv = ["gatedrnn", *arguments]
        run_command()
    except SystemExit:  # a forked process has to do itself what Python does at its end
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()  # of which the last ends the process with the command's code
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def ended(process: int, folder: Path, since: float, limit: float = 10 * SECONDS_TO_END) -> Ended:
    """Wait for a process; one that hangs is killed, and has the code -9."""
    last = time.monotonic() + limit
    while True:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            said = Path(f"{folder}.err").read_text(errors="replace")
            return Ended(os.waitstatus_to_exitcode(status), said, time.monotonic() - since)
        if time.monotonic() > last:
            os.kill(process, signal.SIGKILL)
        time.sleep(0.002)


def to_the_end(arguments: Sequence[str], folder: Path) -> Ended:
    """Run a command gc_paused."""
    since = time.monotonic()
    return ended(started(arguments, folder), folder, since)


def begun(case: Case, folder: Path) -> Path:
    """The folder, with what the command finds in it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in case.begins_with.items():
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    return folder


def names(folder: Path) -> set[str]:
    """The files below a folder."""
    return {str(Path(place, file)) for place, _, files in os.walk(folder) for file in files}


def stopped(case: Case, folder: Path, number: int, moment: float, until: str | None = None) -> Ended:
    """Run a command and send it a signal after so many seconds; with `until`, when the next file after them appears
    that has this in its name.
    """
    since = time.monotonic()
    process = started(case.arguments, folder)
    before: set[str] | None = None
    while os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() - since >= moment:
            if before is None:
                before = names(folder)
            if until is None or any(until in name for name in names(folder) - before):
                os.kill(process, number)
                break
        time.sleep(0 if before is not None else 0.001)
    return ended(process, folder, since, SECONDS_TO_END)


def fault_of(path: Path) -> str:
    """Why a file is not whole; empty if it is."""
    try:
        match path.suffix:
            case ".json":
                json.loads(path.read_text())
            case ".jsonl":
                [json.loads(line) for line in path.read_text().split("\n")[:-1]]  # the last may be half a line
            case ".yaml":
                assert isinstance(yaml.safe_load(path.read_text()), dict), "holds no settings"
            case ".html":
                assert path.read_text().rstrip().endswith("</html>"), "does not end"
            case ".svg":
                assert path.read_text().rstrip().endswith("</svg>"), "does not end"
            case ".csv":
                text = path.read_text()
                assert text.endswith("\n") and len({len(row) for row in csv.reader(text.splitlines())}) == 1, "is cut"
            case ".onnx":
                onnx.checker.check_model(onnx.load(path))
            case ".npz" | ".npy":
                held = np.load(path)
                [held[name] for name in held] if path.suffix == ".npz" else held
            case ".safetensors":
                load_file(path)
            case ".parquet":
                pq.read_table(path)
            case _:
                assert path.stat().st_size or path.suffix == ".pkl", "is empty"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    return ""


def half_written(folder: Path, *, killed: bool) -> list[str]:
    """Name what is not whole below a folder: files under a final name, and parts that only SIGKILL may leave."""
    wrong = []
    for place, folders, files in os.walk(folder):
        if Path(place).name == "cache":
            folders[:] = [name for name in folders if name == "gatedrnn"]  # onnxruntime keeps a database there
        for name in [name for name in (*folders, *files) if any(part in name for part in PARTS)]:
            # A lock is left by a process that ends while it takes it, and the next one takes it.
            if not killed and name != LOCK:
                wrong.append(f"{name} is left in {Path(place).relative_to(folder)}")
        folders[:] = [name for name in folders if not any(part in name for part in PARTS)]
        for name in [name for name in files if not any(part in name for part in PARTS)]:
            if fault := fault_of(Path(place, name)):
                wrong.append(f"{Path(place, name).relative_to(folder)}: {fault}")
        if manifest.MANIFEST in files:
            held = Path(place).name in ("model", "tested") or Path(place).parent.name in ("checkpoint", "tokens")
            for name, fault in manifest.faults(Path(place)).items():
                missing = fault == "is missing" and not held
                if not missing and name not in DERIVED and (held or not killed):
                    wrong.append(f"{Path(place, name).relative_to(folder)} {fault}")
    return wrong


def scrubbed(value: Any) -> Any:
    """A record without what is measured."""
    if isinstance(value, dict):
        return {name: scrubbed(each) for name, each in value.items() if not MEASURED.search(name)}
    return [scrubbed(each) for each in value] if isinstance(value, list) else value


def essence(folder: Path) -> dict[str, Any]:
    """Read what equal runs have in common, by file; of pages, pictures and sums that they are there."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        if any(part in name for part in PARTS) or name.startswith("cache/"):
            continue
        if path.name in (manifest.MANIFEST, "speed.json") or path.suffix in (".html", ".svg", ".md", ".gz"):
            found[name] = "there"
        elif path.suffix == ".json":
            found[name] = scrubbed(json.loads(path.read_text()))
        elif path.suffix == ".jsonl":
            found[name] = [scrubbed(json.loads(line)) for line in path.read_text().splitlines()]
        elif path.suffix == ".npz":
            found[name] = {key: value.tolist() for key, value in np.load(path).items()}
        else:
            found[name] = path.read_bytes()
    return found


def continuation(case: Case, folder: Path, left: Ended) -> tuple[list[str], str]:
    """The command that goes on, by what was printed or, where nothing could be, by what is documented; and a fault."""
    here, last = case.arguments, left.said.strip().rpartition("\n")[2]
    if left.code < 0 or left.code == 1:  # 1: a full disk, after which the documented way works too
        resumable = here[0] == "train" and "--finish" not in here and (folder / "run" / "config.yaml").exists()
        fault = "" if left.code < 0 or re.match(r"gatedrnn: .+: .*MiB are free there", last) else f"said {last!r}"
        alone = ["--baselines", "none"] if "--baselines" in here else []
        return ["train", "--resume", "run", *alone] if resumable else here, fault
    if printed := re.search(r"to go on: gatedrnn (.*?)(?:; to end it here|$)", last):
        return shlex.split(printed[1]), ""
    return here, "" if "the same command" in last else f"said {last!r}"


@contextmanager
def disk(folder: Path) -> Iterator[None]:
    """A file system at a folder; `leave_free` fills it."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def leave_free(folder: Path, size: int) -> None:
    """Give a file system so many free bytes."""
    status = os.statvfs(folder)
    used = (status.f_blocks - status.f_bfree) * status.f_frsize
    subprocess.run(["mount", "-o", f"remount,size={used + size + status.f_frsize}", folder], check=True)


def tried(case: Case, folder: Path, whole: dict[str, Any], seconds: float, kind: str, drawn: random.Random) -> Any:
    """One stop, what it left, and how the command went on."""
    total = sum(len(value) if isinstance(value, bytes) else 3000 for value in whole.values())
    moment, at_file = drawn.uniform(0, seconds), drawn.random() < 0.5
    mounted = disk(folder) if kind == "full disk" else None
    if mounted is not None:
        mounted.__enter__()
    try:
        begun(case, folder)
        if mounted is not None:
            leave_free(folder, int(drawn.uniform(0.0, 1.2) * total))
        if kind in SIGNALS:
            left = stopped(case, folder, SIGNALS[kind], moment, "" if at_file else None)
        else:
            size = int(10 ** drawn.uniform(3.3, 5.5)) if kind == "file size" else None
            since = time.monotonic()
            left = ended(started(case.arguments, folder, size), folder, since)
        wrong = half_written(folder, killed=kind == "SIGKILL")
        number = SIGNALS.get(kind, 0)
        # By the signal itself, where it came before the command had begun, or cannot be caught.
        codes = {0, -number} if kind == "SIGKILL" else {0, -number, 128 + number} if number else {0, 1}
        wrong += [] if left.code in codes else [f"exit code {left.code}"]
        wrong += ["a traceback"] if "Traceback" in left.said else []
        command: list[str] = []
        if left.code != 0:
            command, fault = continuation(case, folder, left)
            wrong += [fault] if fault else []
            if mounted is not None:
                leave_free(folder, 2**30)
            again = to_the_end(command, folder)
            wrong += [] if again.code == 0 else [f"going on ended with {again.code}: {again.said[-300:]}"]
        last = essence(folder)
        differing = [name for name in {**whole, **last} if whole.get(name) != last.get(name)]
        wrong += [f"differs at the end: {', '.join(sorted(differing)[:6])}"] if differing else []
        said = left.said.strip().rpartition("\n")[2][-400:]
        return {
            "code": left.code,
            "moment": round(moment, 3),
            "said": said,
            "then": shlex.join(command),
            "wrong": wrong,
        }
    finally:
        if mounted is not None:
            mounted.__exit__(None, None, None)


def prepared(data: Path, made: Path, only: Sequence[str]) -> dict[str, tuple[Case, dict[str, Any], float]]:
    """Each command, what it leaves gc_paused, and the seconds that it takes."""
    found = {}
    for name, case in cases(data, made).items():
        if only and name not in {*only, "train-texts", "train-series"}:
            continue
        if name == "finish":
            (made / "stopped").mkdir()
            stopped(cases(data, made)["train-series"], made / "stopped", signal.SIGINT, 0.0, "/step-00000003/")
        if name != "export":  # whose threads no fork would have
            warm(case, made / f"{name}-warm")
        done = to_the_end(case.arguments, begun(case, made / name))
        if done.code:
            sys.exit(f"{name} ends with {done.code}: {done.said}")
        found[name] = (case, essence(made / name), done.seconds)
    return {name: one for name, one in found.items() if name in only or not only}


def warm(case: Case, folder: Path) -> None:
    """Run a command in this process, so that those that are forked from it have imported and compiled what it needs."""
    before = Path.cwd()
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    try:
        os.chdir(begun(case, folder))
        with redirect_stdout(sys.stderr):
            main(case.arguments)
    except SystemExit as end:
        if end.code:
            raise
    finally:
        os.chdir(before)


@app.default
def stops(
    *, stops: int = 60, seed: int = 0, output: Path = Path("stops.json"), only: tuple[str, ...] = (),
    kinds: tuple[str, ...] = (),
) -> None:  # fmt: skip
    """Stop commands, one after another.

    Args:
        stops: How many.
        seed: Seed of the moments.
        output: JSON file of every stop, and of a table by command and kind.
        only: Commands; all if none is named.
        kinds: Kinds of stops; all that this machine can if none is named.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    may_mount = hasattr(os, "geteuid") and os.geteuid() == 0 and sys.platform == "linux"
    chosen = kinds or (*SIGNALS, *DISKS[: 1 + may_mount])
    lines, table = [], Counter[tuple[str, str, str]]()
    place = tempfile.mkdtemp()  # no TemporaryDirectory, which a forked process would remove at its end
    try:
        data, made = Path(place, "data"), Path(place, "made")
        data.mkdir()
        write_data(data)
        ready = prepared(data, made, only)
        print({name: round(seconds, 2) for name, (_, _, seconds) in ready.items()}, flush=True)
        for number in range(stops):
            name, kind = list(ready)[number % len(ready)], chosen[number // len(ready) % len(chosen)]
            case, whole, seconds = ready[name]
            folder = Path(place, f"stop-{number}")
            line = tried(case, folder, whole, seconds, kind, random.Random(f"{seed} {number}"))
            lines.append({"number": number, "command": name, "kind": kind, **line})
            table[name, kind, "stops"] += 1
            table[name, kind, "ended before"] += line["code"] == 0
            table[name, kind, "wrong"] += bool(line["wrong"])
            print(json.dumps(lines[-1]), flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            output.write_text(json.dumps({"seed": seed, "table": _as_rows(table), "stops": lines}, indent=1))
    finally:
        shutil.rmtree(place)
    wrong = sum(bool(line["wrong"]) for line in lines)
    print(f"{len(lines)} stops, {wrong} with something wrong: {output}")
    sys.exit(1 if wrong else 0)


def _as_rows(table: Counter[tuple[str, str, str]]) -> list[dict[str, Any]]:
    pairs = dict.fromkeys((name, kind) for name, kind, _ in table)
    counts = ("stops", "ended before", "wrong")
    return [{"command": a, "kind": b, **{what: table[a, b, what] for what in counts}} for a, b in pairs]


if __name__ == "__main__":
    app()
