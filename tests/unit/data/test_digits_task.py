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


@pytest.mark.parametrize("steps", [8, 64])
def test_every_image_is_in_exactly_one_split(steps):
    digits = read_digits()
    images = (digits.images / 16).astype(np.float32).reshape(ALL, steps, 64 // steps)
    expected = Counter((image.tobytes(), int(label)) for image, label in zip(images, digits.target, strict=True))
    splits = splits_of(steps=steps)
    assert sum((images_of(split) for split in splits.values()), Counter()) == expected
    assert sum(len(split) for split in splits.values()) == ALL


def test_splits_have_the_sizes_that_the_fractions_say():
    splits = splits_of(test_fraction=0.25, validation_fraction=0.2)
    expected = {"test": ALL * 0.25, "validation": ALL * 0.75 * 0.2, "train": ALL * 0.75 * 0.8}
    assert all(abs(len(splits[name]) - size) < 2 for name, size in expected.items())


def test_every_split_has_the_classes_in_proportion():
    overall = np.bincount(read_digits().target) / ALL
    for split in splits_of().values():
        found = np.bincount(split.labels)
        assert (np.abs(found - overall * len(split)) <= 1.5).all(), "no class off by more than rounding"


def test_pixels_lie_between_zero_and_one_and_use_the_whole_range():
    for split in splits_of().values():
        values = np.concatenate(split.inputs)
        assert values.dtype == np.float32
        assert (values.min(), values.max()) == (0.0, 1.0)


def test_the_split_depends_on_its_seed_alone():
    first, again, moved = splits_of(), splits_of(), splits_of(split_seed=1)
    for name in first:
        assert np.array_equal(first[name].inputs, again[name].inputs)
        assert np.array_equal(first[name].labels, again[name].labels)
        assert images_of(first[name]) != images_of(moved[name])


def test_row_by_row_and_pixel_by_pixel_read_the_same_image_in_the_same_order():
    rows, pixels = splits_of(steps=8)["test"], splits_of(steps=64)["test"]
    assert all(np.array_equal(a.ravel(), b.ravel()) for a, b in zip(rows.inputs, pixels.inputs, strict=True))
    assert {x.shape for x in rows.inputs} == {(8, 8)}
    assert {x.shape for x in pixels.inputs} == {(64, 1)}
