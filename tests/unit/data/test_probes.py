"""Each probe asks what it says it asks, by a definition in plain Python; as a task, with lengths as asked for."""

from itertools import accumulate, combinations, permutations

import numpy as np
import pytest
from text_files import refused, same

from gatedrnn.data import data_settings, load_task
from gatedrnn.errors import UsageError
from gatedrnn.tasks.probes.read import _STEPS_PER_EPOCH, LABELS, MAX_ROWS, TOKENS, VALIDATED
from gatedrnn.tasks.probes.suite import IGNORED, PROBES, elements, labels_in, neighbours, scaled

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
    "even-pairs": lambda row: [int(token == row[0]) for token in row], "bucket-sort": bucket_sort,
    "majority": lambda row: [int(2 * ones > step) for step, ones in enumerate(accumulate(row), 1)],
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


def test_recall_shows_as_many_pairs_as_fit_and_a_row_too_short_is_refused():
    for length, pairs in ((6, 2), (14, 2), (15, 3), (20, 4), (LENGTH, 4)):
        rows, labels = drawn("mqar", length)
        assert labels == [recall(row, pairs) for row in rows]
        assert {sum(label != IGNORED for label in row) for row in labels} == {pairs}
    with pytest.raises(ValueError, match="mqar: length must be at least 6, got 5"):
        drawn("mqar", 5)


def test_swaps_of_neighbours_reach_every_permutation():
    reached = {elements(5)[0]}
    for _ in range(10):  # the longest word that is needed
        reached |= {tuple(elements(5)[g][place] for place in one) for one in reached for g in neighbours(5)}
    assert len(reached) == 120


def test_adding_asks_for_the_sum_of_one_marked_number_in_each_half_and_chance_is_to_say_one():
    inputs, labels = PROBES["adding"].rows(np.random.default_rng(0), ROWS, LENGTH)
    assert inputs.dtype == labels.dtype == np.float32
    for row, label in zip(inputs.tolist(), labels.tolist(), strict=True):
        marked = [t for t, (_, mark) in enumerate(row) if mark]
        assert [t < LENGTH // 2 for t in marked] == [True, False]
        assert label == pytest.approx(sum(row[t][0] for t in marked), abs=1e-6)
        assert all(0 <= number < 1 and mark in (0, 1) for number, mark in row)
    _, labels = PROBES["adding"].rows(np.random.default_rng(0), 100_000, 2)
    near, *others = (np.mean(abs(labels - guess) < 0.04) for guess in (1, 0.7, 0.9, 1.1, 1.3))
    assert PROBES["adding"].chance == pytest.approx(near, abs=0.004) and near > max(others)
    assert scaled(0.25, 0.25) == 0 and scaled(1, 0.25) == 1 and scaled(0, 0.5) == -1


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


def task_of(name="parity", length=24, **settings):
    return load_task(data_settings(task=name, length=length, **settings))


def test_training_labels_every_step_a_test_its_second_half_and_only_the_whole_sequence_where_asked():
    parity = DEFINITIONS["parity"]
    for labels in ("every", "last"):
        task = task_of(length=7, labels=labels)
        batch = task.train.batch(0, 0, 0, 50)
        for split in ("train", "validation", "test", "test_28"):
            examples = task.evaluation.get(split)
            rows, found = batch.values() if examples is None else (examples.inputs, examples.labels)
            for row, given in zip(rows, found.tolist(), strict=True):
                first = len(row) - 1 if labels == "last" else 0 if split == "train" else len(row) // 2
                assert given == [IGNORED] * first + parity(row.tolist())[first:]


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


def test_tests_are_at_the_training_length_and_wherever_asked_long_ones_with_fewer_rows_and_labels_enough():
    for asked, expected in (({}, [5, 5, 20]), ({"test_lengths": (9, 5, 7, 9)}, [5, 5, 7, 9])):
        splits = task_of(length=5, **asked).evaluation
        assert list(splits) == ["validation", "test", *(f"test_{length}" for length in expected[2:])]
        assert [set(split.lengths.tolist()) for split in splits.values()] == [{length} for length in expected]
    splits = task_of(test_lengths=(TOKENS // 4, 2 * TOKENS)).evaluation
    assert [len(split) for split in splits.values()] == [VALIDATED, MAX_ROWS, 4, 1]
    for name in ("mqar", "missing-duplicate", "adding", "copying", "parity"):
        labels = {"labels": "last"} if name == "parity" else {}
        assert labels_in(task_of(name, test_lengths=(4096,), **labels).evaluation["test_4096"]) >= LABELS


def test_sequences_grow_with_the_curriculum_where_there_is_room_and_a_batch_keeps_its_size():
    train = task_of(length=64, curriculum=2).train
    lengths = [[train.batch(0, e, i, 16)["input_ids"].shape for i in range(_STEPS_PER_EPOCH)] for e in range(4)]
    longest = [max(shape[1] for shape in epoch) for epoch in lengths]
    assert lengths[0][0][1] == 2 and longest[0] < 16 and 32 < longest[1] <= 64 and longest[2] == longest[3] == 64
    assert {shape[1] for shape in lengths[3]} > {40, 50, 60}, "lengths from half on"
    assert min(shape[1] for shape in lengths[3]) == 32
    for rows, length in (shape for epoch in lengths for shape in epoch):
        assert 16 * 64 - length < rows * length <= 16 * 64
    train = task_of("copying", length=64, curriculum=1).train
    sizes = [train.batch(0, 0, i, 16)["input_ids"].numel() for i in range(_STEPS_PER_EPOCH)]
    assert 0.9 * 16 * 84 < min(sizes) <= max(sizes) <= 16 * 84
    assert task_of(length=1, curriculum=1).train.batch(0, 0, 0, 4)["input_ids"].shape == (4, 1)


@pytest.mark.parametrize("curriculum", [0, 2])
def test_a_batch_is_a_function_of_seed_epoch_and_index(curriculum):
    train, other = task_of(curriculum=curriculum).train, task_of(curriculum=curriculum).train
    asked = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 2, 3)]
    first = {key: train.batch(*key, 16) for key in asked}
    for key in reversed(asked):
        assert same(first[key], other.batch(*key, 16)), "the same, whatever was asked before"
    assert not any(same(*pair) for pair in combinations(first.values(), 2))


def test_evaluation_sets_are_drawn_apart_and_only_the_split_seed_moves_them():
    # At length 40 two equal rows among thousands would be a wonder: 2,000 * 2,000 / 2**40 < 1e-5.
    task, again, moved = task_of(length=40), task_of(length=40, curriculum=1), task_of(length=40, split_seed=1)
    train = {tuple(row) for row in task.train.batch(0, 0, 0, 2_000)["input_ids"].tolist()}
    sets = {name: {tuple(row) for row in task.evaluation[name].inputs} for name in ("validation", "test")}
    assert not train & sets["validation"] and not train & sets["test"] and not sets["validation"] & sets["test"]
    for name in ("validation", "test", "test_160"):
        assert np.array_equal(task.evaluation[name].inputs, again.evaluation[name].inputs)
        assert not np.array_equal(task.evaluation[name].inputs, moved.evaluation[name].inputs)


def test_lengths_and_labels_that_a_task_does_not_have_are_refused():
    refused("mqar: lengths begin at 6, got 5", task_of, "mqar", length=5)
    refused("copying: lengths begin at 16, got 3", task_of, "selective-copying", test_lengths=(3,))
    for name in ("mqar", "adding", "bucket-sort"):
        refused("does not have a label at every step", task_of, name, labels="last")
    with pytest.raises(UsageError, match="--curriculum belongs to probes, not to digits"):
        data_settings(task="digits", curriculum=1)
