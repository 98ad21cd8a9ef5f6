"""Baselines of texts: linear models on TF-IDF of words and their pairs, and of character n-grams; of tagged words, the
most frequent tag of each;
of running text, an interpolated n-gram model with modified Kneser-Ney smoothing:

    P_k(w | c) = max(n(c w) - D(n(c w)), 0) / n(c) + gamma(c) P_{k-1}(w | c without its first token)
    gamma(c)   = (D_1 N_1(c) + D_2 N_2(c) + D_3 N_3(c)) / n(c)

n counts n-grams at the highest order, and below it the distinct tokens that stand before them; N_1(c), N_2(c), N_3(c)
are how many tokens follow c with a count of 1, of 2, of 3 or more. P_0 is uniform over the vocabulary.

Reference: Chen and Goodman 1999, Computer Speech and Language 13, 359-394 ("modified Kneser-Ney").
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gatedrnn.data import Examples, TaskData
from gatedrnn.study.baseline import Fit, Fitted, answered, training_of
from gatedrnn.training.metrics import IGNORED, judge
from gatedrnn.training.outcomes import Outcomes

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


PENALTIES = (0.1, 1.0, 10.0)
"""The penalties of the ridge, chosen by leaving one out."""
_SURE = 10.0
"""The score of a label that every training row has; with another sign of one that none has."""


class _Features:
    """TF-IDF of the texts of each split, computed once for all models that read it."""

    def __init__(self, data: TaskData, **how: Any) -> None:
        self._data, self._how = data, how
        self._of = dict[str, Any]()
        self._vectorizer: Any = None

    def of(self, split: str) -> Any:
        """(texts, features), sparse.

        Raises:
            ValueError: the training texts have no features.
        """
        from sklearn.feature_extraction.text import TfidfVectorizer

        if self._vectorizer is None:
            vectorizer = TfidfVectorizer(sublinear_tf=True, **self._how)
            self._of["train"] = vectorizer.fit_transform(self._data.texts["train"].texts)
            self._vectorizer = vectorizer
        if split not in self._of:
            self._of[split] = self._vectorizer.transform(self._data.texts[split].texts)
        return self._of[split]


def text_baselines(data: TaskData) -> Iterator[tuple[str, Fit]]:
    """Each with its name; of words and of characters in turn, the models that are fitted sooner first."""
    train = training_of(data)
    if data.labelled == "step":
        yield "most frequent tag of a word", lambda: _tags(data)
        return
    features = {
        "bigrams": _Features(data, ngram_range=(1, 2)),
        "character n-grams": _Features(data, **_characters(data.undivided)),
    }
    models: dict[str, Callable[[], Any]]
    if train.several:
        models = {"logistic regression for each label": _one_for_each}
    elif train.are_numbers:
        models = {"ridge": _ridge}
    elif train.metric == "log_loss":  # of probabilities, which a support vector machine has none of
        models = {"logistic regression": _logistic}
    else:
        models = {"LinearSVC": _support_vectors, "logistic regression": _logistic}
    for model, make in models.items():
        for kind, read in features.items():
            yield f"TF-IDF {kind} + {model}", partial(_linear, data, read, make)


def _characters(undivided: bool) -> dict[str, Any]:
    """How characters are read: within words and their edges, or across all where words are not divided by blanks."""
    if undivided:
        return {"analyzer": "char", "ngram_range": (1, 3)}
    return {"analyzer": "char_wb", "ngram_range": (1, 5)}


def _support_vectors() -> Any:
    from sklearn.svm import LinearSVC

    return LinearSVC(random_state=0)


def _logistic() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)


def _one_for_each() -> Any:
    from sklearn.multiclass import OneVsRestClassifier

    return OneVsRestClassifier(_logistic())


def _ridge() -> Any:
    from sklearn.linear_model import RidgeCV

    return RidgeCV(PENALTIES)


def _linear(data: TaskData, read: _Features, make: Callable[[], Any]) -> Fitted | None:
    """Fit a linear model; None if the texts have no features, as where no word has two letters or more: scikit-learn's
    rule leaves shorter ones out.
    """
    train = training_of(data)
    try:
        features = read.of("train")
    except ValueError:
        return None
    always = np.asarray(train.labels.all(0))
    seen = np.asarray(train.labels.any(0) & ~always)
    model = make()
    model.fit(features, train.labels[:, seen].astype(np.int64) if train.several else train.labels)

    def answer(split: str) -> Outcomes:
        examples = _examples(data, split)
        if examples.metric is None:
            return answered(model.predict(read.of(split)), examples)
        return judge(examples, _outputs(model, examples, read.of(split), seen, always)).outcomes

    return Fitted(_size(model), answer)


def _outputs(model: Any, examples: Examples, features: Any, seen: np.ndarray, always: np.ndarray) -> list[np.ndarray]:
    """The outputs in the form of a model's: numbers, or scores of classes or labels.

    Args:
        seen: of several labels a row, those that some training rows have and some lack; others are answered as there.
        always: those that all training rows have.
    """
    if examples.are_numbers:
        return list(np.asarray(model.predict(features))[:, None])
    scores = np.asarray(model.decision_function(features))
    if not examples.several:
        return list(scores if scores.ndim == 2 else np.stack([np.zeros(len(scores)), scores], axis=1))
    outputs = np.tile(np.where(always, _SURE, -_SURE), (len(scores), 1))
    outputs[:, seen] = scores.reshape(len(scores), -1)
    return list(outputs)


def _size(model: Any) -> int:
    """Weights of a linear model, or of one for each label."""
    parts = getattr(model, "estimators_", [model])
    return sum(int(np.size(part.coef_) + np.size(part.intercept_)) for part in parts)


def _tags(data: TaskData) -> Fitted:
    """A baseline that counts how often a word, as it is written, has each tag in training, with one more of the usual
    shares: the likeliest is the most frequent one; of an unseen word that of all.
    """
    counts = dict[str, np.ndarray]()
    for words, tags in zip(_words(data, "train"), data.texts["train"].labels, strict=True):
        for word, tag in zip(words, tags, strict=True):
            counts.setdefault(word, np.zeros(len(data.label_names)))[tag] += 1
    usual = np.sum(list(counts.values()), axis=0) + 1
    usual /= usual.sum()

    def answer(split: str) -> Outcomes:
        examples, outputs = _examples(data, split), []
        for words, inputs, labels in zip(_words(data, split), examples.inputs, examples.labels, strict=True):
            scores = np.zeros((len(inputs), len(usual)))
            places = np.flatnonzero(labels[: len(inputs)] != IGNORED)
            for place, word in zip(places, words, strict=True):
                scores[place] = np.log(counts.get(word, 0.0) + usual)
            outputs.append(scores)
        return judge(examples, outputs).outcomes

    return Fitted(len(counts), answer)


def _words(data: TaskData, split: str) -> list[list[str]]:
    words = data.texts[split].words
    assert words is not None
    return words


def _examples(data: TaskData, split: str) -> Examples:
    examples = data.evaluation[split]
    assert isinstance(examples, Examples)
    return examples
