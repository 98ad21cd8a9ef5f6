"""The baseline of running text, an interpolated n-gram model with modified Kneser-Ney smoothing:

    P_k(w | c) = max(n(c w) - D(n(c w)), 0) / n(c) + gamma(c) P_{k-1}(w | c without its first token)
    gamma(c)   = (D_1 N_1(c) + D_2 N_2(c) + D_3 N_3(c)) / n(c)

n counts n-grams at the highest order, and below it the distinct tokens that stand before them; N_1(c), N_2(c), N_3(c)
are how many tokens follow c with a count of 1, of 2, of 3 or more. P_0 is uniform over the vocabulary.

Reference: Chen and Goodman 1999, Computer Speech and Language 13, 359-394 ("modified Kneser-Ney").
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gatedrnn.data import Lanes, RunningText, TaskData
from gatedrnn.training.baseline import Fit, Fitted
from gatedrnn.training.outcomes import Outcomes, of_text

_ORDER = 5
_FALLBACK = np.array([0.0, 0.5, 1.0, 1.5])
"""Discounts of counts 0, 1, 2 and above, where a text is too small for their estimates; KenLM's."""
UNSEEN = -1


class _Order(NamedTuple):
    """The n-grams of one length, numbered in the order of their keys."""

    keys: np.ndarray
    """(n-grams,), ascending: the number of the n-gram without its last token, times the vocabulary, plus that token."""
    term: np.ndarray
    """(n-grams,): max(n - D, 0) / n(c)."""
    gamma: np.ndarray
    """(n-grams one shorter,): what each of them as a context leaves to the next lower order; 1 where it is none."""


class NGramModel:
    """Fitted to a text of token numbers.

    Args:
        tokens: (tokens,), whole numbers below `vocabulary`.
        vocabulary: its size.
        order: tokens of the longest n-gram.

    Example:
        >>> text = np.array([0, 1, 2, 0, 1, 2, 0, 1])
        >>> NGramModel(text, vocabulary=3, order=2).losses(text).round(2)
        array([0.41, 0.41, 0.41, 0.41, 0.41, 0.41, 0.41])
    """

    def __init__(self, tokens: np.ndarray, vocabulary: int, order: int = _ORDER) -> None:
        self.vocabulary = vocabulary
        keys, counts, suffixes, numbers = [], [], [], np.zeros(len(tokens) + 1, np.int64)
        order = min(order, len(tokens))
        for length in range(1, order + 1):
            # numbers[i] becomes the number of the n-gram that ends with token i + length - 1.
            ending = numbers[:-1] * vocabulary + tokens[length - 1 :].astype(np.int64)
            found, first, inverse, frequencies = np.unique(
                ending, return_index=True, return_inverse=True, return_counts=True
            )
            keys.append(found)
            counts.append(frequencies)
            suffixes.append(numbers[1:][first])
            numbers = inverse
        self._orders = []
        for length in range(1, order + 1):
            n = counts[length - 1]
            if length < order:  # the distinct tokens before it; the n-gram that begins the text has none
                n = np.maximum(np.bincount(suffixes[length], minlength=len(n)), 1)
            contexts = len(keys[length - 2]) if length > 1 else 1
            self._orders.append(_order(keys[length - 1], n, vocabulary, contexts))

    @property
    def parameters(self) -> int:
        """N-grams of all lengths."""
        return sum(len(order.keys) for order in self._orders)

    def losses(self, tokens: np.ndarray) -> np.ndarray:
        """Nats of each token but the first, given all tokens before it, (tokens - 1,)."""
        probability = np.full(len(tokens) - 1, 1 / self.vocabulary)
        before = np.zeros(len(tokens), np.int64)  # the number of the context that ends with each token
        for order in self._orders:
            context = before[:-1]
            seen = context != UNSEEN
            key = np.where(seen, context * self.vocabulary + tokens[1:], 0)
            place = np.minimum(np.searchsorted(order.keys, key), len(order.keys) - 1)
            known = seen & (order.keys[place] == key)
            gamma = np.where(seen, order.gamma[np.where(seen, context, 0)], 1.0)
            probability = np.where(known, order.term[place], 0.0) + gamma * probability
            # The first token is a context too, of length one; longer contexts begin later.
            first = int(tokens[0]) if order is self._orders[0] else UNSEEN
            before = np.concatenate([[self._unigram(first)], np.where(known, place, UNSEEN)])
        losses: np.ndarray = -np.log(probability)
        return losses

    def _unigram(self, token: int) -> int:
        keys = self._orders[0].keys
        place = int(np.searchsorted(keys, token))
        return place if token != UNSEEN and place < len(keys) and keys[place] == token else UNSEEN


def _order(keys: np.ndarray, counts: np.ndarray, vocabulary: int, contexts: int) -> _Order:
    context = keys // vocabulary
    kind = np.minimum(counts, 3)
    discount = _discounts(counts)[kind]
    total = np.bincount(context, weights=counts, minlength=contexts)
    taken = np.bincount(context, weights=discount, minlength=contexts)
    gamma = np.divide(taken, total, out=np.ones(contexts), where=total > 0)
    return _Order(keys, (counts - discount) / total[context], gamma)


def _discounts(counts: np.ndarray) -> np.ndarray:
    """The discounts of counts 0, 1, 2, and 3 or more."""
    n1, n2, n3, n4 = np.bincount(np.minimum(counts, 5), minlength=6)[1:5].tolist()
    if not (n1 and n2 and n3):
        return _FALLBACK
    y = n1 / (n1 + 2 * n2)
    discounts = np.array([0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3])
    return discounts if (discounts[1:] > 0).all() and (discounts <= np.arange(4)).all() else _FALLBACK


def language_baselines(data: TaskData) -> Iterator[tuple[str, Fit]]:
    """Each with its name."""
    yield f"Kneser-Ney {_ORDER}-gram", lambda: _ngram(data)


def _ngram(data: TaskData) -> Fitted:
    vocabulary = data.model_inputs["vocab_size"]
    assert isinstance(data.train, RunningText) and isinstance(vocabulary, int)
    model = NGramModel(np.asarray(data.train.stream.tokens), vocabulary)

    def answer(split: str) -> Outcomes:
        text = data.evaluation[split]
        assert isinstance(text, Lanes)
        return of_text(model.losses(np.asarray(text.stream.tokens)), text.stream.starts)

    return Fitted(model.parameters, answer)
