"""The protocol of executors, the simplest of them, and a run's work in a worker process."""

import json
import os
import pickle
import platform
import time
import traceback
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, Protocol, Self

import psutil
import torch
from pydantic import JsonValue

from gatedrnn.errors import Error, NonFiniteLoss, OutOfMemory, TooLarge, WorkerDiffers, reason
from gatedrnn.locks import LOCK
from gatedrnn.processes import StopFlag, may_oversubscribe, oversubscribing
from gatedrnn.progress import Progress
from gatedrnn.records import write_whole
from gatedrnn.training.loop import run
from gatedrnn.training.resources import compile_kernels
from gatedrnn.training.result import RunResult
from gatedrnn.training.settings import RunSettings
from gatedrnn.trust import Trust, trust, trusting

OnProgress = Callable[[str, Progress | None, int, int], None]
"""Called with (run, how far it is or None where it has ended, finished runs, runs in all)."""
Records = dict[str, RunResult]
"""Results by the names of the runs."""


class Ended(NamedTuple):
    """The outcome of runs."""

    records: Records
    diverged: list[NonFiniteLoss]
    """The errors of runs whose loss is no number any more; they have no record."""


class Executor(Protocol):
    """Runs the folders of runs to their ends; used in a `with` block, in which it may be asked several times."""

    on: str
    """The executor's name, as `--on` has it."""
    jobs: int | None
    """Runs at a time; None for as many as a cluster takes."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def run_all(self, runs: Mapping[str, RunSettings], folder: Path, on_progress: OnProgress) -> Ended:
        """Every run, each in a folder of its name in `folder`; what is finished there is not run again.

        A loss that is not finite ends only its own run, and so does a worker that is lost too often or runs out of
        memory: all others end first. Any other error ends all of them, and the same call resumes.

        Raises:
            NoCluster: it cannot be reached.  WorkerDiffers: a worker has other versions, or does not see the folder.
            WorkerLost, OutOfMemory: of a run, once all others have ended; and any other error of a run.
        """
        ...


def finished(runs: Mapping[str, RunSettings], folder: Path) -> Records:
    """The results that are there already, each run's files checked."""
    return {
        name: run(settings, folder / name)
        for name, settings in runs.items()
        if (folder / name / "result.json").exists()
    }


class Here:
    """The executor of `--jobs 1`."""

    on: str = "local"
    jobs: int | None = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run_all(self, runs: Mapping[str, RunSettings], folder: Path, on_progress: OnProgress) -> Ended:
        """Run each in this process, one after another."""
        compile_kernels(run for name, run in runs.items() if not (folder / name / "result.json").exists())
        on_progress("", None, 0, len(runs))
        records, diverged = Records(), list[NonFiniteLoss]()
        for ended, (name, settings) in enumerate(runs.items()):

            def tell(progress: Progress, name: str = name, ended: int = ended) -> None:
                on_progress(name, progress, ended, len(runs))

            try:
                records[name] = run(settings, folder / name, tell)
            except NonFiniteLoss as error:
                diverged.append(error)
            on_progress(name, None, ended + 1, len(runs))
        return Ended(records, diverged)


HERE = Here()


PROGRESS = "progress.json"
"""The file in a run's folder of the progress that its worker reports."""
_SECONDS_BETWEEN_REPORTS = 1.0
"""The seconds between reports of a worker's progress."""
_MUST_AGREE = ("gatedrnn", "torch")
"""Packages that a worker must have in the driver's version, for the same bits."""
_begun = False  # whether this process has had a task before


class Task(NamedTuple):
    """One run, as it is sent to a worker."""

    name: str
    settings: dict[str, JsonValue]
    driver: Path
    """The driver's folder, absolute; the run's is the one of its name in it."""
    lock: str
    """The content of the driver's lock file, by which a worker knows the folder; empty where nothing is locked."""
    place: Path
    """The folder that relative paths of the settings begin at."""
    versions: dict[str, str]
    trust: Trust
    """The Python files that the driver may run."""
    oversubscribe: bool
    """Whether the driver may ask for more threads than there are cores for."""


class Report(NamedTuple):
    """The end of a task in a worker; its result is in its folder."""

    fault: Exception | None
    seconds: float
    """The seconds that the worker took for it."""
    starting: float
    """Seconds from the start of the worker's process to its first task; 0 for later ones."""


def task_of(name: str, settings: RunSettings, folder: Path) -> Task:
    """A run of a driver in whose `folder` it has one of its name."""
    lock = folder / LOCK
    return Task(
        name=name, settings=settings.flat(), driver=folder.absolute(),
        lock=lock.read_text() if lock.exists() else "", place=Path.cwd(), versions=_versions(),
        trust=trust(), oversubscribe=may_oversubscribe(),
    )  # fmt: skip


def work(task: Task, stop: StopFlag | None = None) -> Report:
    """Run a task to its end.

    Args:
        task: the run.
        stop: when set, the run saves and ends after its step.
    """
    global _begun
    starting = 0.0 if _begun else _since_start()
    _begun, started = True, time.perf_counter()
    folder, fault = task.driver / task.name, None
    try:
        _check_like_driver(task)
        os.chdir(task.place)
        # Where another worker is still at the run, of a driver that is no more, its result is as good.
        allowed = trusting(task.trust.files, trust_code=task.trust.all_files)
        with allowed, oversubscribing(task.oversubscribe):
            run(RunSettings.from_flat(task.settings), folder, _Telling(folder / PROGRESS), stop, wait=True)
    except Exception as error:
        fault = _as_it_is_sent(task, error)
    finally:
        (folder / PROGRESS).unlink(missing_ok=True)
    return Report(fault, time.perf_counter() - started, starting)


def progress_of(folder: Path) -> Progress | None:
    """The progress of the run of a folder; None where nothing is known."""
    try:
        return Progress(*json.loads((folder / PROGRESS).read_text()))
    except (OSError, ValueError):
        return None


class _Telling:
    """Writes how far a run is, every so often."""

    def __init__(self, path: Path) -> None:
        self.path, self.next = path, 0.0

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() < self.next and not progress.doing:
            return
        self.next = time.monotonic() + _SECONDS_BETWEEN_REPORTS
        write_whole(self.path, json.dumps(progress))


def _since_start() -> float:
    """Seconds since this process was started."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):  # not Linux; psutil knows the start to a second on some machines
        return time.time() - psutil.Process().create_time()


def _versions() -> dict[str, str]:
    return {"python": platform.python_version().rpartition(".")[0], **{name: version(name) for name in _MUST_AGREE}}


def _check_like_driver(task: Task) -> None:
    """Check that results will be the driver's, and that it will find them.

    Raises:
        WorkerDiffers: a version is another one, or the folder another one.
    """
    host = platform.node()
    for name, installed in _versions().items():
        if installed != task.versions[name]:
            raise WorkerDiffers(
                f"{host}: has {name} {installed}, the driver {task.versions[name]}; install the same version"
            )
    lock = task.driver / LOCK
    if task.lock and not (lock.exists() and lock.read_text() == task.lock):
        raise WorkerDiffers(
            f"{host}: does not see the driver's folder {task.driver}; give an --output on a file system that "
            "workers share"
        )
    if not task.place.is_dir():
        raise WorkerDiffers(
            f"{host}: does not see {task.place}, where the driver runs; run it in a folder that is shared"
        )


def _as_it_is_sent(task: Task, error: Exception) -> Exception:
    """An error in a form that comes through to the driver: want of memory by that name."""
    if isinstance(error, (MemoryError, TooLarge, torch.OutOfMemoryError)) or "can't allocate memory" in str(error):
        return OutOfMemory(f"{task.name}: out of memory on {platform.node()} ({reason(error)})")
    if not isinstance(error, Error):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # an error may hold whatever it likes
        return RuntimeError("".join(traceback.format_exception(error)))
    return error
