"""Keeping what was shown, and finding it again."""

import numpy as np

from gatedrnn.data.probes.probe import IGNORED, Probe, Tokens

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


RECALL = (
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
