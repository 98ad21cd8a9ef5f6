"""Executors whose runs are the work of other processes, and the one that `--on` names."""

import logging
import time
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, cast

import yaml
from pydantic import JsonValue

from gatedrnn.children import may_have_workers
from gatedrnn.errors import (
    Error,
    Interrupted,
    NonFiniteLoss,
    OutOfMemory,
    UsageError,
    WorkerDiffers,
    WorkerLost,
    reason,
)
from gatedrnn.executors.engines import Local, OnRay, OnSlurm
from gatedrnn.executors.work import HERE, Ended, Executor, OnProgress, Report, Task, finished, progress_of, task_of
from gatedrnn.processes import check_cores
from gatedrnn.progress import Progress
from gatedrnn.records import parse_yaml
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.resources import compile_kernels
from gatedrnn.training.result import RunResult
from gatedrnn.training.settings import RunSettings

LOG = logging.getLogger("gatedrnn")
_LOST_AT_MOST = 3
"""Times that a run whose worker was lost is submitted again."""
SECONDS_BETWEEN_LOOKS = 0.5
"""The seconds between two looks at the progress of runs."""
_SECONDS_TO_STOP = 60.0
"""The seconds that runs have to save after they were asked to stop."""
_SECONDS_TO_APPEAR = 60.0
"""The seconds that a file may take from a worker to the driver: file systems of clusters keep what a folder holds for a
while."""
Job: TypeAlias = Any
"""A task under way, as an engine has it."""


class Engine(Protocol):
    """An engine that runs tasks in workers."""

    on: str
    """The engine's name, as `--on` has it."""
    jobs: int | None
    """Tasks under way at most; None for as many as there are."""

    def open(self, folder: Path) -> None:
        """Get ready for tasks of a driver's folder; may come again, for another one.

        Raises:
            NoCluster: there is none.
        """
        ...

    def start(self, tasks: Sequence[Task]) -> Sequence[Job]:
        """Submit tasks."""
        ...

    def wait(self, jobs: Collection[Job], seconds: float) -> Collection[Job]:
        """The jobs that have ended, as soon as there is one; none after so many seconds."""
        ...

    def report(self, job: Job) -> Report:
        """The report of a job that has ended.

        Raises:
            WorkerLost: its worker is no more.  OutOfMemory: for want of memory.  WorkerDiffers: it has no gatedrnn.
        """
        ...

    def stop(self, jobs: Collection[Job]) -> None:
        """Have the runs under way save and end, and no other begin."""
        ...

    def close(self) -> None:
        """Let all workers go."""
        ...


class _Submitted(NamedTuple):
    """A run under way."""

    name: str
    since: float


class Beyond(NamedTuple):
    """Seconds that handing a run to a worker took beyond the run itself."""

    scheduling: float
    """The seconds from submitting a task to its report, without what the worker counts."""
    starting: float
    """The seconds from the start of the worker's process to its first task; 0 for later ones."""


class Workers:
    """The executor over an engine.

    A run whose worker is lost is submitted again, `_LOST_AT_MOST` times, and resumes from its checkpoint. One that runs
    out of memory is submitted once more, when no other is under way.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine, self.on, self.jobs = engine, engine.on, engine.jobs
        self.beyond: dict[str, Beyond] = {}
        """The seconds beyond the run itself, of each that a worker has ended."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()

    def run_all(self, runs: Mapping[str, RunSettings], folder: Path, on_progress: OnProgress) -> Ended:
        """Run each in the workers of the engine."""
        drive = _Drive(self.engine, runs, folder, on_progress)
        try:
            drive.to_the_end()
        except BaseException:
            drive.stop()
            raise
        finally:
            self.beyond |= drive.beyond
        return drive.ended()


class _Drive:
    """All runs of one call."""

    def __init__(self, engine: Engine, runs: Mapping[str, RunSettings], folder: Path, on_progress: OnProgress) -> None:
        self.engine, self.runs, self.folder, self.on_progress = engine, runs, folder, on_progress
        self.records = finished(runs, folder)
        self.waiting = deque(name for name in runs if name not in self.records)
        self.alone = deque[str]()
        """Runs that are to be handed out when no other is under way."""
        self.under_way: dict[Job, _Submitted] = {}
        self.lost, self.without_memory, self.failed = Counter[str](), set[str](), dict[str, Error]()
        self.beyond: dict[str, Beyond] = {}

    def to_the_end(self) -> None:
        """Drive the runs until each has a result or has failed."""
        compile_kernels(self.runs[name] for name in self.waiting)
        self._tell("", None)
        if self.waiting:
            self.engine.open(self.folder)
        while self.waiting or self.alone or self.under_way:
            self._hand_out()
            for job in self.engine.wait(self.under_way, SECONDS_BETWEEN_LOOKS):
                self._take(job)
            for name, _ in self.under_way.values():
                if (progress := progress_of(self.folder / name)) is not None:
                    self._tell(name, progress)

    def ended(self) -> Ended:
        """The outcome of all runs.

        Raises:
            WorkerLost, OutOfMemory: of a run.
        """
        diverged = [fault for fault in self.failed.values() if isinstance(fault, NonFiniteLoss)]
        for fault in self.failed.values():
            if fault not in diverged:
                raise fault
        return Ended({name: self.records[name] for name in self.runs if name in self.records}, diverged)

    def stop(self) -> None:
        """Have the runs under way save and end, and see that they have."""
        self.engine.stop(self.under_way)
        last = time.monotonic() + _SECONDS_TO_STOP
        while self.under_way and time.monotonic() < last:
            for job in self.engine.wait(self.under_way, SECONDS_BETWEEN_LOOKS):
                del self.under_way[job]

    def _hand_out(self) -> None:
        if self.waiting:
            free = len(self.waiting) if self.engine.jobs is None else self.engine.jobs - len(self.under_way)
            names = [self.waiting.popleft() for _ in range(min(free, len(self.waiting)))]
        else:
            names = [self.alone.popleft()] if self.alone and not self.under_way else []
        if names:
            now = time.monotonic()
            jobs = self.engine.start([task_of(name, self.runs[name], self.folder) for name in names])
            self.under_way |= {job: _Submitted(name, now) for job, name in zip(jobs, names, strict=True)}

    def _take(self, job: Job) -> None:
        name, since = self.under_way.pop(job)
        try:
            report = self.engine.report(job)
            fault = report.fault
            self.beyond[name] = Beyond(time.monotonic() - since - report.seconds - report.starting, report.starting)
        except (WorkerLost, OutOfMemory) as error:
            fault = type(error)(f"{name}: {error}")
        match fault:
            case None:
                self.records[name] = _result(self.folder / name)
            case OutOfMemory() if name not in self.without_memory:
                LOG.warning("%s; it is run once more, alone", fault)
                self.without_memory.add(name)
                self.alone.append(name)
                return
            case WorkerLost() | Interrupted() if self.lost[name] < _LOST_AT_MOST:
                self.lost[name] += 1
                LOG.warning("%s; it is submitted again, %d of %d times", fault, self.lost[name], _LOST_AT_MOST)
                self.waiting.appendleft(name)
                return
            case OutOfMemory() | WorkerLost() | Interrupted() | NonFiniteLoss():
                self.failed[name] = fault
            case _:
                raise fault
        self._tell(name, None)

    def _tell(self, name: str, progress: Progress | None) -> None:
        self.on_progress(name, progress, len(self.records) + len(self.failed), len(self.runs))


def _result(folder: Path) -> RunResult:
    """The result of a run that a worker has ended, as soon as it is seen here."""
    last = time.monotonic() + _SECONDS_TO_APPEAR
    while (result := RunFolder(folder).finished()) is None:
        if time.monotonic() > last:
            raise WorkerDiffers(f"{folder}: its worker says that the run has ended, and its result is not there")
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return result


def executor_for(on: str = "local", jobs: int | None = None, threads: int = 1) -> Executor:
    """The executor that runs are handed to.

    Args:
        on: `local`; `slurm`; `ray`, which starts a cluster on this machine; or `ray:HOST:PORT` for one that is there.
            Options of the engine follow after commas: `slurm,slurm_partition=long,timeout_min=240`.
        jobs: runs at a time; if None, 1 here and as many as a cluster takes.
        threads: of each run.

    Raises:
        UsageError: there is no such engine, it has no options, or this machine cannot run so many jobs.
    """
    place, *words = on.split(",")
    options: dict[str, JsonValue] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise UsageError(f"--on {on}: options are NAME=VALUE after commas, got {word!r}")
        try:
            options[name] = cast(JsonValue, parse_yaml(value))
        except yaml.YAMLError as error:
            raise UsageError(f"--on {on}: {name}: {reason(error)}") from error
    engine, _, address = place.partition(":")
    if engine == "ray":
        return Workers(OnRay(address or None, jobs, threads, options))
    if engine == "slurm" and not address:
        return Workers(OnSlurm(jobs, threads, options))
    if place == "local" and not options:
        check_cores((jobs or 1) * threads, f"--jobs {jobs or 1:,} of {threads:,} threads")
        if jobs in (None, 1):
            return HERE
        if not may_have_workers():
            LOG.warning("--jobs %d: this process is a worker, which may start none; runs go one after another", jobs)
            return HERE
        return Workers(Local(jobs))
    raise UsageError(
        f"--on {on}: must be local, slurm, ray or ray:HOST:PORT; slurm and ray take NAME=VALUE after commas"
    )
