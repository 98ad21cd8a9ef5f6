"""MNIST from its original files, here with few and small images."""

import gzip
import struct

import numpy as np
import pytest
from text_files import refused

from gatedrnn.data import data_settings, load_task

ROWS, SIDE = 100, 4


def idx(array):
    """The original format: two zeros, the type (8: unsigned bytes), dimensions, their sizes, the bytes."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def files(tmp_path):
    """Folder with images whose first pixel is their number, and digits in turn."""
    for part, rows in (("train", ROWS), ("t10k", 20)):
        images = np.random.default_rng(rows).integers(0, 256, (rows, SIDE, SIDE), dtype=np.uint8)
        images[:, 0, 0] = np.arange(rows)
        digits = (np.arange(rows) % 10).astype(np.uint8)
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(digits)))
    return tmp_path


def mnist(folder, **settings):
    names = {
        "train_file": folder / "train-images-idx3-ubyte.gz", "test_file": folder / "t10k-images-idx3-ubyte.gz",
    }  # fmt: skip
    return load_task(data_settings(task="mnist", **names | settings))


def test_pixels_come_one_after_another_with_their_own_digit(files):
    task = mnist(files)
    for split in (task.train, *task.evaluation.values()):
        for pixels, digit in zip(split.inputs, split.labels, strict=True):
            assert pixels.shape == (SIDE * SIDE, 1) and 0 <= pixels.min() and pixels.max() <= 1
            assert round(float(pixels[0, 0]) * 255) % 10 == digit
    sizes = len(task.train), len(task.evaluation["validation"]), len(task.evaluation["test"])
    assert sizes == (90, 10, 20)
    shown = {round(float(x[0, 0]) * 255) for split in (task.train, task.evaluation["validation"]) for x in split.inputs}
    assert shown == set(range(ROWS)), "each training image in one of both"


def test_permuted_has_one_order_for_all_images(files):
    plain, permuted, other = mnist(files), mnist(files, permuted=True), mnist(files, permuted=True, split_seed=1)
    before, after = (np.stack(task.evaluation["test"].inputs)[:, :, 0] for task in (plain, permuted))
    order = [int(np.flatnonzero((before == after[:, [t]]).all(0))[0]) for t in range(SIDE * SIDE)]
    assert sorted(order) == list(range(SIDE * SIDE)) != order
    assert not np.array_equal(np.stack(other.evaluation["test"].inputs)[:, :, 0], after)


def test_labels_belong_to_what_was_read(files):
    before = mnist(files).sources
    labels = files / "t10k-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(idx(np.zeros(20, np.uint8))))
    assert mnist(files, split_seed=2).sources != before


def test_files_that_are_not_what_they_should_be_are_refused(files):
    refused("give the original train-images", load_task, data_settings(task="mnist"))
    refused("expected a file of images", mnist, files, train_file=files / "train-labels-idx1-ubyte.gz")
    images, labels = files / "train-images-idx3-ubyte.gz", files / "train-labels-idx1-ubyte.gz"
    whole = images.read_bytes()
    short = gzip.compress(gzip.decompress(whole)[:-1])
    of_other_bytes = (b"\x1f\x8b\x08", whole[:30] + b"\x00" * 40, gzip.compress(whole[:6]), gzip.compress(b"text"))
    for broken in (whole[:50], short, *of_other_bytes):
        images.write_bytes(broken)
        refused(r"cannot be read|not an MNIST file", mnist, files, split_seed=3)
    images.write_bytes(whole)
    labels.write_bytes(gzip.compress(idx(np.full(ROWS, 10, np.uint8))))
    refused("has the label 10", mnist, files, split_seed=3)
    labels.write_bytes(gzip.compress(idx(np.zeros(3, np.uint8))))
    refused("100 images, and 3 labels", mnist, files, split_seed=3)
