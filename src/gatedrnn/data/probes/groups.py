"""Following a group: the product of all elements so far, at every step. What a cell can follow is what it can track."""

from functools import cache
from itertools import permutations

import numpy as np

from gatedrnn.data.probes.probe import Probe, Tokens

MODULUS, CYCLE = 5, 5
SOURCES = {
    "parity": "Grazzi et al. 2025, arXiv:2411.12537",
    "cycle": "Delétang et al. 2023, arXiv:2207.02098",
    "words": "Merrill et al. 2024, arXiv:2404.08819",
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
