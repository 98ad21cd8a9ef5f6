"""Plain baselines: one at least for every task, from its training split alone, the same every time; and n-grams
against their definition, written down once more with dictionaries.
"""

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from train_helpers import small_text, text_settings

from gatedrnn.data import Examples, data_settings, load_task
from gatedrnn.study.plain import plain_baselines
from gatedrnn.tasks.language.baselines import NGramModel


def outcomes_of(data):
    return {one.name: one.outcomes for one in plain_baselines(data, threads=1)}


def assert_every_example_has_its_answer(found, data):
    assert list(found) == list(data.evaluation)
    for split, own in found.items():
        assert len(own.values) == len(data.evaluation[split]) and np.all(own.values <= own.counts)


@pytest.mark.parametrize(
    "task, name", [("parity", "majority class"), ("selective-copying", "majority class"), ("adding", "mean answer")]
)
def test_a_task_without_another_baseline_has_one_answer_for_every_example(task, name):
    data = load_task(data_settings(task=task))
    found = outcomes_of(data)
    assert list(found) == [name]
    assert_every_example_has_its_answer(found[name], data)
    assert task != "parity" or found[name]["test"].rate == pytest.approx(0.5, abs=0.05)


@pytest.fixture(scope="module")
def digits():
    data = load_task(data_settings(task="digits"))
    return data, outcomes_of(data)


def test_digits_are_classified_by_a_linear_model_and_by_trees_which_see_no_test_label(digits):
    data, found = digits
    assert list(found) == ["logistic regression", "gradient boosting"]
    test = data.evaluation["test"]
    turned = Examples(test.inputs, (test.labels + 1) % 10)
    other = outcomes_of(replace(data, evaluation={**data.evaluation, "test": turned}))
    for name, own in found.items():
        assert_every_example_has_its_answer(own, data)
        assert own["test"].rate > 0.95
        np.testing.assert_array_equal(own["validation"].values, other[name]["validation"].values)
        assert not np.any(own["test"].values * other[name]["test"].values), "right under both labels"


def test_texts_without_a_word_are_read_by_their_characters_and_language_models_have_n_grams(tmp_path):
    file, letters = tmp_path / "letters.csv", (f"{'ab'[n % 3 == 0]} {n % 7},{'xy'[n % 3 == 0]}\n" for n in range(90))
    file.write_text("text,label\n" + "".join(letters))
    data = load_task(data_settings(task="text-classification", train_file=file, min_count=1))
    of_characters = [f"TF-IDF character n-grams + {model}" for model in ("LinearSVC", "logistic regression")]
    assert sorted(outcomes_of(data)) == of_characters
    data = load_task(text_settings(small_text(tmp_path / "text.txt")).data)
    (found,) = outcomes_of(data).values()
    for split, own in found.items():
        assert own.counts.sum() == data.evaluation[split].stream.predictions
    # Numbers are hard to guess, the words between them are not: far below the log of the vocabulary's size.
    assert 0.1 < found["test"].rate < 0.5 * np.log(data.model_inputs["vocab_size"])


def discounts(counts):
    n = Counter(counts)
    if not (n[1] and n[2] and n[3]):
        return [0, 0.5, 1, 1.5]
    y = n[1] / (n[1] + 2 * n[2])
    found = [0, 1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]]
    return found if all(0 < d <= k for k, d in enumerate(found) if k) else [0, 0.5, 1, 1.5]


class Defined:
    """P_k(w | c), one at a time."""

    def __init__(self, text, vocabulary, order):
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

    def probability(self, k, context, token):
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
