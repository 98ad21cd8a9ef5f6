"""The parts of a model of texts that its training texts decide: word vectors, weights of n-grams, a linear path."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd

from gatedrnn.data import Examples, TaskData
from gatedrnn.data.scripts import MIN_SHARE
from gatedrnn.data.tokenizers import CONTINUES, PAD, UNK, is_letter
from gatedrnn.models.grams import CharacterEmbedding
from gatedrnn.models.linear_path import LinearPath
from gatedrnn.models.modeling import EMBEDDING_STD, GatedRNNPreTrainedModel
from gatedrnn.records import Json
from gatedrnn.training.settings import RunSettings

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


def frequent_triples(texts: Sequence[np.ndarray], pairs: np.ndarray, vocabulary: int, most: int) -> np.ndarray:
    """Three neighbouring tokens, of which the first two are among `pairs`, as numbers, place of the pair · vocabulary +
    third; the most frequent ones, rising, int64.

    Example:
        >>> frequent_triples([np.array([3, 4, 3, 4, 3])], np.array([34]), vocabulary=10, most=1)
        array([3])
    """
    triples = [_triples(text, pairs, vocabulary) for text in texts]
    numbers, counts = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *triples]), return_counts=True)
    return np.sort(numbers[np.argsort(-counts, kind="stable")[:most]])


def _triples(text: np.ndarray, pairs: np.ndarray, vocabulary: int) -> np.ndarray:
    places = _places(pairs, text[:-2] * vocabulary + text[1:-1])
    return (places * vocabulary + text[2:])[places >= 0]


def _places(table: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Find the places of numbers in a rising table; -1 where it lacks one."""
    if not len(table):
        return np.full(len(numbers), -1)
    places = np.minimum(np.searchsorted(table, numbers), len(table) - 1)
    return np.where(table[places] == numbers, places, -1)


WINDOW = 5
"""Tokens to each side that keep a token company."""
_SMOOTHING = 0.75
"""Power of the counts of contexts, so that rare ones are not overrated (Levy et al. 2015)."""


def company_vectors(texts: Sequence[np.ndarray], vocabulary: int, features: int, seed: int) -> np.ndarray:
    """Positive pointwise mutual information of tokens and those around them, truncated by SVD; (vocabulary, features).

    Rows are left singular vectors times the roots of their values (Levy and Goldberg 2014, "Neural word embedding as
    implicit matrix factorization"), with mean square 1; of a token that occurs nowhere, 0.
    """
    counts = company(texts, vocabulary)
    total, frequencies = counts.sum(), np.asarray(counts.sum(1)).ravel()
    around = frequencies**_SMOOTHING / max(1.0, (frequencies**_SMOOTHING).sum())
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


COMPOSED, LINEAR = (1, 4), (2, 5)
"""Characters of the n-grams that tokens are composed of, and that a linear path reads."""
MAX_PAIRS, MAX_GRAMS = 100_000, 100_000
"""The most pairs (and as many triples), and n-grams of a linear path."""
STRENGTH, PENALTY = 10.0, 1.0
"""The strength of a linear path's logistic regression, scikit-learn's C, and the penalty of its ridge regression,
alpha."""
ABSENT = -20.0
"""Logit of a class, or of a label, of which there is no training text."""


class LinearTables(NamedTuple):
    """The tables that a linear path reads beside tokens."""

    pairs: np.ndarray
    triples: np.ndarray | None
    """Triples, or None where blanks are between words."""
    grams: GramTable


_LETTERS_SHARE = 0.75
"""The weight of a linear path's answer where tokens are letters: from some hundreds of texts, a network learns less of
words that it has to put together itself. Chosen by cross-validation on Chinese reviews."""


def text_fields(run: RunSettings, data: TaskData) -> dict[str, Json]:
    """Fields of the configuration that follow from the training texts."""
    fields: dict[str, Json] = {}
    if run.model.character_grams:
        composed = _composed(data, run.model.character_grams)
        fields |= {"character_grams": composed.grams, "grams_per_token": composed.table.shape[1]}
    if run.model.linear_path:
        pairs, triples, grams = _linear(data)
        sizes: dict[str, Json] = {"pairs": len(pairs), "grams": grams.grams, "grams_per_token": grams.table.shape[1]}
        if triples is not None:
            sizes["triples"], fields["path_share"] = len(triples), _LETTERS_SHARE
        fields["linear_path"] = sizes
    return fields


def fill_tables(model: GatedRNNPreTrainedModel, run: RunSettings, data: TaskData) -> None:
    """Put the tables of n-grams where the model reads them."""
    for module in model.modules():
        if isinstance(module, CharacterEmbedding):
            module.grams.copy_(torch.from_numpy(_composed(data, run.model.character_grams).table))
        elif isinstance(module, LinearPath):
            pairs, triples, grams = _linear(data)
            module.pairs.copy_(torch.from_numpy(pairs))
            if module.triples is not None and triples is not None:
                module.triples.copy_(torch.from_numpy(triples))
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
    kinds = tf_idf[:, : path.one_length], tf_idf[:, path.one_length :]
    features = sp.hstack([normalize(kind) for kind in kinds if kind.shape[1]]).tocsr()
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
    triples = None if path.triples is None else path.triples.numpy()
    rows, columns = [], []
    for row, text in enumerate(texts):
        places = _places(pairs, text[:-1] * path.tokens + text[1:])
        numbers = [text, places[places >= 0] + path.tokens]
        if triples is not None:
            places = _places(triples, _triples(text, pairs, path.tokens))
            numbers.append(places[places >= 0] + path.tokens + len(pairs))
        grams = table[text]
        numbers.append(grams[grams > 0].astype(np.int64) + path.words - 1)
        columns.append(np.concatenate(numbers))
        rows.append(np.full(len(columns[-1]), row))
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
    tokens, texts = _tokens(data), _examples(data).inputs
    pairs, triples = frequent_pairs(texts, len(tokens), MAX_PAIRS), None
    if data.undivided:
        triples = frequent_triples(texts, pairs, len(tokens), MAX_PAIRS)
        # The n-grams of letters are pairs and triples; where nearly all tokens are letters, those within the few words
        # and numbers between them would weigh as much as the text.
        some_words = 1 - data.undivided_share >= MIN_SHARE
        tokens = [token if some_words and len(token) > 1 and not is_letter(token) else PAD for token in tokens]
    return LinearTables(pairs, triples, gram_table(tokens, _occurrences(data).tolist(), *LINEAR, most=MAX_GRAMS))


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
