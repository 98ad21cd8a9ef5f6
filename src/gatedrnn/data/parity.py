"""Parity of random bits: the smallest task that needs a state which can change its sign."""

from dataclasses import dataclass

import numpy as np
import torch

from gatedrnn.data.batches import Batch, Examples
from gatedrnn.data.settings import DataSettings
from gatedrnn.data.task import TaskData

STEPS_PER_EPOCH = 100
EVALUATION_ROWS = 2_000
# Streams of random numbers apart from training's, which starts with the run's own seed.
_VALIDATION, _TEST, _LONG = 1_000_001, 1_000_002, 1_000_003


@dataclass(frozen=True)
class FreshParity:
    """New random bits at every step of training."""

    length: int
    labels: str

    def steps_per_epoch(self, batch_size: int) -> int:
        return STEPS_PER_EPOCH

    def batch(self, seed: int, epoch: int, index: int, batch_size: int) -> Batch:
        bits, labels = _draw(np.random.default_rng([seed, epoch, index]), batch_size, self.length, self.labels)
        return {"input_ids": torch.from_numpy(bits), "labels": torch.from_numpy(labels)}


def load_parity(settings: DataSettings) -> TaskData:
    """Parity at the training length, and at 4 times it for the test of what was learned."""

    def fixed(stream: int, length: int) -> Examples:
        random = np.random.default_rng([settings.split_seed, stream])
        bits, labels = _draw(random, EVALUATION_ROWS, length, settings.labels)
        return Examples(list(bits), labels)

    return TaskData(
        name="parity",
        model_inputs={"vocab_size": 2, "pad_token_id": None, "unk_token_id": None},
        label_names=("even", "odd"),
        labelled="step",
        train=FreshParity(settings.length, settings.labels),
        evaluation={
            "validation": fixed(_VALIDATION, settings.length),
            "test": fixed(_TEST, settings.length),
            "test_4x": fixed(_LONG, 4 * settings.length),
        },
        sources=[{"name": "parity", "rows": "drawn afresh at every step", "length": settings.length}],
        notes=[
            "Training draws fresh bits at every step; test_4x is the test at 4 times the training length.",
            f"A label at {'every step' if settings.labels == 'every' else 'the last step alone'};"
            " accuracy counts labelled steps.",
        ],
    )


def _draw(random: np.random.Generator, rows: int, length: int, labels: str) -> tuple[np.ndarray, np.ndarray]:
    bits = random.integers(0, 2, (rows, length))
    parity = bits.cumsum(1) % 2
    if labels == "last":
        parity[:, :-1] = -100
    return bits, parity
