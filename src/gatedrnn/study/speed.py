"""How fast contenders train, side by side: their steps in turn, in one process, on the same batches."""

import logging
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TypedDict

import torch

from gatedrnn.data import TaskData, tokens_in
from gatedrnn.timing import interleave
from gatedrnn.train.folder import RunFolder
from gatedrnn.train.loop import Trainer
from gatedrnn.train.settings import RunSettings

LOG = logging.getLogger("gatedrnn")
STEPS = 4
"""Training steps of one timing: the first batches of the last epoch, where a curriculum has grown most."""


class Speed(TypedDict):
    """Training tokens a second: the median over timings, and its quartiles."""

    median: float
    low: float
    high: float
    timings: int


def training_speed(runs: Mapping[str, RunSettings], data: TaskData, seconds: float) -> dict[str, Speed]:
    """The speed of each contender's training steps, data in memory, validation and saving left out.

    Args:
        runs: the settings of one run of each contender, by the contender's name; of one batch size and seed.
        data: what all of them train on.
        seconds: of measuring, for each contender.
    """
    LOG.info(
        "measuring the training speed of %d contenders on %s, about %.0f s", len(runs), data.name, seconds * len(runs)
    )
    before = torch.get_num_threads()
    try:
        with tempfile.TemporaryDirectory() as folder:
            trainers = {name: Trainer(run, data, RunFolder(Path(folder) / name)) for name, run in runs.items()}
            steps = min(STEPS, *(trainer.steps_per_epoch for trainer in trainers.values()))
            found = interleave(
                {name: partial(trainer.rehearse, steps) for name, trainer in trainers.items()}, seconds * len(trainers)
            )
    finally:
        torch.set_num_threads(before)
    one = next(iter(runs.values()))
    tokens = sum(
        tokens_in(data.train.batch(one.seed, one.train.epochs - 1, index, one.train.batch_size))
        for index in range(steps)
    )
    speeds: dict[str, Speed] = {}
    for name, samples in found.items():
        spread = samples.spread
        speeds[name] = {
            "median": tokens / spread.median, "low": tokens / spread.high, "high": tokens / spread.low,
            "timings": len(samples.seconds),
        }  # fmt: skip
    return speeds
