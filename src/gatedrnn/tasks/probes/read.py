"""A probe as a task: fresh rows at every step of training, and tests at lengths that training has not seen."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gatedrnn.data.batches import Batch, Examples
from gatedrnn.data.task import TaskData
from gatedrnn.errors import DataError
from gatedrnn.tasks.probes.settings import ProbeTaskSettings
from gatedrnn.tasks.probes.suite import IGNORED, PROBES, Probe

_STEPS_PER_EPOCH = 100
MAX_ROWS, TOKENS, LABELS = 2_000, 2**18, 256
"""The most rows of a test, the most steps of all of them together, and the fewest labels, for which there may be more
steps."""
VALIDATED = 500
"""Rows at most of the validation split, which is gone through after each epoch."""
# Streams of random numbers apart from training's, which starts with the run's own seed.
_VALIDATION, _TEST = 1_000_001, 1_000_002


@dataclass(frozen=True)
class FreshRows:
    """New rows at every step of training: all of one length, or growing to it."""

    probe: Probe
    length: int
    curriculum: int
    """Epochs over which they grow, by one factor at each step. From then on, and on the way, a batch has any length
    between half of what is reached and all of it: what is short is learned already. 0: all have the whole length."""
    labels: str

    @property
    def score(self) -> str:
        """The score that counts."""
        return "accuracy"

    def steps_per_epoch(self, batch_size: int) -> int:
        return _STEPS_PER_EPOCH

    def batch(self, seed: int, epoch: int, index: int, batch_size: int) -> Batch:
        """Draw a batch; it has as many more rows as they are shorter."""
        random = np.random.default_rng([seed, epoch, index])
        length, rows = self.length, batch_size
        if self.curriculum:
            first = min(self.length, max(self.probe.shortest, 2))
            grown = min(1.0, (epoch * _STEPS_PER_EPOCH + index) / (self.curriculum * _STEPS_PER_EPOCH))
            reached = max(first, round(first * (self.length / first) ** grown))
            length = int(random.integers(max(first, (reached + 1) // 2), reached + 1))
            rows = batch_size * _steps(self.probe, self.length) // _steps(self.probe, length)
        inputs, labels = _drawn(self.probe, random, rows, length, self.labels)
        name = "input_ids" if self.probe.vocabulary else "input_values"
        return {name: torch.from_numpy(inputs), "labels": torch.from_numpy(labels)}


def load_probe(settings: ProbeTaskSettings) -> TaskData:
    """The probe that the settings name, with a test at its training length and at each of `test_lengths`.

    Raises:
        DataError: a length is too short for it.
    """
    probe, length = PROBES[settings.task], settings.length
    lengths = tuple(sorted(set(settings.test_lengths))) or (4 * length,)
    for asked in (length, *lengths):
        if asked < probe.shortest:
            raise DataError(f"{probe.name}: lengths begin at {probe.shortest}, got {asked}")
    _, labels = probe.rows(np.random.default_rng(0), 1, length)
    every_step = labels.ndim == 2 and bool((labels != IGNORED).all())
    if settings.labels == "last" and not every_step:
        raise DataError(f"--labels last: {probe.name} does not have a label at every step; leave it at every")

    def fixed(stream: int, length: int, most: int = MAX_ROWS) -> Examples:
        random = np.random.default_rng([settings.split_seed, stream, length])
        few = probe.answers or (1 if settings.labels == "last" else length)
        rows = max(1, min(most, TOKENS // length), -(-LABELS // few))
        inputs, labels = _drawn(probe, random, rows, length, settings.labels)
        if every_step and settings.labels == "every":
            labels[:, : length // 2] = IGNORED
        return Examples(list(inputs), labels, probe.within)

    return TaskData(
        name=settings.task,
        model_inputs=_read(probe),
        label_names=tuple(str(label) for label in range(probe.classes)) or ("number",),
        train=FreshRows(probe, length, settings.curriculum, settings.labels),
        evaluation={
            "validation": fixed(_VALIDATION, length, VALIDATED),
            "test": fixed(_TEST, length),
            **{f"test_{longer}": fixed(_TEST, longer) for longer in lengths if longer != length},
        },
        sources=[{"name": probe.name, "rows": "drawn afresh at every step", "length": length}],
        notes=[
            f"It asks for {probe.asks} ({probe.source}). Training draws fresh rows at every step"
            + (f", of lengths that grow to {length} over {settings.curriculum} epochs" if settings.curriculum else "")
            + "; test_N is the test at length N.",
            _counted(probe, settings.labels),
        ],
    )


@lru_cache
def _steps(probe: Probe, length: int) -> int:
    """The steps of a row: some probes ask after what they have shown."""
    inputs, _ = probe.rows(np.random.default_rng(0), 1, length)
    return int(inputs.shape[1])


def _drawn(
    probe: Probe, random: np.random.Generator, rows: int, length: int, labels: str
) -> tuple[NDArray[Any], NDArray[Any]]:
    inputs, labels_drawn = probe.rows(random, rows, length)
    if labels == "last" and labels_drawn.ndim == 2:
        labels_drawn[:, :-1] = IGNORED
    return inputs, labels_drawn


def _read(probe: Probe) -> dict[str, Any]:
    size = {"vocab_size": probe.vocabulary} if probe.vocabulary else {"input_size": probe.features}
    number = {} if probe.classes else {"problem_type": "regression"}
    return {**size, **number, "pad_token_id": None, "unk_token_id": None}


def _counted(probe: Probe, labels: str) -> str:
    if not probe.classes:
        return f"Accuracy is the share of answers that are off by less than {probe.within}."
    where = "the last step alone" if labels == "last" else "each step that is asked"
    return f"A label at {where}; where that is every step, tests count the second half of each row."
