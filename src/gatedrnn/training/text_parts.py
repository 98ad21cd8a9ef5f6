"""The parts of a model of texts that come from its training texts before it is trained: tables of n-grams, which belong
to its structure, then the beginning of its word vectors, and a linear path.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import normalize

from gatedrnn.data import Examples, TaskData
from gatedrnn.data.grams import GramTable, frequent_pairs, gram_table
from gatedrnn.models.grams import CharacterEmbedding
from gatedrnn.models.linear_path import LinearPath
from gatedrnn.models.modeling import EMBEDDING_STD, GatedRNNPreTrainedModel
from gatedrnn.training.settings import RunSettings
from gatedrnn.training.word_vectors import class_ratios, company_vectors

COMPOSED, LINEAR = (1, 4), (2, 5)
"""Characters of the n-grams that tokens are composed of, and that a linear path reads."""
MOST_PAIRS, MOST_GRAMS = 100_000, 100_000
"""The most pairs and n-grams of a linear path."""
STRENGTH, PENALTY = 10.0, 1.0
"""The strength of a linear path's logistic regression, scikit-learn's C, and the penalty of its ridge regression,
alpha."""
ABSENT = -20.0
"""Logit of a class, or of a label, of which there is no training text."""


class LinearTables(NamedTuple):
    """The tables that a linear path reads beside tokens."""

    pairs: np.ndarray
    grams: GramTable


def text_fields(run: RunSettings, data: TaskData) -> dict[str, int | dict[str, int]]:
    """Fields of the configuration that follow from the training texts."""
    fields: dict[str, int | dict[str, int]] = {}
    if run.model.character_grams:
        composed = _composed(data, run.model.character_grams)
        fields |= {"character_grams": composed.grams, "grams_per_token": composed.table.shape[1]}
    if run.model.linear_path:
        pairs, grams = _linear(data)
        sizes = {"pairs": len(pairs), "grams": grams.grams, "grams_per_token": grams.table.shape[1]}
        fields["linear_path"] = sizes
    return fields


def fill_tables(model: GatedRNNPreTrainedModel, run: RunSettings, data: TaskData) -> None:
    """Put the tables of n-grams where the model reads them."""
    for module in model.modules():
        if isinstance(module, CharacterEmbedding):
            module.grams.copy_(torch.from_numpy(_composed(data, run.model.character_grams).table))
        elif isinstance(module, LinearPath):
            pairs, grams = _linear(data)
            module.pairs.copy_(torch.from_numpy(pairs))
            module.grams.copy_(torch.from_numpy(grams.table))


@torch.no_grad()
def begin_from_texts(model: GatedRNNPreTrainedModel, run: RunSettings, data: TaskData) -> None:
    """Begin word vectors, and fit a linear path; a function of the training texts and the seed alone."""
    if run.model.word_vectors:
        vectors = torch.from_numpy(_word_vectors(run, data)).float() * EMBEDDING_STD
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding) and module.num_embeddings == len(vectors):
                module.weight.copy_(vectors)
    path = getattr(model, "linear_path", None)
    if isinstance(path, LinearPath):
        train = _examples(data)
        fit_linear_path(path, train.inputs, train.labels, train.weights)


def fit_linear_path(
    path: LinearPath, texts: Sequence[np.ndarray], labels: np.ndarray, weights: np.ndarray | None = None
) -> None:
    """Inverse document frequencies; and logistic regression, one for each of several labels, or ridge regression, as
    scikit-learn has them, in float64.

    Args:
        labels: (texts,), numbers of classes or numbers; or (texts, labels), 0 or 1.
        weights: (texts,), what each counts; None for 1.
    """
    tf_idf = features_of(path, texts)
    idf = np.log((1 + len(texts)) / (1 + np.asarray((tf_idf > 0).sum(0)).ravel())) + 1
    tf_idf.data = 1 + np.log(tf_idf.data)
    tf_idf = (tf_idf @ sp.diags(idf)).tocsr()
    features = sp.hstack([normalize(kind) for kind in (tf_idf[:, : path.words], tf_idf[:, path.words :])]).tocsr()
    if labels.ndim == 2:
        parts = [_logistic(features, label.astype(np.int64), 2, weights) for label in labels.T]
        weight, bias = (
            np.stack([weights[1] - weights[0] for weights in column]) for column in zip(*parts, strict=True)
        )
    elif np.issubdtype(labels.dtype, np.floating):
        ridge = Ridge(PENALTY).fit(features, labels, weights)
        weight, bias = ridge.coef_[None], np.array([ridge.intercept_])
    else:
        weight, bias = _logistic(features, labels, len(path.bias), weights)
    for parameter, values in ((path.idf, idf), (path.weight, weight), (path.bias, bias)):
        parameter.copy_(torch.from_numpy(values))


def _logistic(
    features: sp.csr_matrix, labels: np.ndarray, classes: int, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (classes, features) and biases (classes,) of a logistic regression; of two classes half of the difference
    each, and of a class without a text a bias that makes it unlikely."""
    weight, bias = np.zeros((classes, features.shape[1])), np.full(classes, ABSENT)
    present = np.unique(labels)
    if len(present) == 1:
        bias[present] = 0.0
        return weight, bias
    fitted = LogisticRegression(C=STRENGTH, max_iter=1000).fit(features, labels, weights)
    if len(present) == 2:  # scikit-learn has the difference of two classes alone
        weight[present] = np.concatenate([-fitted.coef_, fitted.coef_]) / 2
        bias[present] = np.concatenate([-fitted.intercept_, fitted.intercept_]) / 2
    else:
        weight[present], bias[present] = fitted.coef_, fitted.intercept_
    return weight, bias


def features_of(path: LinearPath, texts: Sequence[np.ndarray]) -> sp.csr_matrix:
    """The counts that a path makes of texts without padding, sparse: (texts, features)."""
    pairs, table = path.pairs.numpy(), path.grams.numpy()
    rows, columns = [], []
    for row, text in enumerate(texts):
        both = text[:-1] * path.tokens + text[1:]
        place = np.searchsorted(pairs, both)
        known = place[pairs[np.minimum(place, len(pairs) - 1)] == both] if len(pairs) else place[:0]
        grams = table[text]
        numbers = np.concatenate([text, known + path.tokens, grams[grams > 0].astype(np.int64) + path.words - 1])
        columns.append(numbers)
        rows.append(np.full(len(numbers), row))
    every = np.concatenate(rows), np.concatenate(columns)
    return sp.coo_matrix((np.ones(len(every[0])), every), (len(texts), path.features)).tocsr()


def _word_vectors(run: RunSettings, data: TaskData) -> np.ndarray:
    """(vocabulary, embedding_size): the company that tokens keep, then the classes that have them."""
    train, vocabulary = _examples(data), cast(int, data.model_inputs["vocab_size"])
    rows, labels, classes = np.arange(len(train)), train.labels, len(data.label_names)
    if train.several:  # a text is one of each of its labels
        rows, labels = train.labels.nonzero()
    elif train.are_numbers:  # large ones, and small ones
        labels, classes = train.labels > np.median(train.labels), 2
    ratios = class_ratios([train.inputs[row] for row in rows], labels, vocabulary, classes)
    ratios = ratios[:, : run.model.embedding_size // 2]
    company = company_vectors(train.inputs, vocabulary, run.model.embedding_size - ratios.shape[1], run.seed)
    return np.concatenate([company, ratios], axis=1)


@lru_cache(maxsize=2)
def _composed(data: TaskData, most: int) -> GramTable:
    """Grams of tokens that training has; those of two at least, since those of one say no more than its own vector."""
    return gram_table(_tokens(data), (_occurrences(data) > 0).astype(int).tolist(), *COMPOSED, most=most, least=2)


@lru_cache(maxsize=2)
def _linear(data: TaskData) -> LinearTables:
    tokens = _tokens(data)
    pairs = frequent_pairs(_examples(data).inputs, len(tokens), MOST_PAIRS)
    return LinearTables(pairs, gram_table(tokens, _occurrences(data).tolist(), *LINEAR, most=MOST_GRAMS))


def _examples(data: TaskData) -> Examples:
    assert isinstance(data.train, Examples)
    return data.train


def _tokens(data: TaskData) -> list[str]:
    assert data.tokenizer is not None
    tokens: list[str] = data.tokenizer.convert_ids_to_tokens(list(range(len(data.tokenizer))))
    return tokens


def _occurrences(data: TaskData) -> np.ndarray:
    """The occurrences of each token in training."""
    return np.bincount(np.concatenate(_examples(data).inputs), minlength=len(_tokens(data)))
