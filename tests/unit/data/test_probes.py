"""Each probe asks what it says it asks: its labels by a definition in plain Python, a token at a time."""

from functools import reduce
from itertools import permutations

import numpy as np
import pytest

from gatedrnn.data.probes import IGNORED, PROBES, scaled
from gatedrnn.data.probes.groups import elements, neighbours

ROWS, LENGTH = 50, 40
every_probe = pytest.mark.parametrize("name", [name for name in PROBES if name != "adding"])


def drawn(name, length=LENGTH, seed=0):
    tokens, labels = PROBES[name].rows(np.random.default_rng(seed), ROWS, length)
    return tokens.tolist(), labels.tolist()


@every_probe
@pytest.mark.parametrize("length", [24, 25, 40])
def test_tokens_and_classes_are_as_many_as_it_says_and_every_row_has_a_label(name, length):
    probe = PROBES[name]
    tokens, labels = (np.array(x) for x in drawn(name, length))
    assert tokens.shape == labels.shape and len(tokens) == ROWS
    assert tokens.min() >= 0 and tokens.max() < probe.vocabulary
    asked = labels != IGNORED
    assert asked.any(axis=1).all() and (asked.sum(1) == asked.sum(1)[0]).all()
    assert labels[asked].min() >= 0 and labels[asked].max() < probe.classes


@every_probe
def test_a_seed_draws_the_same_rows_and_another_others(name):
    assert drawn(name) == drawn(name) != drawn(name, seed=1)
    assert len({tuple(row) for row in drawn(name)[0]}) > 0.9 * ROWS


def iterated(start, step, row):
    """Labels of a state that is followed from token to token."""
    found = []
    for token in row:
        start = step(start, token)
        found.append(start)
    return found


@pytest.mark.parametrize(
    "name, step",
    [
        ("parity", lambda s, x: s ^ x),
        ("modular-addition", lambda s, x: (s + x) % 5),
        ("cycle-navigation", lambda s, x: (s + {0: 0, 1: 1, 2: -1}[x]) % 5),
    ],
)
def test_a_counter_is_followed(name, step):
    for row, labels in zip(*drawn(name), strict=True):
        assert labels == iterated(0, step, row)


@pytest.mark.parametrize("name, size", [("s3", 3), ("s5", 5), ("s5-all", 5)])
def test_a_word_is_what_it_does_to_things_in_a_row(name, size):
    """A permutation p puts at place i what stood at place p[i]; of a product the earlier token acts first."""
    every = list(permutations(range(size)))
    moves = [every[i] for i in neighbours(size)] if name == "s5" else every
    for row, labels in zip(*drawn(name), strict=True):

        def then(reached, token):
            return tuple(moves[token][place] for place in reached)

        assert [every[label] for label in labels] == iterated(tuple(range(size)), then, row)


def test_swaps_of_neighbours_reach_every_permutation():
    reached = {elements(5)[0]}
    for _ in range(10):  # the longest word that is needed
        reached |= {tuple(elements(5)[g][place] for place in one) for one in reached for g in neighbours(5)}
    assert len(reached) == 120


def test_even_pairs_counts_changes():
    for row, labels in zip(*drawn("even-pairs"), strict=True):
        changes = [sum(row[i] != row[i + 1] for i in range(t)) for t in range(len(row))]
        assert labels == [1 - count % 2 for count in changes]


def test_majority_counts_ones():
    for row, labels in zip(*drawn("majority"), strict=True):
        assert labels == [int(sum(row[: t + 1]) > (t + 1) / 2) for t in range(len(row))]


def test_bucket_sort_asks_for_the_symbols_in_order():
    for row, labels in zip(*drawn("bucket-sort"), strict=True):
        shown, asking = row[:LENGTH], row[LENGTH:]
        assert set(asking) == {5} and labels == [IGNORED] * LENGTH + sorted(shown)


def test_missing_duplicate_asks_for_what_one_half_lacks():
    for row, labels in zip(*drawn("missing-duplicate"), strict=True):
        first, second = row[: LENGTH // 2], row[LENGTH // 2 : -1]
        (place,) = [i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
        assert second[place] == 2 and row[-1] == 3 and labels == [IGNORED] * LENGTH + [first[place]]


def test_copying_asks_for_ten_symbols_after_the_delay():
    for row, labels in zip(*drawn("copying"), strict=True):
        assert row[10:] == [8] * LENGTH + [9] * 10
        assert labels == [IGNORED] * (10 + LENGTH) + row[:10]


def test_selective_copying_asks_for_what_is_no_blank_in_order():
    for row, labels in zip(*drawn("selective-copying"), strict=True):
        shown = [token for token in row[:LENGTH] if token != 16]
        assert len(shown) == 16 and row[LENGTH:] == [17] * 16
        assert labels == [IGNORED] * LENGTH + shown


@pytest.mark.parametrize("length, pairs", [(6, 2), (14, 2), (15, 3), (20, 4), (LENGTH, 4)])
def test_recall_asks_for_the_value_of_each_key_once(length, pairs):
    for row, labels in zip(*drawn("mqar", length), strict=True):
        shown = 2 * pairs
        value = dict(zip(row[:shown:2], row[1:shown:2], strict=True))
        assert len(value) == pairs
        asked = [(token, label) for token, label in zip(row[shown:], labels[shown:], strict=True) if token != 16]
        assert sorted(key for key, _ in asked) == sorted(value)
        assert all(8 + label == value[key] for key, label in asked)
        assert reduce(lambda n, label: n + (label != IGNORED), labels, 0) == pairs


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
    slow = PROBES[name].classes == 120  # swaps of neighbours mix slowly
    _, labels = PROBES[name].rows(np.random.default_rng(0), 20_000, 4 * LENGTH if slow else LENGTH)
    if (labels != IGNORED).all():
        labels = labels[:, labels.shape[1] // 2 :]
    classes = PROBES[name].classes
    asked = (labels != IGNORED).any(0)
    counts = np.stack([(labels[:, asked] == label).sum(0) for label in range(classes)])
    total = counts.sum()
    if name == "mqar":  # its questions are anywhere
        counts = counts.sum(1, keepdims=True)
    chance = PROBES[name].chance
    assert counts.max(0).sum() / total == pytest.approx(chance, abs=min(0.02, 0.3 * chance))


def test_the_chance_of_adding_is_that_of_always_saying_one():
    _, labels = PROBES["adding"].rows(np.random.default_rng(0), 100_000, 2)
    near = np.mean(abs(labels - 1) < 0.04)
    assert PROBES["adding"].chance == pytest.approx(near, abs=0.004)
    assert near > max(np.mean(abs(labels - guess) < 0.04) for guess in (0.7, 0.9, 1.1, 1.3))


def test_a_row_too_short_for_what_it_must_show_is_refused():
    with pytest.raises(ValueError, match="mqar: length must be at least 6, got 5"):
        drawn("mqar", 5)


def test_chance_is_zero_and_certainty_one():
    assert scaled(0.25, 0.25) == 0 and scaled(1, 0.25) == 1 and scaled(0, 0.5) == -1
