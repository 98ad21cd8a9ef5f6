"""The batches of steps, from worker processes that prepare them before they are asked for, or as they are asked for."""

from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, Dataset

from gatedrnn.data.batches import Batch, TrainingSource
from gatedrnn.processes import end_with_parent

PREPARED = 4
"""Steps that each worker is ahead."""


class StepBatches(Dataset[list[Batch]]):
    """The batches of each step of a run: a pure function of its number, whatever was asked before.

    Args:
        source: of the batches.
        seed: of their order.
        batch_size: rows of each.
        accumulate: batches in a step; the last one of an epoch may have fewer.
    """

    def __init__(self, source: TrainingSource, seed: int, batch_size: int, accumulate: int) -> None:
        self.source, self.seed, self.batch_size, self.accumulate = source, seed, batch_size, accumulate
        self.batches = source.steps_per_epoch(batch_size)
        self.steps_per_epoch = -(-self.batches // accumulate)

    def __getitem__(self, step: int) -> list[Batch]:
        epoch, index = divmod(step, self.steps_per_epoch)
        first = index * self.accumulate
        numbers = range(first, min(first + self.accumulate, self.batches))
        return [self.source.batch(self.seed, epoch, number, self.batch_size) for number in numbers]

    def ahead(self, steps: range, workers: int = 0) -> Iterator[list[Batch]]:
        """The batches of some steps in turn; `workers` processes prepare them, or this one on demand where there are
        none.
        """
        if not workers:
            return map(self.__getitem__, steps)
        # A generator of its own: the loader draws a number, which would move the one that a run's dropout comes from.
        return iter(
            DataLoader(
                self, batch_size=None, sampler=steps, num_workers=workers, prefetch_factor=PREPARED,
                generator=torch.Generator(), worker_init_fn=_begin,
            )
        )  # fmt: skip


def _begin(_: int) -> None:
    end_with_parent()
