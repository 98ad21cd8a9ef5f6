"""The n-gram baseline against its definition, written down once more with dictionaries."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from gatedrnn.study.ngram import NGramModel


def discounts(counts: list[int]) -> list[float]:
    n = Counter(counts)
    if not (n[1] and n[2] and n[3]):
        return [0, 0.5, 1, 1.5]
    y = n[1] / (n[1] + 2 * n[2])
    found = [0, 1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]]
    return found if all(0 < d <= k for k, d in enumerate(found) if k) else [0, 0.5, 1, 1.5]


class Defined:
    """P_k(w | c), one at a time."""

    def __init__(self, text: list[int], vocabulary: int, order: int) -> None:
        grams = {k: Counter(zip(*(text[i:] for i in range(k)), strict=False)) for k in range(1, order + 1)}
        self.vocabulary, self.counts, self.discounts = vocabulary, {}, {}
        for k in range(1, order + 1):
            if k == order:
                self.counts[k] = dict(grams[k])
            else:
                before = defaultdict(set)
                for gram in grams[k + 1]:
                    before[gram[1:]].add(gram[0])
                self.counts[k] = {gram: max(1, len(before[gram])) for gram in grams[k]}
            self.discounts[k] = discounts(list(self.counts[k].values()))

    def probability(self, k: int, context: tuple[int, ...], token: int) -> float:
        if k == 0:
            return 1 / self.vocabulary
        own = context[len(context) - k + 1 :]
        follow = {gram[-1]: n for gram, n in self.counts[k].items() if gram[:-1] == own}
        lower = self.probability(k - 1, context, token)
        if not follow:
            return lower
        taken = [self.discounts[k][min(n, 3)] for n in follow.values()]
        here = follow.get(token, 0)
        kept = max(0.0, here - self.discounts[k][min(here, 3)])
        return (kept + sum(taken) * lower) / sum(follow.values())


@pytest.mark.parametrize("vocabulary, tokens, order", [(5, 400, 3), (12, 600, 5), (3, 50, 4), (30, 100, 2), (4, 3, 5)])
def test_losses_are_those_of_the_definition(vocabulary, tokens, order):
    random = np.random.default_rng(0)
    train = random.integers(0, vocabulary, tokens) * random.integers(0, 2, tokens)
    text = random.integers(0, vocabulary, 60)
    order = min(order, tokens)
    defined = Defined(train.tolist(), vocabulary, order)
    expected = []
    for i in range(1, len(text)):
        context = tuple(text[max(0, i - order + 1) : i].tolist())
        k = min(order, len(context) + 1)
        assert sum(defined.probability(k, context, w) for w in range(vocabulary)) == pytest.approx(1)
        expected.append(-np.log(defined.probability(k, context, int(text[i]))))
    np.testing.assert_allclose(NGramModel(train, vocabulary, order).losses(text), expected, rtol=1e-12)


def test_a_longer_context_helps_where_there_is_one_to_learn():
    text = np.resize([0, 1, 2, 0, 2, 1, 3], 3000)
    short, long = (NGramModel(text[:2000], 4, order).losses(text[2000:]).mean() for order in (1, 4))
    assert long < 0.05 < 1 < short
