"""Counting and ordering: what was there how often, and in which order."""

from math import comb

import numpy as np

from gatedrnn.data.probes.probe import IGNORED, Probe, Tokens

SYMBOLS = 5
SOURCE = "Delétang et al. 2023, arXiv:2207.02098"


def _even_pairs(random: np.random.Generator, rows: int, length: int) -> tuple[Tokens, Tokens]:
    bits = random.integers(0, 2, (rows, length))
    return bits, (bits == bits[:, :1]).astype(np.int64)  # changes are even where the last bit is the first one


def _majority(random: np.random.Generator, rows: int, length: int) -> tuple[Tokens, Tokens]:
    # A share of ones of its own in each row: with one half in all, the first few bits would decide next to nothing.
    bits = (random.random((rows, length)) < random.random((rows, 1))).astype(np.int64)
    return bits, (2 * bits.cumsum(1) > np.arange(1, length + 1)).astype(np.int64)


def _bucket_sort(random: np.random.Generator, rows: int, length: int) -> tuple[Tokens, Tokens]:
    # Shares of its own in each row: with equal ones, where a symbol is asked for would say which.
    edges = random.dirichlet(np.ones(SYMBOLS), rows).cumsum(1)[:, :-1]
    symbols = (random.random((rows, length, 1)) >= edges[:, None]).sum(2)
    asking = np.full((rows, length), SYMBOLS)
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
    likeliest = np.max([comb(SYMBOLS - 1, k) * u**k * (1 - u) ** (SYMBOLS - 1 - k) for k in range(SYMBOLS)], axis=0)
    return float(likeliest.mean())


BY_PLACE = _by_place()

STRINGS = (
    Probe("even-pairs", "one bit kept for ever", SOURCE, 2, 2, _even_pairs),
    Probe("majority", "a running mean, above one half or not", SOURCE, 2, 2, _majority),
    Probe(
        "bucket-sort", "a count of each symbol, read out in order", SOURCE, SYMBOLS + 1, SYMBOLS, _bucket_sort,
        guess=BY_PLACE,
    ),
    Probe(
        "missing-duplicate", "the bit that a string's copy lacks: a parity, asked once", SOURCE, 4, 2,
        _missing_duplicate, shortest=2, answers=1,
    ),
)  # fmt: skip
