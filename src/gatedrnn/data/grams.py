"""N-grams of characters in the tokens of a vocabulary, and pairs of tokens in texts, numbered."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gatedrnn.data.tokenizers import CONTINUES, PAD, UNK

BEGIN, END = "<", ">"
"""The marks around a word by which a gram shows its beginning and its end, as in fastText."""


class GramTable(NamedTuple):
    """The grams of each token of a vocabulary."""

    grams: int
    """The number of grams; they are numbered from 1."""
    table: np.ndarray
    """(tokens, most grams of a token), int32; 0 where a token has no more."""


def grams_in(token: str, shortest: int, longest: int) -> list[str]:
    """The n-grams of a token, shorter ones first; one that is in it twice is there twice. A later part of a
    word (`##ing`) has no mark of its beginning or end.

    Example:
        >>> grams_in("an", 2, 3)
        ['<a', 'an', 'n>', '<an', 'an>']
    """
    if token in (PAD, UNK):
        return []
    inner = token.startswith(CONTINUES) and len(token) > len(CONTINUES)
    marked = token.removeprefix(CONTINUES) if inner else f"{BEGIN}{token}{END}"
    return [marked[i : i + n] for n in range(shortest, longest + 1) for i in range(len(marked) - n + 1)]


def gram_table(
    tokens: Sequence[str], weights: Sequence[int], shortest: int, longest: int, *, most: int, least: int = 1
) -> GramTable:
    """The grams of all tokens, the heaviest first.

    Args:
        tokens: of the vocabulary, by number.
        weights: what each token counts for its grams.
        shortest, longest: characters of a gram.
        most: grams that are kept at most.
        least: what a gram must weigh.
    """
    each = [grams_in(token, shortest, longest) for token in tokens]
    counts = Counter[str]()
    for grams, weight in zip(each, weights, strict=True):
        if weight:
            for gram in set(grams):
                counts[gram] += weight
    heaviest = sorted((-weight, gram) for gram, weight in counts.items() if weight >= least)[:most]
    number = {gram: index for index, (_, gram) in enumerate(heaviest, start=1)}
    rows = [[number[gram] for gram in grams if gram in number] for grams in each]
    table = np.zeros((len(tokens), max(1, *map(len, rows))), dtype=np.int32)
    for into, row in zip(table, rows, strict=True):
        into[: len(row)] = row
    return GramTable(len(number), table)


def frequent_pairs(texts: Sequence[np.ndarray], vocabulary: int, most: int) -> np.ndarray:
    """Neighbouring tokens of texts as numbers, first · vocabulary + second; the most frequent ones, rising, int64.

    Example:
        >>> frequent_pairs([np.array([3, 4, 3, 4]), np.array([4, 4])], vocabulary=10, most=1)
        array([34])
    """
    pairs = [text[:-1] * vocabulary + text[1:] for text in texts if len(text) > 1]
    numbers, counts = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *pairs]), return_counts=True)
    return np.sort(numbers[np.argsort(-counts, kind="stable")[:most]])
