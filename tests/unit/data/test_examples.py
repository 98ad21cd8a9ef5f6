"""Images of digits, scikit-learn's and MNIST's; batches of any task: every row once, with little padding."""

import gzip
import struct
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_digits as read_digits
from text_files import refused, same, write

from gatedrnn.data import Examples, data_settings, load_task, tokens_in
from gatedrnn.data.batches import _EVALUATION_TOKENS
from gatedrnn.tasks.images.read import load_digits

ALL, IMAGES, SIDE = 1_797, 100, 4


def splits_of(**settings):
    task = load_digits(data_settings(task="digits", **settings))
    return {"train": task.train, **task.evaluation}


def images_of(examples):
    """Every image with its label; some images may occur twice."""
    return Counter((image.tobytes(), int(label)) for image, label in zip(examples.inputs, examples.labels, strict=True))


@pytest.fixture(scope="module")
def splits():
    return splits_of()


def test_every_image_is_in_exactly_one_split_row_by_row_and_pixel_by_pixel(splits):
    digits = read_digits()
    images = (digits.images / 16).astype(np.float32)
    expected = Counter((image.tobytes(), int(label)) for image, label in zip(images, digits.target, strict=True))
    pixels = splits_of(steps=64)
    for split in splits:
        rows, single = np.stack(splits[split].inputs), np.stack(pixels[split].inputs)
        assert rows.shape[1:] == (8, 8) and single.shape[1:] == (64, 1) and rows.dtype == np.float32
        assert np.array_equal(rows.reshape(single.shape), single)
    assert sum((images_of(split) for split in splits.values()), Counter()) == expected


def test_splits_have_the_sizes_of_the_fractions_and_the_classes_in_proportion_and_depend_on_their_seed_alone(splits):
    sized = splits_of(test_fraction=0.25, validation_fraction=0.2)
    expected = {"test": ALL * 0.25, "validation": ALL * 0.75 * 0.2, "train": ALL * 0.75 * 0.8}
    assert all(abs(len(sized[name]) - size) < 2 for name, size in expected.items())
    overall, again, moved = np.bincount(read_digits().target) / ALL, splits_of(), splits_of(split_seed=1)
    for name, first in splits.items():
        assert (np.abs(np.bincount(first.labels) - overall * len(first)) <= 1.5).all(), "off by rounding alone"
        assert np.array_equal(first.inputs, again[name].inputs) and np.array_equal(first.labels, again[name].labels)
        assert images_of(first) != images_of(moved[name])


def idx(array):
    """The original format: two zeros, the type (8: unsigned bytes), dimensions, their sizes, the bytes."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def files(tmp_path):
    """Folder with images whose first pixel is their number, and digits in turn."""
    for part, rows in (("train", IMAGES), ("t10k", 20)):
        images = np.random.default_rng(rows).integers(0, 256, (rows, SIDE, SIDE), dtype=np.uint8)
        images[:, 0, 0] = np.arange(rows)
        for kind, array in (("images-idx3", images), ("labels-idx1", (np.arange(rows) % 10).astype(np.uint8))):
            write(tmp_path / f"{part}-{kind}-ubyte.gz", gzip.compress(idx(array)))
    return tmp_path


def mnist(folder, **settings):
    parts = {"train_file": "train", "test_file": "t10k"}
    names = {name: folder / f"{part}-images-idx3-ubyte.gz" for name, part in parts.items()}
    return load_task(data_settings(task="mnist", **names | settings))


def test_pixels_come_one_after_another_with_their_own_digit(files):
    task = mnist(files)
    for split in (task.train, *task.evaluation.values()):
        for pixels, digit in zip(split.inputs, split.labels, strict=True):
            assert pixels.shape == (SIDE * SIDE, 1) and 0 <= pixels.min() and pixels.max() <= 1
            assert round(float(pixels[0, 0]) * 255) % 10 == digit
    assert {name: len(split) for name, split in task.evaluation.items()} == {"validation": 10, "test": 20}
    shown = [round(float(x[0, 0]) * 255) for split in (task.train, task.evaluation["validation"]) for x in split.inputs]
    assert sorted(shown) == list(range(IMAGES)), "each training image in one of both"


def test_permuted_has_one_order_for_all_images_and_labels_belong_to_what_was_read(files):
    plain, permuted, other = mnist(files), mnist(files, permuted=True), mnist(files, permuted=True, split_seed=1)
    before, after = (np.stack(task.evaluation["test"].inputs)[:, :, 0] for task in (plain, permuted))
    order = [int(np.flatnonzero((before == after[:, [t]]).all(0))[0]) for t in range(SIDE * SIDE)]
    assert sorted(order) == list(range(SIDE * SIDE)) != order
    assert not np.array_equal(np.stack(other.evaluation["test"].inputs)[:, :, 0], after)
    write(files / "t10k-labels-idx1-ubyte.gz", gzip.compress(idx(np.zeros(20, np.uint8))))
    assert mnist(files, split_seed=2).sources != plain.sources


def test_files_that_are_not_what_they_should_be_are_refused(files):
    refused("give the original train-images", load_task, data_settings(task="mnist"))
    refused("expected a file of images", mnist, files, train_file=files / "train-labels-idx1-ubyte.gz")
    images, labels = files / "train-images-idx3-ubyte.gz", files / "train-labels-idx1-ubyte.gz"
    whole = images.read_bytes()
    short = gzip.compress(gzip.decompress(whole)[:-1])
    other = (b"\x1f\x8b\x08", whole[:30] + b"\x00" * 40, gzip.compress(whole[:6]), gzip.compress(b"text"))
    for broken in (whole[:50], short, *other):
        images.write_bytes(broken)
        refused(r"cannot be read|not an MNIST file", mnist, files, split_seed=3)
    images.write_bytes(whole)
    for count, digit, said in ((IMAGES, 10, "has the label 10"), (3, 0, "100 images, and 3 labels")):
        labels.write_bytes(gzip.compress(idx(np.full(count, digit, np.uint8))))
        refused(said, mnist, files, split_seed=3)


ROWS, BATCH = 1_003, 16  # the last batch is not full
# Padding as a part of all steps, at the lengths below: 0.07 found in training, 0.10 in evaluation, 0.67 unsorted.
TRAINING_WASTE, EVALUATION_WASTE = 0.09, 0.12


def examples_of(rows=ROWS, lengths=None, features=None):
    """Rows whose label is their own number, of lengths as texts have them."""
    random = np.random.default_rng(0)
    if lengths is None:
        lengths = np.clip(random.lognormal(3.5, 0.6, rows).astype(int), 1, 256)
    drawn = lambda n: random.random((n, features), np.float32) if features else random.integers(2, 99, n)  # noqa: E731
    inputs = [drawn(n) for n in lengths]
    return Examples(inputs, np.arange(len(inputs)))


def epoch_of(examples, seed=0, epoch=0, size=BATCH):
    return [examples.batch(seed, epoch, i, size) for i in range(examples.steps_per_epoch(size))]


def rows_in(batches):
    return [row for batch in batches for row in batch["labels"].tolist()]


def padding_in(batches):
    """Part of all steps that is padding."""
    area = sum(batch["input_ids"].numel() for batch in batches)
    return 1 - sum(tokens_in(batch) for batch in batches) / area


def test_an_epoch_has_every_row_exactly_once_with_its_labels():
    for size in (1, BATCH, ROWS, ROWS + 1):
        batches = epoch_of(examples_of(), size=size)
        assert sorted(rows_in(batches)) == list(range(ROWS)), size
        assert all(len(batch["labels"]) <= size for batch in batches)
        assert sum(len(batch["labels"]) < size for batch in batches) <= 1
    examples = Examples([np.array([1, 0, 1]), np.array([0, 0, 1])], np.array([[1, 1, 0], [0, 0, -100]]))
    for batch in epoch_of(examples, size=1):
        expected = [1, 1, 0] if batch["input_ids"].tolist() == [[1, 0, 1]] else [0, 0, -100]
        assert batch["labels"].tolist() == [expected]


@pytest.mark.parametrize("lengths", [None, [7] * 200], ids=["unequal lengths", "equal lengths"])
def test_seeds_and_epochs_shuffle_anew_and_a_batch_is_the_same_in_any_order_of_asking(lengths):
    examples, other, random = examples_of(lengths=lengths), examples_of(lengths=lengths), np.random.default_rng(1)
    whole = {epoch: epoch_of(examples, seed=5, epoch=epoch) for epoch in range(4)}
    for _ in range(100):
        epoch, index = int(random.integers(4)), int(random.integers(len(whole[0])))
        assert same(other.batch(5, epoch, index, BATCH), whole[epoch][index])
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


def test_evaluation_reads_every_row_once_and_keeps_to_its_limit_but_for_a_row_above_it_alone():
    batches = list(examples_of(5_000).evaluation_batches())
    assert sorted(rows_in(batches)) == list(range(5_000))
    sizes = [batch["input_ids"].numel() for batch in batches]
    assert max(sizes) <= _EVALUATION_TOKENS
    assert np.mean(sizes[:-1]) > 0.9 * _EVALUATION_TOKENS, "and uses what it may"
    assert padding_in(batches) < EVALUATION_WASTE
    lengths = [3, _EVALUATION_TOKENS + 1, 4, _EVALUATION_TOKENS, 2 * _EVALUATION_TOKENS]
    batches = list(examples_of(lengths=lengths).evaluation_batches())
    assert [batch["labels"].tolist() for batch in batches] == [[0, 2], [3], [1], [4]]
