"""The definition of a probe: a task that asks one thing of a cell, drawn afresh at any length."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gatedrnn.data.batches import Examples

IGNORED = -100
Tokens: TypeAlias = NDArray[np.int64]
Numbers: TypeAlias = NDArray[np.float32]
Draw: TypeAlias = Callable[[np.random.Generator, int, int], tuple[Tokens, Tokens] | tuple[Numbers, Numbers]]
"""(random, rows, length) to inputs and labels: tokens (rows, steps) and a label each, IGNORED where there is none; or
numbers (rows, steps, features) and one number a row."""


@dataclass(frozen=True)
class Probe:
    """A small task. Its length is what grows; a row may have more steps, where it asks after what it has shown."""

    name: str
    asks: str
    """The ability that a cell needs for it, in a few words."""
    source: str
    """The origin of the task."""
    vocabulary: int
    """The number of its tokens; 0 where it is made of numbers."""
    classes: int
    """The number of classes of a label; 0 where it is a number."""
    draw: Draw
    shortest: int = 1
    """The length below which there is no such row."""
    features: int = 0
    """Numbers at a step."""
    within: float = 0.0
    """An answer that is a number is right when it is off by less."""
    answers: int = 0
    """Labels of a row of any length; 0 where they grow with it."""
    guess: float | None = None
    """The accuracy of the best answer that reads nothing but where it is, if that is not one in `classes`."""

    @property
    def chance(self) -> float:
        """The accuracy of the best answer that reads nothing."""
        return 1 / self.classes if self.guess is None else self.guess

    def rows(self, random: np.random.Generator, rows: int, length: int) -> tuple[np.ndarray, np.ndarray]:
        """`rows` fresh sequences and their labels.

        Raises:
            ValueError: the length is below the shortest.
        """
        if length < self.shortest:
            raise ValueError(f"{self.name}: length must be at least {self.shortest}, got {length}")
        return self.draw(random, rows, length)


def labels_in(examples: "Examples") -> int:
    """The number of answers that a test asks for."""
    return int((examples.labels != IGNORED).sum())


def scaled(accuracy: float, chance: float) -> float:
    """Accuracy with chance at 0 and every label right at 1; below 0 where guessing were better."""
    return (accuracy - chance) / (1 - chance)
