"""Runs in processes of this machine, which are used again for the next run."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from pathlib import Path

from gatedrnn.data import tasks_kept
from gatedrnn.errors import Interrupted, OutOfMemory, WorkerLost
from gatedrnn.executors.work import Report, Task, work
from gatedrnn.training.interrupt import StopFlag

KILLS = Path("/proc/vmstat")
"""The file in which Linux counts the processes that it has killed for want of memory."""


class Local:
    """The engine of `--on local` with several `--jobs`: as many pools of one process each, so that one that is killed
    takes no other with it."""

    on: str = "local"

    def __init__(self, jobs: int) -> None:
        self.jobs: int | None = jobs
        self._context = multiprocessing.get_context("spawn")  # a fork would copy the parent's threads half-way
        self._stop = self._context.Event()
        self._free: list[ProcessPoolExecutor] = []
        self._busy: dict[Future[Report], ProcessPoolExecutor] = {}
        self._killed = 0

    def open(self, folder: Path) -> None:
        """Start a pool of one process for each job."""
        self._stop.clear()
        self._free += [self._pool() for _ in range((self.jobs or 0) - len(self._free))]
        self._killed = _killed_for_memory()

    def _pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, self._context, initializer=_begin, initargs=(self._stop,))

    def start(self, tasks: Sequence[Task]) -> Sequence[Future[Report]]:
        """Submit each task to a free pool."""
        jobs = []
        for task in tasks:
            pool = self._free.pop()
            jobs.append(pool.submit(_work, task))
            self._busy[jobs[-1]] = pool
        return jobs

    def wait(self, jobs: Collection[Future[Report]], seconds: float) -> Collection[Future[Report]]:
        """Wait for the first of these futures."""
        return wait(jobs, seconds, FIRST_COMPLETED).done

    def report(self, job: Future[Report]) -> Report:
        """The report of a future; its pool is free again."""
        pool = self._busy.pop(job)
        try:
            report = job.result()
        except BrokenProcessPool as error:
            pool.shutdown()
            self._free.append(self._pool())
            before, self._killed = self._killed, _killed_for_memory()
            if self._killed > before:
                raise OutOfMemory("its process was killed by the system, which had no memory left") from error
            raise WorkerLost("its process was killed") from error
        self._free.append(pool)
        return report

    def stop(self, jobs: Collection[Future[Report]]) -> None:
        """Set the event on which workers save and end."""
        self._stop.set()

    def close(self) -> None:
        """Shut all pools down."""
        for pool in (*self._free, *self._busy.values()):
            pool.shutdown(cancel_futures=True)
        self._free, self._busy = [], {}


class _ParentStops:
    """Set when the parent process asks to stop, or is no more."""

    def __init__(self, asked: StopFlag) -> None:
        self.asked = asked

    def is_set(self) -> bool:
        parent = multiprocessing.parent_process()
        return self.asked.is_set() or (parent is not None and not parent.is_alive())


_tasks = ExitStack()  # of a worker process, which ends with its comparison
_stop: StopFlag | None = None  # a worker process's own; set once, when it begins
_at_work = threading.Lock()


def _end_with_parent() -> None:
    """End this process when the parent is killed, as soon as the run under way has saved: nobody would."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    with _at_work:
        os._exit(1)


def _begin(asked: StopFlag) -> None:
    global _stop
    _stop = _ParentStops(asked)
    _tasks.enter_context(tasks_kept())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # A terminal sends Ctrl-C, and SIGHUP when it closes, to every process; the parent alone answers, through the flag.
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def _work(task: Task) -> Report:
    with _at_work:
        report = work(task, _stop)
    if isinstance(report.fault, Interrupted) and report.fault.signal_number is not None:
        signal.raise_signal(report.fault.signal_number)  # this process alone was asked to end, and has saved
    return report


def _killed_for_memory() -> int:
    """The number of processes that the system has killed so far for want of memory; 0 where it does not count them."""
    try:
        lines = KILLS.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
