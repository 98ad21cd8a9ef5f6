"""Digits: scikit-learn's images, each in one split, classes in proportion."""

from collections import Counter

import numpy as np
import pytest
from sklearn.datasets import load_digits as read_digits

from gatedrnn.data import data_settings
from gatedrnn.data.digits import load_digits

ALL = 1_797


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
        rows = splits[split]
        assert {x.shape for x in rows.inputs} == {(8, 8)} and {x.shape for x in pixels[split].inputs} == {(64, 1)}
        assert all(np.array_equal(a.ravel(), b.ravel()) for a, b in zip(rows.inputs, pixels[split].inputs, strict=True))
        assert rows.inputs[0].dtype == np.float32
    assert sum((images_of(split) for split in splits.values()), Counter()) == expected
    assert sum(len(split) for split in splits.values()) == ALL


def test_splits_have_the_sizes_that_the_fractions_say_and_the_classes_in_proportion(splits):
    sized = splits_of(test_fraction=0.25, validation_fraction=0.2)
    expected = {"test": ALL * 0.25, "validation": ALL * 0.75 * 0.2, "train": ALL * 0.75 * 0.8}
    assert all(abs(len(sized[name]) - size) < 2 for name, size in expected.items())
    overall = np.bincount(read_digits().target) / ALL
    for split in splits.values():
        assert (np.abs(np.bincount(split.labels) - overall * len(split)) <= 1.5).all(), "off by rounding alone"


def test_the_split_depends_on_its_seed_alone(splits):
    again, moved = splits_of(), splits_of(split_seed=1)
    for name, first in splits.items():
        assert np.array_equal(first.inputs, again[name].inputs) and np.array_equal(first.labels, again[name].labels)
        assert images_of(first) != images_of(moved[name])
