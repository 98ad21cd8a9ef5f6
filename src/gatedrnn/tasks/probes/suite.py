"""The probes: small tasks that each ask one thing of a cell, drawn afresh at any length."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from math import comb
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


MODULUS, CYCLE = 5, 5
SOURCES = {
    "parity": "Grazzi et al. 2025, arXiv:2411.12537",
    "cycle": "Delétang et al. 2023, arXiv:2207.02098",
    "words": "Merrill et al. 2024, arXiv:2404.08819",
    "adding": "Hochreiter & Schmidhuber 1997; drawn as in Arjovsky et al. 2016, arXiv:1511.06464",
}


def running_sum(moves: Tokens, modulus: int) -> Tokens:
    """Sums of all moves so far, modulo a number."""
    return moves.cumsum(1) % modulus


def _parity(random: np.random.Generator, rows: int, length: int) -> tuple[Tokens, Tokens]:
    bits = random.integers(0, 2, (rows, length))
    return bits, running_sum(bits, 2)


def _modular(random: np.random.Generator, rows: int, length: int) -> tuple[Tokens, Tokens]:
    digits = random.integers(0, MODULUS, (rows, length))
    return digits, running_sum(digits, MODULUS)


def _cycle(random: np.random.Generator, rows: int, length: int) -> tuple[Tokens, Tokens]:
    moves = random.integers(0, 3, (rows, length))  # stay, on, back
    return moves, running_sum(np.array([0, 1, -1])[moves], CYCLE)


@cache
def elements(size: int) -> tuple[tuple[int, ...], ...]:
    """All permutations of `size` things; the first changes nothing."""
    return tuple(permutations(range(size)))


@cache
def table(size: int) -> Tokens:
    """table[a, b] is the number of the permutation that does b first and a afterwards."""
    numbers = {element: i for i, element in enumerate(elements(size))}
    products = [[numbers[tuple(a[j] for j in b)] for b in elements(size)] for a in elements(size)]
    return np.array(products, dtype=np.int64)


def neighbours(size: int) -> Tokens:
    """The permutations that change nothing, or swap two neighbours: products of them are all there are."""
    order = [elements(size)[0]]
    for i in range(size - 1):
        swapped = list(range(size))
        swapped[i], swapped[i + 1] = swapped[i + 1], swapped[i]
        order.append(tuple(swapped))
    return np.array([elements(size).index(element) for element in order])


def word_problem(name: str, size: int, generators: Tokens, asks: str) -> Probe:
    """Products in the group of all permutations of `size` things; tokens are the numbers of the generators."""

    def draw(random: np.random.Generator, rows: int, length: int) -> tuple[Tokens, Tokens]:
        tokens = random.integers(0, len(generators), (rows, length))
        reached, moves = np.zeros(rows, np.int64), generators[tokens]
        labels = np.empty_like(tokens)
        for t in range(length):
            reached = labels[:, t] = table(size)[moves[:, t], reached]
        return tokens, labels

    return Probe(name, asks, SOURCES["words"], len(generators), len(elements(size)), draw)


GROUPS = (
    Probe("parity", "a state that changes its sign", SOURCES["parity"], 2, 2, _parity),
    Probe("modular-addition", "a state that turns by fifths", SOURCES["cycle"], MODULUS, MODULUS, _modular),
    Probe("cycle-navigation", "a state that turns both ways", SOURCES["cycle"], 3, CYCLE, _cycle),
    word_problem("s3", 3, np.arange(6), "a state that turns and mirrors: order matters"),
    word_problem("s5", 5, neighbours(5), "a group that is not solvable: swaps of neighbours among five things"),
    word_problem("s5-all", 5, np.arange(120), "the group of s5, any of its 120 elements at each step"),
)


_SORTED = 5


def _even_pairs(random: np.random.Generator, rows: int, length: int) -> tuple[Tokens, Tokens]:
    bits = random.integers(0, 2, (rows, length))
    return bits, (bits == bits[:, :1]).astype(np.int64)  # changes are even where the last bit is the first one


def _majority(random: np.random.Generator, rows: int, length: int) -> tuple[Tokens, Tokens]:
    # A share of ones of its own in each row: with one half in all, the first few bits would decide next to nothing.
    bits = (random.random((rows, length)) < random.random((rows, 1))).astype(np.int64)
    return bits, (2 * bits.cumsum(1) > np.arange(1, length + 1)).astype(np.int64)


def _bucket_sort(random: np.random.Generator, rows: int, length: int) -> tuple[Tokens, Tokens]:
    # Shares of its own in each row: with equal ones, where a symbol is asked for would say which.
    edges = random.dirichlet(np.ones(_SORTED), rows).cumsum(1)[:, :-1]
    symbols = (random.random((rows, length, 1)) >= edges[:, None]).sum(2)
    asking = np.full((rows, length), _SORTED)
    labels = np.concatenate([np.full((rows, length), IGNORED), np.sort(symbols, axis=1)], axis=1)
    return np.concatenate([symbols, asking], axis=1), labels


def _missing_duplicate(random: np.random.Generator, rows: int, length: int) -> tuple[Tokens, Tokens]:
    half = length // 2
    once = random.integers(0, 2, (rows, half))
    tokens = np.concatenate([once, once, np.full((rows, 1), 3)], axis=1)
    position = half + random.integers(0, half, rows)
    labels = np.full_like(tokens, IGNORED)
    labels[:, -1] = tokens[np.arange(rows), position]
    tokens[np.arange(rows), position] = 2  # what is missing
    return tokens, labels


def _by_place() -> float:
    """The part of a sorted row that is guessed by the place alone.

    The shares are the gaps between four points drawn at random: the symbol at u is k with the chance that k of them lie
    below u.
    """
    u = (np.arange(1000) + 0.5) / 1000
    likeliest = np.max([comb(_SORTED - 1, k) * u**k * (1 - u) ** (_SORTED - 1 - k) for k in range(_SORTED)], axis=0)
    return float(likeliest.mean())


_BY_PLACE = _by_place()

_STRINGS = (
    Probe("even-pairs", "one bit kept for ever", SOURCES["cycle"], 2, 2, _even_pairs),
    Probe("majority", "a running mean, above one half or not", SOURCES["cycle"], 2, 2, _majority),
    Probe(
        "bucket-sort", "a count of each symbol, read out in order", SOURCES["cycle"], _SORTED + 1, _SORTED,
        _bucket_sort, guess=_BY_PLACE,
    ),
    Probe(
        "missing-duplicate", "the bit that a string's copy lacks: a parity, asked once", SOURCES["cycle"], 4, 2,
        _missing_duplicate, shortest=2, answers=1,
    ),
)  # fmt: skip


COPIED, SYMBOLS = 10, 8
SELECTED, CHOSEN_FROM = 16, 16
KEYS, VALUES, PAIRS, FEWEST, STEPS_A_PAIR = 8, 8, 4, 2, 5


def _copying(random: np.random.Generator, rows: int, length: int) -> tuple[Tokens, Tokens]:
    """Ten symbols, `length` blanks, and ten steps that ask for the symbols in order."""
    symbols = random.integers(0, SYMBOLS, (rows, COPIED))
    blanks, asking = np.full((rows, length), SYMBOLS), np.full((rows, COPIED), SYMBOLS + 1)
    labels = np.concatenate([np.full((rows, COPIED + length), IGNORED), symbols], axis=1)
    return np.concatenate([symbols, blanks, asking], axis=1), labels


def _selective_copying(random: np.random.Generator, rows: int, length: int) -> tuple[Tokens, Tokens]:
    """Sixteen symbols at any places among `length` steps, and sixteen steps that ask for them in order."""
    symbols = random.integers(0, CHOSEN_FROM, (rows, SELECTED))
    places = np.sort(random.random((rows, length)).argsort(1)[:, :SELECTED], axis=1)
    shown = np.full((rows, length), CHOSEN_FROM)
    np.put_along_axis(shown, places, symbols, axis=1)
    asking = np.full((rows, SELECTED), CHOSEN_FROM + 1)
    labels = np.concatenate([np.full((rows, length), IGNORED), symbols], axis=1)
    return np.concatenate([shown, asking], axis=1), labels


def _associative_recall(random: np.random.Generator, rows: int, length: int) -> tuple[Tokens, Tokens]:
    """Pairs of a key and a value, then the keys again, each at any of the other steps: what was its value?

    Four pairs, or two or three in rows too short for more: from few of them cells learn much sooner what is asked, and
    a curriculum of lengths becomes one of pairs.
    """
    pairs = max(FEWEST, min(PAIRS, length // STEPS_A_PAIR))
    keys = random.random((rows, KEYS)).argsort(1)[:, :pairs]
    values = random.integers(0, VALUES, (rows, pairs))
    shown = np.stack([keys, KEYS + values], axis=2).reshape(rows, 2 * pairs)
    tokens = np.full((rows, length), KEYS + VALUES)  # blanks
    tokens[:, : 2 * pairs] = shown
    labels = np.full_like(tokens, IGNORED)
    places = 2 * pairs + random.random((rows, length - 2 * pairs)).argsort(1)[:, :pairs]
    np.put_along_axis(tokens, places, keys, axis=1)
    np.put_along_axis(labels, places, values, axis=1)
    return tokens, labels


_RECALL = (
    Probe(
        "copying", "ten symbols kept over any delay", "Arjovsky et al. 2016, arXiv:1511.06464",
        SYMBOLS + 2, SYMBOLS, _copying, answers=COPIED,
    ),
    Probe(
        "selective-copying", "sixteen symbols kept, and all else let go", "Gu & Dao 2023, arXiv:2312.00752",
        CHOSEN_FROM + 2, CHOSEN_FROM, _selective_copying, shortest=SELECTED, answers=SELECTED,
    ),
    Probe(
        "mqar", "four values, each found by its key", "Arora et al. 2023, arXiv:2312.04927",
        KEYS + VALUES + 1, VALUES, _associative_recall, shortest=3 * FEWEST, answers=PAIRS,
    ),
)  # fmt: skip


_WITHIN = 0.04
_NEAR_ONE = 1 - (1 - _WITHIN) ** 2
"""The probability of a sum that near to 1, which is its most frequent value."""


def _adding(random: np.random.Generator, rows: int, length: int) -> tuple[Numbers, Numbers]:
    """Draw for each step a number in [0, 1) and a mark: one step of each half of the sequence is marked."""
    numbers = random.random((rows, length), dtype=np.float32)
    marks = np.zeros_like(numbers)
    half, all_rows = length // 2, np.arange(rows)
    marks[all_rows, random.integers(0, half, rows)] = 1
    marks[all_rows, random.integers(half, length, rows)] = 1
    return np.stack([numbers, marks], axis=2), (numbers * marks).sum(1)


_ADDING = (
    Probe(
        "adding", "two numbers kept, and all else let go", SOURCES["adding"], 0, 0, _adding,
        shortest=2, features=2, within=_WITHIN, answers=1, guess=_NEAR_ONE,
    ),
)  # fmt: skip


PROBES: dict[str, Probe] = {probe.name: probe for probe in (*GROUPS, *_STRINGS, *_RECALL, *_ADDING)}
"""Every probe by its name."""
