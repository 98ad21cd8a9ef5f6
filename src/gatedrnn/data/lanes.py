"""Batches of running text: contiguous lanes, each read a stretch at a time, so that a state can be carried along."""

from dataclasses import dataclass

import numpy as np
import torch

from gatedrnn.data.batches import Batch
from gatedrnn.data.stream import TokenStream
from gatedrnn.errors import DataError


@dataclass(frozen=True, eq=False)
class Lanes:
    """A text cut into as many equal lanes as a batch has rows; what remains, less than one token a lane, is left out.

    Batch `index` of an epoch holds the tokens `length * index` and on of every lane, and after each of them the one to
    foretell: truncated backpropagation through time. It is the same whatever the seed and the epoch.
    """

    stream: TokenStream
    length: int
    resets: bool
    """Whether batches say where documents begin, for the state to begin anew there."""

    def steps_per_epoch(self, batch_size: int) -> int:
        return -(-self._lane(batch_size) // self.length)

    def batch(self, seed: int, epoch: int, index: int, batch_size: int) -> Batch:
        lane = self._lane(batch_size)
        first, last = index * self.length, min((index + 1) * self.length, lane)
        places = [(row * lane + first, row * lane + last) for row in range(batch_size)]
        rows = np.stack([self.stream.tokens[low : high + 1] for low, high in places]).astype(np.int64)
        tokens = torch.from_numpy(rows)
        batch = {"input_ids": tokens[:, :-1], "shift_labels": tokens[:, 1:]}
        if self.resets:
            batch["resets"] = torch.from_numpy(np.stack([begins(self.stream, low, high) for low, high in places]))
        return batch

    def _lane(self, lanes: int) -> int:
        """Tokens to foretell in each lane."""
        found = self.stream.predictions // lanes
        if found < 1:
            raise DataError(
                f"--batch-size: {lanes} lanes are more than the training text has tokens, {self.stream.predictions:,}"
            )
        return found


def begins(stream: TokenStream, low: int, high: int) -> np.ndarray:
    """Which of the tokens low, …, high - 1 stand before the first of a document, bool: there its <eos> is read."""
    flags = np.zeros(high - low, np.bool_)
    first, last = np.searchsorted(stream.starts, [low + 1, high + 1])
    flags[stream.starts[first:last] - 1 - low] = True
    return flags
