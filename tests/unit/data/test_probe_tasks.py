"""Probes as tasks: labels where they should be, lengths as asked for, batches that depend on their own number alone."""

from itertools import combinations

import numpy as np
import pytest
import torch
from text_files import refused

from gatedrnn.data import data_settings, load_task
from gatedrnn.data.probes import IGNORED, PROBES, labels_in
from gatedrnn.data.probes.task import LABELS, MOST_ROWS, STEPS_PER_EPOCH, TOKENS, VALIDATED
from gatedrnn.errors import UsageError


def task_of(name="parity", length=24, **settings):
    return load_task(data_settings(task=name, length=length, **settings))


def parity_so_far(row):
    """After each bit, whether an odd number of ones has been seen: by counting them."""
    return [sum(row[: t + 1]) % 2 for t in range(len(row))]


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_training_labels_every_step_and_a_test_its_second_half():
    task = task_of(length=7)
    batch = task.train.batch(0, 0, 0, 50)
    assert batch["labels"].tolist() == [parity_so_far(row) for row in batch["input_ids"].tolist()]
    for split in ("validation", "test", "test_28"):
        examples = task.evaluation[split]
        for row, labels in zip(examples.inputs, examples.labels.tolist(), strict=True):
            half = len(row) // 2
            assert labels == [IGNORED] * half + parity_so_far(row.tolist())[half:]


def test_with_labels_last_only_the_whole_sequence_has_a_label():
    task = task_of(length=7, labels="last")
    for row, labels in zip(task.evaluation["test"].inputs, task.evaluation["test"].labels.tolist(), strict=True):
        assert labels == [IGNORED] * (len(row) - 1) + [int(row.sum()) % 2]
    assert (task.train.batch(0, 0, 0, 9)["labels"][:, :-1] == IGNORED).all()


def test_each_probe_makes_batches_and_tests_that_a_model_can_read():
    for name, probe in PROBES.items():
        task = task_of(name, test_lengths=(30,))
        batch = task.train.batch(0, 0, 0, 3)
        if probe.vocabulary:
            assert task.model_inputs["vocab_size"] == probe.vocabulary > batch["input_ids"].max()
            assert batch["labels"].max() < len(task.label_names) == probe.classes
        else:
            assert batch["input_values"].shape[2] == task.model_inputs["input_size"]
            assert task.evaluation["test"].within == probe.within > 0
        for split in ("test", "test_30"):
            labels = task.evaluation[split].labels
            assert labels.ndim == 1 or (labels != IGNORED).any(1).all(), f"{name}: every row asks something"


def test_tests_are_at_the_training_length_and_wherever_asked():
    def lengths(**settings):
        return {name: set(split.lengths.tolist()) for name, split in task_of(length=5, **settings).evaluation.items()}

    assert lengths() == {"validation": {5}, "test": {5}, "test_20": {20}}
    assert lengths(test_lengths=(9, 5, 7, 9)) == {"validation": {5}, "test": {5}, "test_7": {7}, "test_9": {9}}
    assert list(lengths(test_lengths=(9, 7)))[-1] == "test_9", "the longest is the last"


def test_long_tests_have_fewer_rows_one_at_least_and_labels_enough():
    task = task_of(test_lengths=(TOKENS // 4, 2 * TOKENS))
    assert (len(task.evaluation["validation"]), len(task.evaluation["test"])) == (VALIDATED, MOST_ROWS)
    assert len(task.evaluation[f"test_{TOKENS // 4}"]) == 4 and len(task.evaluation[f"test_{2 * TOKENS}"]) == 1
    for name in ("mqar", "missing-duplicate", "adding", "copying"):
        few = task_of(name, test_lengths=(4096,)).evaluation["test_4096"]
        assert labels_in(few) >= LABELS
    assert labels_in(task_of(labels="last", test_lengths=(4096,)).evaluation["test_4096"]) >= LABELS


def test_sequences_grow_with_the_curriculum_and_a_batch_keeps_its_size():
    train = task_of(length=64, curriculum=2).train
    lengths = [[train.batch(0, e, i, 16)["input_ids"].shape for i in range(STEPS_PER_EPOCH)] for e in range(4)]
    longest = [max(shape[1] for shape in epoch) for epoch in lengths]
    assert lengths[0][0][1] == 2 and longest[0] < 16 and 32 < longest[1] <= 64 and longest[2] == longest[3] == 64
    assert {shape[1] for shape in lengths[3]} > {40, 50, 60}, "lengths from half on"
    assert min(shape[1] for shape in lengths[3]) == 32
    for rows, length in (shape for epoch in lengths for shape in epoch):
        assert 16 * 64 - length < rows * length <= 16 * 64


def test_a_batch_of_a_probe_with_questions_keeps_its_steps_too_and_one_step_has_no_room_to_grow():
    train = task_of("copying", length=64, curriculum=1).train
    sizes = [train.batch(0, 0, i, 16)["input_ids"].numel() for i in range(STEPS_PER_EPOCH)]
    assert 0.9 * 16 * 84 < min(sizes) <= max(sizes) <= 16 * 84
    assert task_of(length=1, curriculum=1).train.batch(0, 0, 0, 4)["input_ids"].shape == (4, 1)


@pytest.mark.parametrize("curriculum", [0, 2])
def test_a_batch_is_a_function_of_seed_epoch_and_index(curriculum):
    train, other = task_of(curriculum=curriculum).train, task_of(curriculum=curriculum).train
    asked = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 2, 3)]
    first = {key: train.batch(*key, 16) for key in asked}
    for key in reversed(asked):
        assert same(first[key], other.batch(*key, 16)), "the same, whatever was asked before"
    for one, another in combinations(first.values(), 2):
        assert one["input_ids"].shape != another["input_ids"].shape or not same(one, another)


def test_evaluation_sets_are_drawn_apart_and_only_the_split_seed_moves_them():
    # At length 40 two equal rows among thousands would be a wonder: 2,000 * 2,000 / 2**40 < 1e-5.
    task, again, moved = task_of(length=40), task_of(length=40, curriculum=1), task_of(length=40, split_seed=1)
    train = {tuple(row) for row in task.train.batch(0, 0, 0, 2_000)["input_ids"].tolist()}
    sets = {name: {tuple(row) for row in task.evaluation[name].inputs} for name in ("validation", "test")}
    assert not train & sets["validation"] and not train & sets["test"] and not sets["validation"] & sets["test"]
    for name in ("validation", "test", "test_160"):
        assert np.array_equal(task.evaluation[name].inputs, again.evaluation[name].inputs)
        assert not np.array_equal(task.evaluation[name].inputs, moved.evaluation[name].inputs)


def test_bits_are_fair_at_any_length():
    for length in (1, 2, 64):
        bits = task_of(length=length).train.batch(3, 4, 5, 10_000)["input_ids"]
        assert bits.shape == (10_000, length)
        # Six standard deviations of the mean of 10,000 fair bits, at each position.
        assert (bits.double().mean(0) - 0.5).abs().max() < 6 * 0.5 / 100


def test_lengths_that_a_probe_does_not_have_are_refused():
    refused("mqar: lengths begin at 6, got 5", task_of, "mqar", length=5)
    refused("copying: lengths begin at 16, got 3", task_of, "selective-copying", test_lengths=(3,))
    for name in ("mqar", "adding", "bucket-sort"):
        refused("does not have a label at every step", task_of, name, labels="last")
    with pytest.raises(UsageError, match="--curriculum belongs to probes, not to digits"):
        data_settings(task="digits", curriculum=1)
