"""Each probe asks what it says it asks: its labels by a definition in plain Python, a token at a time."""

from itertools import accumulate, permutations

import numpy as np
import pytest

from gatedrnn.data.probes import IGNORED, PROBES, scaled
from gatedrnn.data.probes.groups import elements, neighbours

ROWS, LENGTH = 50, 40


def drawn(name, length=LENGTH, seed=0):
    tokens, labels = PROBES[name].rows(np.random.default_rng(seed), ROWS, length)
    return tokens.tolist(), labels.tolist()


def follows(start, step):
    """Labels of a state that is followed from token to token."""
    return lambda row: list(accumulate(row, step, initial=start))[1:]


def permutes(size, moves=None):
    """A permutation p puts at place i what stood at place p[i]; of a product the earlier token acts first."""
    every = list(permutations(range(size)))
    acts = every if moves is None else [every[i] for i in moves]
    words = follows(tuple(range(size)), lambda reached, token: tuple(acts[token][place] for place in reached))
    return lambda row: [every.index(word) for word in words(row)]


def even_pairs(row):
    return [1 - sum(row[i] != row[i + 1] for i in range(t)) % 2 for t in range(len(row))]


def majority(row):
    return [int(sum(row[: t + 1]) > (t + 1) / 2) for t in range(len(row))]


def bucket_sort(row):
    assert set(row[LENGTH:]) == {5}
    return [IGNORED] * LENGTH + sorted(row[:LENGTH])


def missing_duplicate(row):
    first, second = row[: LENGTH // 2], row[LENGTH // 2 : -1]
    (place,) = [i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
    assert second[place] == 2 and row[-1] == 3
    return [IGNORED] * LENGTH + [first[place]]


def copying(row):
    assert row[10:] == [8] * LENGTH + [9] * 10
    return [IGNORED] * (10 + LENGTH) + row[:10]


def selective_copying(row):
    shown = [token for token in row[:LENGTH] if token != 16]
    assert len(shown) == 16 and row[LENGTH:] == [17] * 16
    return [IGNORED] * LENGTH + shown


def recall(row, pairs=4):
    value = dict(zip(row[: 2 * pairs : 2], row[1 : 2 * pairs : 2], strict=True))
    asked = row[2 * pairs :]
    assert sorted(value) == sorted(token for token in asked if token != 16), "each key once"
    return [IGNORED] * 2 * pairs + [IGNORED if token == 16 else value[token] - 8 for token in asked]


DEFINITIONS = {
    "parity": follows(0, lambda s, x: s ^ x),
    "modular-addition": follows(0, lambda s, x: (s + x) % 5),
    "cycle-navigation": follows(0, lambda s, x: (s + {0: 0, 1: 1, 2: -1}[x]) % 5),
    "s3": permutes(3), "s5": permutes(5, neighbours(5)), "s5-all": permutes(5),
    "even-pairs": even_pairs, "majority": majority, "bucket-sort": bucket_sort,
    "missing-duplicate": missing_duplicate, "copying": copying, "selective-copying": selective_copying, "mqar": recall,
}  # fmt: skip
every_probe = pytest.mark.parametrize("name", [name for name in PROBES if name != "adding"])


@every_probe
def test_labels_are_those_of_the_definition_and_tokens_and_classes_as_many_as_it_says(name):
    probe = PROBES[name]
    rows, labels = drawn(name)
    assert labels == [DEFINITIONS[name](row) for row in rows]
    assert (rows, labels) == drawn(name) != drawn(name, seed=1), "a seed draws the same rows, and another others"
    assert len({tuple(row) for row in rows}) > 0.9 * ROWS
    for length in (24, 25, 40):
        tokens, labels = (np.array(x) for x in drawn(name, length))
        assert tokens.shape == labels.shape and len(tokens) == ROWS
        assert tokens.min() >= 0 and tokens.max() < probe.vocabulary
        asked = labels != IGNORED
        assert asked.any(axis=1).all() and (asked.sum(1) == asked.sum(1)[0]).all()
        assert labels[asked].min() >= 0 and labels[asked].max() < probe.classes


def test_recall_shows_as_many_pairs_as_fit():
    for length, pairs in ((6, 2), (14, 2), (15, 3), (20, 4), (LENGTH, 4)):
        rows, labels = drawn("mqar", length)
        assert labels == [recall(row, pairs) for row in rows]
        assert {sum(label != IGNORED for label in row) for row in labels} == {pairs}


def test_swaps_of_neighbours_reach_every_permutation():
    reached = {elements(5)[0]}
    for _ in range(10):  # the longest word that is needed
        reached |= {tuple(elements(5)[g][place] for place in one) for one in reached for g in neighbours(5)}
    assert len(reached) == 120


def test_adding_asks_for_the_sum_of_one_marked_number_in_each_half():
    inputs, labels = PROBES["adding"].rows(np.random.default_rng(0), ROWS, LENGTH)
    assert inputs.dtype == labels.dtype == np.float32
    for row, label in zip(inputs.tolist(), labels.tolist(), strict=True):
        marked = [t for t, (_, mark) in enumerate(row) if mark]
        assert [t < LENGTH // 2 for t in marked] == [True, False]
        assert label == pytest.approx(sum(row[t][0] for t in marked), abs=1e-6)
        assert all(0 <= number < 1 and mark in (0, 1) for number, mark in row)


@every_probe
def test_no_answer_that_reads_nothing_is_better_than_chance(name):
    """The likeliest label of each place, over many rows; where all steps have one, in the second half."""
    classes, chance = PROBES[name].classes, PROBES[name].chance
    slow = classes == 120  # swaps of neighbours mix slowly
    _, labels = PROBES[name].rows(np.random.default_rng(0), 20_000, 4 * LENGTH if slow else LENGTH)
    if (labels != IGNORED).all():
        labels = labels[:, labels.shape[1] // 2 :]
    places = np.zeros_like(labels) if name == "mqar" else np.arange(labels.shape[1])  # its questions are anywhere
    asked = (labels + classes * places)[labels != IGNORED]
    counts = np.bincount(asked, minlength=classes * labels.shape[1]).reshape(-1, classes)
    assert counts.max(1).sum() / len(asked) == pytest.approx(chance, abs=min(0.02, 0.3 * chance))


def test_the_chance_of_adding_is_that_of_always_saying_one():
    _, labels = PROBES["adding"].rows(np.random.default_rng(0), 100_000, 2)
    near = np.mean(abs(labels - 1) < 0.04)
    assert PROBES["adding"].chance == pytest.approx(near, abs=0.004)
    assert near > max(np.mean(abs(labels - guess) < 0.04) for guess in (0.7, 0.9, 1.1, 1.3))


def test_chance_is_zero_and_certainty_one_and_a_row_too_short_is_refused():
    assert scaled(0.25, 0.25) == 0 and scaled(1, 0.25) == 1 and scaled(0, 0.5) == -1
    with pytest.raises(ValueError, match="mqar: length must be at least 6, got 5"):
        drawn("mqar", 5)
