"""Parity: labels by brute force, and batches that depend on their own number alone."""

from itertools import combinations

import numpy as np
import pytest
import torch

from gatedrnn.data import DataSettings
from gatedrnn.data.parity import load_parity

EVERYWHERE = ("validation", "test", "test_4x")
IGNORED = -100


def parity_of(length=7, labels="every", **settings):
    return load_parity(DataSettings(task="parity", length=length, labels=labels, **settings))


def counted(row):
    """After each bit, whether an odd number of ones has been seen: by counting them."""
    return [sum(row[: t + 1]) % 2 for t in range(len(row))]


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one.keys() | other.keys())


def rows_of(task):
    """Inputs and labels of a training batch and of every evaluation set."""
    batch = task.train.batch(0, 0, 0, 50)
    yield batch["input_ids"].tolist(), batch["labels"].tolist()
    for name in EVERYWHERE:
        yield [row.tolist() for row in task.evaluation[name].inputs], task.evaluation[name].labels.tolist()


def test_every_label_is_the_parity_of_the_bits_so_far():
    for inputs, labels in rows_of(parity_of()):
        assert labels == [counted(row) for row in inputs]
        assert {bit for row in inputs for bit in row} == {0, 1}


def test_with_labels_last_only_the_whole_sequence_has_a_label():
    for inputs, labels in rows_of(parity_of(labels="last")):
        assert labels == [[IGNORED] * (len(row) - 1) + [sum(row) % 2] for row in inputs]


def test_the_long_test_is_four_times_as_long():
    task = parity_of(length=5)
    lengths = {name: set(task.evaluation[name].lengths.tolist()) for name in EVERYWHERE}
    assert lengths == {"validation": {5}, "test": {5}, "test_4x": {20}}


def test_a_batch_is_a_function_of_seed_epoch_and_index():
    train = parity_of().train
    asked = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 2, 3)]
    first = {key: train.batch(*key, 16) for key in asked}
    other = parity_of().train
    for key in reversed(asked):
        assert same(first[key], other.batch(*key, 16)), "the same, whatever was asked before"
    for one, another in combinations(asked, 2):
        assert not same(first[one], first[another])


def test_evaluation_sets_are_drawn_apart_and_only_the_split_seed_moves_them():
    # At length 40 two equal rows among thousands would be a wonder: 2,000 * 2,000 / 2**40 < 1e-5.
    task, again, moved = parity_of(40), parity_of(40), parity_of(40, split_seed=1)
    train = {tuple(row) for row in task.train.batch(0, 0, 0, 2_000)["input_ids"].tolist()}
    sets = {name: {tuple(row) for row in task.evaluation[name].inputs} for name in ("validation", "test")}
    assert not train & sets["validation"]
    assert not train & sets["test"]
    assert not sets["validation"] & sets["test"]
    for name in EVERYWHERE:
        assert np.array_equal(task.evaluation[name].inputs, again.evaluation[name].inputs)
        assert not np.array_equal(task.evaluation[name].inputs, moved.evaluation[name].inputs)


@pytest.mark.parametrize("length", [1, 2, 64])
def test_bits_are_fair_at_any_length(length):
    bits = parity_of(length).train.batch(3, 4, 5, 10_000)["input_ids"]
    assert bits.shape == (10_000, length)
    # Six standard deviations of the mean of 10,000 fair bits, at each position.
    assert (bits.double().mean(0) - 0.5).abs().max() < 6 * 0.5 / 100
