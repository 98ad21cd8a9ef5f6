"""Speed and memory of training: contenders in turn on the same batches, and each alone in a process of its own."""

import gc
import logging
import multiprocessing
import tempfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import torch

from gatedrnn.data import TaskData, load_task, tokens_in
from gatedrnn.processes import end_with_parent
from gatedrnn.study.results import Speed
from gatedrnn.timing import interleave
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.loop import Trainer
from gatedrnn.training.settings import RunSettings

LOG = logging.getLogger("gatedrnn")
STEPS = 4
"""Training steps of one timing: the first batches of the last epoch, where a curriculum has grown most."""


MANY_STEPS = 50
"""Enough for the mean number of tokens of a step."""
MEMORY_STEPS = 20
"""Training steps of one measurement of memory."""


def training_speed(runs: Mapping[str, RunSettings], data: TaskData, seconds: float) -> dict[str, Speed]:
    """The speed of each contender's training steps: data in memory, no validation, no checkpoints.

    Args:
        runs: the settings of one run of each contender, by the contender's name.
        data: what all of them train on.
        seconds: how long to measure each contender.
    """
    LOG.info(
        "measuring the training speed of %d contenders on %s, about %.0f s", len(runs), data.name, seconds * len(runs)
    )
    before = torch.get_num_threads()
    try:
        with tempfile.TemporaryDirectory() as folder:
            trainers = {name: Trainer(run, data, RunFolder(Path(folder) / name)) for name, run in runs.items()}
            steps = min(STEPS, *(trainer.steps_per_epoch for trainer in trainers.values()))
            timed = interleave(
                {name: partial(trainer.run_steps, steps) for name, trainer in trainers.items()}, seconds * len(trainers)
            )
    finally:
        torch.set_num_threads(before)
    speeds: dict[str, Speed] = {}
    for name, samples in timed.items():
        spread, tokens = samples.spread, steps * tokens_of_step(runs[name], data, steps)
        speeds[name] = Speed(
            median=tokens / spread.median, low=tokens / spread.high, high=tokens / spread.low,
            timings=len(samples.seconds),
        )  # fmt: skip
    return speeds


def tokens_of_step(run: RunSettings, data: TaskData, steps: int = MANY_STEPS) -> float:
    """The mean tokens of a step over the first steps of the last epoch, padding not counted."""
    train = run.train
    batches = min(steps * train.accumulate, data.train.steps_per_epoch(train.batch_size))
    tokens = [tokens_in(data.train.batch(run.seed, train.epochs - 1, n, train.batch_size)) for n in range(batches)]
    return sum(tokens) / -(-batches // train.accumulate)


def training_memory(settings: RunSettings) -> float | None:
    """Peak resident memory of model, optimizer and a few training steps, in MiB; None where the system does not tell.

    Measured in a process of its own. The data are loaded before the measurement begins, and do not count.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), end_with_parent) as pool:
        return pool.submit(_measure, settings).result()


def _measure(settings: RunSettings) -> float | None:
    data = load_task(settings.data)
    # The first step of a process imports and compiles: the smallest model takes it before the measurement.
    width = settings.model.embedding_size if settings.backbone is not None else 1  # not every backbone has width 1
    tiny = settings.model_copy(
        update={"hidden_size": 1, "model": settings.model.model_copy(update={"embedding_size": width})}
    )
    _train(tiny, 1)
    gc.collect()
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    except OSError:
        return None
    before = _resident("VmRSS")
    if before is None:
        return None
    _train(settings, min(MEMORY_STEPS, data.train.steps_per_epoch(settings.train.batch_size)))
    peak = _resident("VmHWM")
    return None if peak is None else max(0.0, peak - before)


def _train(settings: RunSettings, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Trainer(settings, load_task(settings.data), RunFolder(Path(folder))).run_steps(steps)


def _resident(field: str) -> float | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(field)), None)
