"""Batches of sequences, as a pure function of (seed, epoch, index): no state to save; workers may prepare them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from gatedrnn.children import end_with_parent
from gatedrnn.errors import DataError

Batch: TypeAlias = dict[str, Tensor]
"""Arguments of a model's forward: input_ids or input_values, labels, attention_mask where something is padded, and gaps
of uneven series; beside them, in training, what each row counts, as weights."""

_BUCKET = 50  # batches whose sequences are sorted by length together: enough for little padding, few enough to mix
_EVALUATION_TOKENS = 16_384  # padded tokens of an evaluation batch at most


class TrainingSource(Protocol):
    """A source of training batches."""

    @property
    def score(self) -> str:
        """The score that counts, by its name in `Scores`."""
        ...

    def steps_per_epoch(self, batch_size: int) -> int:
        """Batches in an epoch."""
        ...

    def batch(self, seed: int, epoch: int, index: int, batch_size: int) -> Batch:
        """Batch `index` of an epoch: the same for the same arguments, whatever was asked before."""
        ...


@dataclass(frozen=True, eq=False)
class Examples:
    """Sequences in memory with their labels.

    `inputs`: arrays (time,) of token numbers or (time, features) of numbers. `labels`: (rows,), or (rows, time) with a
    label at every step (-100 where there is none); classes, or numbers; or (rows, labels), 1 for each that a row has
    and 0 for all others, where a row has `several`. `within`: of numbers, an answer is right when it is off by less; 0
    where its error counts. `unit`: what errors are in units of. `metric`: the score that counts, by its name in
    `Scores`; None for the accuracy of classes and the error of numbers. `gaps`: of uneven series, (time,) each, since
    the step before. `weights`: (rows,), what each counts in the loss of training, 1 in the mean; None for 1. `groups`:
    (rows,), the number of the group that each belongs to, which intervals of scores draw as a whole; None for none.
    """

    inputs: list[np.ndarray]
    labels: np.ndarray
    within: float = 0.0
    unit: float = 1.0
    several: bool = False
    metric: str | None = None
    gaps: list[np.ndarray] | None = None
    weights: np.ndarray | None = None
    groups: np.ndarray | None = None
    lengths: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", np.array([len(x) for x in self.inputs], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def are_numbers(self) -> bool:
        """Whether labels are numbers, not classes."""
        return not self.several and bool(np.issubdtype(self.labels.dtype, np.floating))

    @property
    def score(self) -> str:
        """The score that counts, by its name in `Scores`: `metric`, else the accuracy, or the error of numbers."""
        return self.metric or ("scaled_mae" if self.are_numbers and not self.within else "accuracy")

    @property
    def of_steps(self) -> bool:
        """Whether every step has a label."""
        return self.labels.ndim == 2 and not self.several

    def own_labels(self) -> list[np.ndarray]:
        """The labels of each row, as long as it is where every step has one."""
        return [row[:length] if self.of_steps else row for row, length in zip(self.labels, self.lengths, strict=True)]

    @property
    def ranked(self) -> bool:
        """Whether what counts is how well the outputs separate classes."""
        return self.metric == "auroc"

    def steps_per_epoch(self, batch_size: int) -> int:
        return -(-len(self) // batch_size)

    def batch(self, seed: int, epoch: int, index: int, batch_size: int) -> Batch:
        rows = _epoch_order(self, seed, epoch, batch_size)[index]
        batch = self.collate(rows)
        return batch if self.weights is None else batch | {"weights": torch.from_numpy(self.weights[rows])}

    def evaluation_batches(self) -> Iterator[Batch]:
        """Every example once, in order of length."""
        return map(self.collate, self.evaluation_rows())

    def evaluation_rows(self) -> Iterator[np.ndarray]:
        """The rows of each of `evaluation_batches`."""
        order = np.argsort(self.lengths, kind="stable")
        start = 0
        while start < len(order):
            # Sorted by length, so the last row that fits decides the width of the batch.
            stop = start + 1
            while stop < len(order) and (stop + 1 - start) * self.lengths[order[stop]] <= _EVALUATION_TOKENS:
                stop += 1
            yield order[start:stop]
            start = stop

    def collate(self, rows: np.ndarray) -> Batch:
        """Join these rows into one batch, padded on the right with zeros; no mask where nothing is padded."""
        lengths = self.lengths[rows]
        inputs = _padded([self.inputs[row] for row in rows])
        name = "input_values" if inputs.is_floating_point() else "input_ids"
        labels = self.labels[rows]
        if self.of_steps:
            labels = labels[:, : lengths.max()]
        batch = {name: inputs, "labels": torch.from_numpy(labels)}
        if self.gaps is not None:
            batch["gaps"] = _padded([self.gaps[row] for row in rows])
        if lengths.min() < lengths.max():
            batch["attention_mask"] = torch.from_numpy((np.arange(lengths.max()) < lengths[:, None]).astype(np.int64))
        return batch


def _padded(sequences: list[np.ndarray]) -> Tensor:
    """(rows, time, …) of sequences of unequal lengths."""
    padded = np.zeros((len(sequences), max(map(len, sequences)), *sequences[0].shape[1:]), sequences[0].dtype)
    for into, sequence in zip(padded, sequences, strict=True):
        into[: len(sequence)] = sequence
    return torch.from_numpy(padded)


@lru_cache(maxsize=2)
def _epoch_order(examples: Examples, seed: int, epoch: int, batch_size: int) -> list[np.ndarray]:
    """Rows of each batch: shuffled, sorted by length within buckets, and the batches shuffled again."""
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(examples))
    if examples.lengths.min() < examples.lengths.max():
        bucket = _BUCKET * batch_size
        parts = [order[i : i + bucket] for i in range(0, len(order), bucket)]
        order = np.concatenate([part[np.argsort(examples.lengths[part], kind="stable")] for part in parts])
    batches = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    return [batches[i] for i in random.permutation(len(batches))]


def weights_of(values: np.ndarray | None, place: str) -> np.ndarray | None:
    """Weights of rows in the loss, (rows,), float32, 1 in the mean; None where all count alike.

    Raises:
        DataError: one is missing or below 0, or all are 0.
    """
    if values is None:
        return None
    wrong = np.flatnonzero(~(values >= 0) | np.isinf(values))
    if len(wrong):
        raise DataError(f"{place}: weights must be 0 or more, row {wrong[0] + 1} has {values[wrong[0]]:g}")
    if not values.any():
        raise DataError(f"{place}: all weights are 0: there is nothing to learn from")
    return None if (values == values[0]).all() else (values / values.mean()).astype(np.float32)


def tokens_in(batch: Batch) -> int:
    """Real steps in a batch, padding not counted."""
    if "attention_mask" in batch:
        return int(batch["attention_mask"].sum())
    inputs = next(batch[name] for name in ("input_ids", "input_values", "past_values") if name in batch)
    return inputs.shape[0] * inputs.shape[1]


_PREPARED = 4
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
                self, batch_size=None, sampler=steps, num_workers=workers, prefetch_factor=_PREPARED,
                generator=torch.Generator(), worker_init_fn=_begin,
            )
        )  # fmt: skip


def _begin(_: int) -> None:
    end_with_parent()
