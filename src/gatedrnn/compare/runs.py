"""Many runs, one after another or several at a time, each in its own folder; what is finished is not run again."""

import multiprocessing
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from gatedrnn.train.interrupt import StopFlag
from gatedrnn.train.loop import Interrupted, NonFiniteLoss, Progress, run
from gatedrnn.train.settings import RunSettings

OnProgress = Callable[[str, float, int, int], None]
"""Called with (run, part of it that is done, finished runs, runs in all)."""
Records = dict[str, dict[str, Any]]
"""Results of runs by the runs' names."""


def run_all(
    runs: Mapping[str, RunSettings], folder: Path, jobs: int, on_progress: OnProgress
) -> tuple[Records, list[NonFiniteLoss]]:
    """Every run's result by name, in the order of `runs`, and what was said of the runs that have none.

    Each goes into a folder of its name in `folder`. A run whose loss is not finite lets the others finish; whatever
    else a run raises ends them all, and the same call goes on from there.
    """
    on_progress("", 0.0, 0, len(runs))
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
            on_progress(name, progress.step / progress.steps, finished, len(runs))

        try:
            records[name] = run(settings, folder / name, tell)
        except NonFiniteLoss as error:
            diverged.append(error)
        on_progress(name, 1.0, finished + 1, len(runs))
    return records, diverged


def _side_by_side(
    runs: Mapping[str, RunSettings], folder: Path, jobs: int, on_progress: OnProgress
) -> tuple[Records, list[NonFiniteLoss]]:
    records, diverged = Records(), list[NonFiniteLoss]()
    context = multiprocessing.get_context("spawn")  # a fork would copy the parent's threads half-way
    stop = context.Event()
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_worker, initargs=(stop,))
    try:
        futures = {pool.submit(_run_in_worker, settings, folder / name): name for name, settings in runs.items()}
        for finished, future in enumerate(as_completed(futures), start=1):
            fault = future.exception()
            if isinstance(fault, NonFiniteLoss):
                diverged.append(fault)
            elif fault is not None:
                raise fault
            else:
                records[futures[future]] = future.result()
            on_progress(futures[future], 1.0, finished, len(runs))
    except BaseException:
        stop.set()  # each run that is under way ends its step and saves; what is finished stays
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    return records, diverged


_stop: StopFlag | None = None  # a worker process's own; set once, when it begins


def _begin_worker(stop: StopFlag) -> None:
    global _stop
    _stop = stop
    # A terminal sends Ctrl-C to every process; the parent alone answers it, through the flag.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run_in_worker(settings: RunSettings, path: Path) -> dict[str, Any]:
    if _stop is not None and _stop.is_set():
        raise Interrupted(f"{path}: not started")
    return run(settings, path, stop=_stop)
