"""Vectors of tokens as labelled texts have them: by the company that tokens keep, and by the classes that have them."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import randomized_svd

WINDOW = 5
"""Tokens to each side that keep a token company."""
SMOOTHING = 0.75
"""Power of the counts of contexts, so that rare ones are not overrated (Levy et al. 2015)."""


def company_vectors(texts: Sequence[np.ndarray], vocabulary: int, features: int, seed: int) -> np.ndarray:
    """Positive pointwise mutual information of tokens and those around them, truncated by SVD; (vocabulary, features).

    Rows are left singular vectors times the roots of their values (Levy and Goldberg 2014, "Neural word embedding as
    implicit matrix factorization"), with mean square 1; of a token that occurs nowhere, 0.
    """
    counts = company(texts, vocabulary)
    total, frequencies = counts.sum(), np.asarray(counts.sum(1)).ravel()
    around = frequencies**SMOOTHING / max(1.0, (frequencies**SMOOTHING).sum())
    pairs = counts.tocoo()
    gain = np.log(pairs.data / total) - np.log(frequencies[pairs.row] / total) - np.log(around[pairs.col])
    positive = sp.csr_matrix((np.maximum(gain, 0), (pairs.row, pairs.col)), counts.shape)
    positive.eliminate_zeros()
    rank = min(features, vocabulary - 1)
    left, sizes, _ = randomized_svd(positive, rank, n_iter=3, random_state=seed)
    vectors = np.zeros((vocabulary, features))
    vectors[:, :rank] = left * np.sqrt(sizes)
    seen = vectors[frequencies > 0]
    return vectors / np.sqrt(np.square(seen).mean()) if np.any(seen) else vectors


def company(texts: Sequence[np.ndarray], vocabulary: int) -> sp.csr_matrix:
    """Counts of two tokens within a window of each other, (vocabulary, vocabulary)."""
    joined = np.concatenate(list(texts))
    text = np.repeat(np.arange(len(texts)), [len(tokens) for tokens in texts])
    pairs = sp.csr_matrix((vocabulary, vocabulary))
    for distance in range(1, WINDOW + 1):
        together = text[distance:] == text[:-distance]
        first, second = joined[:-distance][together], joined[distance:][together]
        pairs = pairs + sp.coo_matrix((np.ones(len(first)), (first, second)), pairs.shape).tocsr()
    return pairs + pairs.T


def class_ratios(texts: Sequence[np.ndarray], labels: np.ndarray, vocabulary: int, classes: int) -> np.ndarray:
    """Log ratios of how much more likely a text of a class has a token than one of another, (vocabulary, classes); of
    two classes, those of the second alone, (vocabulary, 1).

    Wang and Manning 2012 ("Baselines and bigrams"): texts that hold the token, plus one.
    """
    rows = np.repeat(np.arange(len(texts)), [len(tokens) for tokens in texts])
    has = sp.csr_matrix((np.ones(len(rows)), (rows, np.concatenate(list(texts)))), (len(texts), vocabulary)) > 0
    counts = np.stack([np.asarray(has[labels == label].sum(0)).ravel() for label in range(classes)], axis=1)
    within, without = counts + 1.0, counts.sum(1, keepdims=True) - counts + 1.0
    ratios = np.log(within / within.sum(0)) - np.log(without / without.sum(0))
    ratios[counts.sum(1) == 0] = 0
    return ratios[:, 1:] if classes == 2 else ratios
