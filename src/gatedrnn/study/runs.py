"""Many runs, one after another or in parallel processes, each in its own folder; finished runs are not run again."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from gatedrnn.errors import Interrupted, NonFiniteLoss
from gatedrnn.train.interrupt import StopFlag
from gatedrnn.train.loop import Progress, run
from gatedrnn.train.resources import compile_kernels
from gatedrnn.train.result import RunResult
from gatedrnn.train.settings import RunSettings

OnProgress = Callable[[str, Progress | None, int, int], None]
"""Called with (run, how far it is or None where it has ended, finished runs, runs in all)."""
SECONDS_BETWEEN_REPORTS = 1.0
"""Of a worker process."""
Records = dict[str, RunResult]
"""Results by the names of the runs."""


def run_all(
    runs: Mapping[str, RunSettings], folder: Path, jobs: int, on_progress: OnProgress
) -> tuple[Records, list[NonFiniteLoss]]:
    """Every run's result by name, in the order of `runs`, and the errors of runs that diverged.

    Each run has a folder of its name in `folder`. A loss that is not finite ends only its own run; any other error ends
    all of them, and the same call resumes.
    """
    compile_kernels(run for name, run in runs.items() if not (folder / name / "result.json").exists())
    on_progress("", None, 0, len(runs))
    records, diverged = (
        _one_by_one(runs, folder, on_progress) if jobs == 1 else _side_by_side(runs, folder, jobs, on_progress)
    )
    return {name: records[name] for name in runs if name in records}, diverged


def _one_by_one(
    runs: Mapping[str, RunSettings], folder: Path, on_progress: OnProgress
) -> tuple[Records, list[NonFiniteLoss]]:
    records, diverged = Records(), list[NonFiniteLoss]()
    for finished, (name, settings) in enumerate(runs.items()):

        def tell(progress: Progress, name: str = name, finished: int = finished) -> None:
            on_progress(name, progress, finished, len(runs))

        try:
            records[name] = run(settings, folder / name, tell)
        except NonFiniteLoss as error:
            diverged.append(error)
        on_progress(name, None, finished + 1, len(runs))
    return records, diverged


def _side_by_side(
    runs: Mapping[str, RunSettings], folder: Path, jobs: int, on_progress: OnProgress
) -> tuple[Records, list[NonFiniteLoss]]:
    records, diverged = Records(), list[NonFiniteLoss]()
    context = multiprocessing.get_context("spawn")  # a fork would copy the parent's threads half-way
    stop, reports = context.Event(), context.SimpleQueue()
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_worker, initargs=(stop, reports))
    try:
        futures = {pool.submit(_run_in_worker, settings, folder, name): name for name, settings in runs.items()}
        waiting, finished = set(futures), 0
        while waiting:
            ended, waiting = wait(waiting, SECONDS_BETWEEN_REPORTS, FIRST_COMPLETED)
            while not reports.empty():
                name, progress = reports.get()
                on_progress(name, progress, finished, len(runs))
            for future in ended:
                finished += 1
                fault = future.exception()
                if isinstance(fault, NonFiniteLoss):
                    diverged.append(fault)
                elif fault is not None:
                    raise fault
                else:
                    records[futures[future]] = future.result()
                on_progress(futures[future], None, finished, len(runs))
    except BaseException:
        stop.set()  # each run that is under way ends its step and saves; what is finished stays
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    return records, diverged


class _ParentStops:
    """Set when the parent process asks to stop, or is no more."""

    def __init__(self, asked: StopFlag) -> None:
        self.asked = asked

    def is_set(self) -> bool:
        parent = multiprocessing.parent_process()
        return self.asked.is_set() or (parent is not None and not parent.is_alive())


_stop: StopFlag | None = None  # a worker process's own, as the next two; set once, when it begins
_reports: Any = None
_at_work = threading.Lock()


def _end_with_parent() -> None:
    """End this process when the parent is killed, as soon as the run under way has saved: nobody would."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    with _at_work:
        os._exit(1)


def _begin_worker(asked: StopFlag, reports: Any) -> None:
    global _stop, _reports
    _stop, _reports = _ParentStops(asked), reports
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # A terminal sends Ctrl-C, and SIGHUP when it closes, to every process; the parent alone answers, through the flag.
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def _run_in_worker(settings: RunSettings, folder: Path, name: str) -> RunResult:
    if _stop is not None and _stop.is_set():
        raise Interrupted(f"{folder / name}: not started")
    next_report = time.monotonic()

    def report(progress: Progress) -> None:
        nonlocal next_report
        if time.monotonic() >= next_report or progress.doing:
            next_report = time.monotonic() + SECONDS_BETWEEN_REPORTS
            _reports.put((name, progress))

    try:
        with _at_work:
            return run(settings, folder / name, report, _stop)
    except Interrupted as error:
        if error.signal_number is not None:  # this process alone was asked to end, and has saved
            signal.raise_signal(error.signal_number)
        raise
