"""What a probe is: a task that asks one thing of a cell, drawn afresh at any length."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

IGNORED = -100
Tokens: TypeAlias = NDArray[np.int64]
Draw: TypeAlias = Callable[[np.random.Generator, int, int], tuple[Tokens, Tokens]]
"""(random, rows, length) to tokens and labels, each (rows, steps); a step without a label has IGNORED."""


@dataclass(frozen=True)
class Probe:
    """A task on tokens. Its length is what grows; a row may have more steps, where it asks after what it has shown."""

    name: str
    asks: str
    """What a cell needs for it, in a few words."""
    source: str
    """Where the task is from."""
    vocabulary: int
    classes: int
    draw: Draw
    shortest: int = 1
    """The length below which there is no such row."""

    def rows(self, random: np.random.Generator, rows: int, length: int) -> tuple[Tokens, Tokens]:
        """`rows` fresh sequences and their labels.

        Raises:
            ValueError: the length is below the shortest.
        """
        if length < self.shortest:
            raise ValueError(f"{self.name}: length must be at least {self.shortest}, got {length}")
        return self.draw(random, rows, length)


def scaled(accuracy: float, chance: float) -> float:
    """Accuracy with chance at 0 and every label right at 1; below 0 where guessing were better."""
    return (accuracy - chance) / (1 - chance)
