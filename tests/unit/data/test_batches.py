"""Batches: every row once, the same for the same question, little padding."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from gatedrnn.data import Examples, tokens_in
from gatedrnn.data.batches import EVALUATION_TOKENS

ROWS, BATCH = 1_003, 16  # the last batch is not full
# Padding as a part of all steps, at the lengths below: 0.07 found in training, 0.10 in evaluation, 0.67 unsorted.
TRAINING_WASTE, EVALUATION_WASTE = 0.09, 0.12


def examples_of(rows=ROWS, lengths=None, features=None):
    """Rows whose label is their own number, of lengths as texts have them."""
    random = np.random.default_rng(0)
    if lengths is None:
        lengths = np.clip(random.lognormal(3.5, 0.6, rows).astype(int), 1, 256)
    shape = () if features is None else (features,)
    inputs = [random.random((n, *shape)).astype(np.float32) if shape else random.integers(2, 99, n) for n in lengths]
    return Examples(inputs, np.arange(len(inputs)))


def epoch_of(examples, seed=0, epoch=0, size=BATCH):
    return [examples.batch(seed, epoch, i, size) for i in range(examples.steps_per_epoch(size))]


def rows_in(batches):
    return [row for batch in batches for row in batch["labels"].tolist()]


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def padding_in(batches):
    """Part of all steps that is padding."""
    area = sum(batch["input_ids"].numel() for batch in batches)
    return 1 - sum(tokens_in(batch) for batch in batches) / area


def test_an_epoch_has_every_row_exactly_once():
    for size in (1, BATCH, ROWS, ROWS + 1):
        batches = epoch_of(examples_of(), size=size)
        assert sorted(rows_in(batches)) == list(range(ROWS)), size
        assert all(len(batch["labels"]) <= size for batch in batches)
        assert sum(len(batch["labels"]) < size for batch in batches) <= 1


def test_a_batch_is_the_same_in_any_order_of_asking():
    whole = {epoch: epoch_of(examples_of(), seed=5, epoch=epoch) for epoch in range(4)}
    other, random = examples_of(), np.random.default_rng(1)
    for _ in range(100):
        epoch, index = random.integers(4), random.integers(len(whole[0]))
        assert same(other.batch(5, int(epoch), int(index), BATCH), whole[epoch][index])


@pytest.mark.parametrize("lengths", [None, [7] * 200], ids=["unequal lengths", "equal lengths"])
def test_seeds_and_epochs_shuffle_anew(lengths):
    examples = examples_of(lengths=lengths)
    orders = [rows_in(epoch_of(examples, seed, epoch)) for seed in (0, 1) for epoch in (0, 1)]
    company = [{frozenset(rows_in([batch])) for batch in epoch_of(examples, 0, epoch)} for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4
    assert not company[0] & company[1], "no two epochs put the same rows together"


def test_rows_of_like_length_come_together_so_that_little_is_padding_and_short_and_long_batches_mixed():
    examples = examples_of(20_000)
    lengths, batches = examples.lengths, epoch_of(examples, size=32)
    in_random_order = [lengths[i : i + 32] for i in range(0, len(lengths), 32)]
    wasted = 1 - sum(part.sum() for part in in_random_order) / sum(part.max() * len(part) for part in in_random_order)
    assert wasted > 0.5, "the lengths are unequal enough for the next line to mean something"
    assert padding_in(batches) < TRAINING_WASTE
    widths = [batch["input_ids"].shape[1] for batch in batches]
    rises = sum(a < b for a, b in pairwise(widths)) / len(widths)
    assert 0.4 < rises < 0.6, "sorted by length it would be nearly 0 or nearly 1"


@pytest.mark.parametrize("features", [None, 3])
def test_a_batch_holds_its_rows_then_zeros_and_a_mask_only_where_something_is_padded(features):
    examples = examples_of(lengths=[3, 1, 5, 5, 2], features=features)
    batch = examples.collate(np.array([4, 2, 0]))
    name = "input_ids" if features is None else "input_values"
    assert batch.keys() == {name, "labels", "attention_mask"}
    assert batch["labels"].tolist() == [4, 2, 0]
    assert batch["attention_mask"].tolist() == [[1, 1, 0, 0, 0], [1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
    for padded, row in zip(batch[name].numpy(), (4, 2, 0), strict=True):
        values = examples.inputs[row]
        assert np.array_equal(padded[: len(values)], values) and not padded[len(values) :].any()
        assert padded.dtype == values.dtype
    assert tokens_in(batch) == 2 + 5 + 3
    whole = examples.collate(np.array([2, 3]))
    assert "attention_mask" not in whole and tokens_in(whole) == 10


def test_evaluation_reads_every_row_once_and_keeps_to_its_limit():
    batches = list(examples_of(5_000).evaluation_batches())
    assert sorted(rows_in(batches)) == list(range(5_000))
    sizes = [batch["input_ids"].numel() for batch in batches]
    assert max(sizes) <= EVALUATION_TOKENS
    assert np.mean(sizes[:-1]) > 0.9 * EVALUATION_TOKENS, "and uses what it may"
    assert padding_in(batches) < EVALUATION_WASTE


def test_a_row_above_the_limit_of_evaluation_is_read_alone():
    lengths = [3, EVALUATION_TOKENS + 1, 4, EVALUATION_TOKENS, 2 * EVALUATION_TOKENS]
    batches = list(examples_of(lengths=lengths).evaluation_batches())
    assert [batch["labels"].tolist() for batch in batches] == [[0, 2], [3], [1], [4]]


def test_labels_at_every_step_stay_with_their_row():
    examples = Examples([np.array([1, 0, 1]), np.array([0, 0, 1])], np.array([[1, 1, 0], [0, 0, -100]]))
    for batch in epoch_of(examples, size=1):
        expected = [1, 1, 0] if batch["input_ids"].tolist() == [[1, 0, 1]] else [0, 0, -100]
        assert batch["labels"].tolist() == [expected]
