"""The adding problem: two of many numbers are marked, and their sum is asked for at the end."""

import numpy as np

from gatedrnn.data.probes.probe import Numbers, Probe

SOURCE = "Hochreiter & Schmidhuber 1997; drawn as in Arjovsky et al. 2016, arXiv:1511.06464"
WITHIN = 0.04
NEAR_ONE = 1 - (1 - WITHIN) ** 2
"""The probability of a sum that near to 1, which is its most frequent value."""


def _adding(random: np.random.Generator, rows: int, length: int) -> tuple[Numbers, Numbers]:
    """Draw for each step a number in [0, 1) and a mark: one step of each half of the sequence is marked."""
    numbers = random.random((rows, length), dtype=np.float32)
    marks = np.zeros_like(numbers)
    half, all_rows = length // 2, np.arange(rows)
    marks[all_rows, random.integers(0, half, rows)] = 1
    marks[all_rows, random.integers(half, length, rows)] = 1
    return np.stack([numbers, marks], axis=2), (numbers * marks).sum(1)


ADDING = (
    Probe(
        "adding", "two numbers kept, and all else let go", SOURCE, 0, 0, _adding,
        shortest=2, features=2, within=WITHIN, answers=1, guess=NEAR_ONE,
    ),
)  # fmt: skip
