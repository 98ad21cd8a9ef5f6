"""Batches of running text, as a pure function of (seed, epoch, index): no state to save."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import torch

from gatedrnn.data import shards
from gatedrnn.data.batches import Batch
from gatedrnn.data.stream import TokenStream
from gatedrnn.errors import DataError


@dataclass(frozen=True, eq=False)
class Lanes:
    """A text cut into as many equal lanes as a batch has rows; what remains, less than one token a lane, is left out.

    Batch `index` of an epoch holds the tokens `length * index` and on of every lane, and after each of them the one to
    predict: truncated backpropagation through time. It is the same whatever the seed and the epoch.
    """

    stream: TokenStream
    length: int
    resets: bool
    """Whether batches say where documents begin, for the state to be reset there."""

    def steps_per_epoch(self, batch_size: int) -> int:
        return -(-self._lane(batch_size) // self.length)

    def batch(self, seed: int, epoch: int, index: int, batch_size: int) -> Batch:
        lane = self._lane(batch_size)
        first, last = index * self.length, min((index + 1) * self.length, lane)
        places = [(row * lane + first, row * lane + last) for row in range(batch_size)]
        return _batch(self.stream, places, self.resets)

    def _lane(self, lanes: int) -> int:
        """Tokens to predict in each lane."""
        steps = self.stream.predictions // lanes
        if steps < 1:
            raise DataError(
                f"--batch-size: {lanes} lanes are more than the training text has tokens, {self.stream.predictions:,}"
            )
        return steps


@dataclass(frozen=True, eq=False)
class ShuffledChunks:
    """A text cut into chunks of one length, each read once an epoch from the initial state; what remains at its end,
    less than a chunk, is left out.

    Shards come in an order drawn from (seed, epoch), and the chunks of each in one drawn from (seed, epoch, shard): the
    numbers in memory are those of two shards' chunks, and what is read lies close together on the disk.
    """

    stream: TokenStream
    length: int
    resets: bool
    """Whether batches say where documents begin, for the state to be reset there."""

    def __post_init__(self) -> None:
        if not self._chunks:
            raise DataError(
                f"--length: {self.length} tokens are more than the training text has, {self.stream.predictions:,}"
            )

    def steps_per_epoch(self, batch_size: int) -> int:
        return -(-self._chunks // batch_size)

    def batch(self, seed: int, epoch: int, index: int, batch_size: int) -> Batch:
        numbers = range(index * batch_size, min((index + 1) * batch_size, self._chunks))
        chunks = [self._chunk(seed, epoch, number) for number in numbers]
        return _batch(self.stream, [(n * self.length, (n + 1) * self.length) for n in chunks], self.resets)

    @property
    def _chunks(self) -> int:
        return self.stream.predictions // self.length

    def _chunk(self, seed: int, epoch: int, number: int) -> int:
        """The chunk that is read under this number."""
        a_shard = max(1, shards.LENGTH // self.length)
        order = _permuted((seed, epoch), -(-self._chunks // a_shard))
        sizes = np.minimum(a_shard, self._chunks - order * a_shard)
        ends = np.cumsum(sizes)
        place = int(np.searchsorted(ends, number, side="right"))
        shard, size = int(order[place]), int(sizes[place])
        within = _permuted((seed, epoch, shard), size)
        return shard * a_shard + int(within[number - (int(ends[place]) - size)])


RunningText: TypeAlias = Lanes | ShuffledChunks
"""Both ways to read a text in training."""


@lru_cache(maxsize=4)
def _permuted(seeds: tuple[int, ...], count: int) -> np.ndarray:
    return np.random.default_rng(seeds).permutation(count)


def _batch(stream: TokenStream, places: Sequence[tuple[int, int]], resets: bool) -> Batch:
    """Rows from one place of a text to another, all of one length, and after each token the one to predict."""
    rows = np.stack([stream.tokens[low : high + 1] for low, high in places]).astype(np.int64)
    tokens = torch.from_numpy(rows)
    batch = {"input_ids": tokens[:, :-1], "shift_labels": tokens[:, 1:]}
    if resets:
        batch["resets"] = torch.from_numpy(np.stack([begins(stream, low, high) for low, high in places]))
    return batch


def begins(stream: TokenStream, low: int, high: int) -> np.ndarray:
    """Flags, bool, of the tokens low, …, high - 1 that precede the first of a document: there its <eos> is read."""
    flags = np.zeros(high - low, np.bool_)
    first, last = np.searchsorted(stream.starts, [low + 1, high + 1])
    flags[stream.starts[first:last] - 1 - low] = True
    return flags
