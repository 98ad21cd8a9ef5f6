"""Handwritten digits as sequences: scikit-learn's 1,797, which come with a dependency, and MNIST's from their files."""

import hashlib
import math
import zlib
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits as read_digits
from sklearn.model_selection import train_test_split

from gatedrnn.data.batches import Examples
from gatedrnn.data.task import TaskData
from gatedrnn.errors import DataError
from gatedrnn.tasks.images.settings import DigitsSettings, MnistSettings
from gatedrnn.unpacking import BoundedGzip


def load_digits(settings: DigitsSettings) -> TaskData:
    """8 x 8 images read row by row (8 steps of 8 features) or pixel by pixel (64 steps of 1), split by class."""
    digits = read_digits()
    images = (digits.images / 16).astype(np.float32).reshape(len(digits.target), settings.steps, -1)
    rows = np.arange(len(images))
    try:
        rest, test = train_test_split(
            rows, test_size=settings.test_fraction, random_state=settings.split_seed, stratify=digits.target
        )
        train, validation = train_test_split(
            rest, test_size=settings.validation_fraction, random_state=settings.split_seed, stratify=digits.target[rest]
        )
    except ValueError as error:
        raise DataError(f"digits: cannot be split at these fractions: {error}") from error

    def examples(chosen: np.ndarray) -> Examples:
        return Examples(list(images[chosen]), digits.target[chosen].astype(np.int64))

    return TaskData(
        name=settings.task,
        model_inputs={"input_size": images.shape[2], "pad_token_id": None, "unk_token_id": None},
        label_names=tuple(str(name) for name in digits.target_names),
        train=examples(train),
        evaluation={"validation": examples(validation), "test": examples(test)},
        sources=[
            {"name": "sklearn digits", "rows": len(rows), "sha256": hashlib.sha256(digits.data.tobytes()).hexdigest()}
        ],
        notes=[
            f"{len(train)} training, {len(validation)} validation and {len(test)} test images,"
            f" each as {settings.steps} steps of {images.shape[2]}."
        ],
    )


IMAGES, LABELS = b"\x00\x00\x08\x03", b"\x00\x00\x08\x01"
"""The first bytes of the original files: unsigned bytes in three dimensions, or in one; then the size of each,
big-endian."""


def load_mnist(settings: MnistSettings) -> TaskData:
    """28 x 28 images as 784 steps of one number in [0, 1]; a part of the training images is set apart.

    Raises:
        DataError: a file is missing, or not what it should be.
    """
    if settings.train_file is None or settings.test_file is None:
        raise DataError(
            "mnist: --train-file and --test-file: give the original train-images-idx3-ubyte(.gz) and "
            "t10k-images-idx3-ubyte(.gz), with their files of labels in the same folder"
        )
    images, digits = _read(settings.train_file)
    test_images, test_digits = _read(settings.test_file)
    order = np.arange(images.shape[1])
    if settings.permuted:
        order = np.random.default_rng(settings.split_seed).permutation(order)
    try:
        train, validation = train_test_split(
            np.arange(len(images)), test_size=settings.validation_fraction, random_state=settings.split_seed,
            stratify=digits,
        )  # fmt: skip
    except ValueError as error:
        raise DataError(f"mnist: cannot be split at this fraction: {error}") from error

    def examples(images: np.ndarray, digits: np.ndarray) -> Examples:
        sequences = images[:, order, None].astype(np.float32) / np.float32(255)
        return Examples(list(sequences), digits.astype(np.int64))

    return TaskData(
        name=settings.task,
        model_inputs={"input_size": 1, "pad_token_id": None, "unk_token_id": None},
        label_names=tuple(str(digit) for digit in range(10)),
        train=examples(images[train], digits[train]),
        evaluation={
            "validation": examples(images[validation], digits[validation]),
            "test": examples(test_images, test_digits),
        },
        sources=[
            {"name": path.name, "rows": rows, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
            for file, rows in ((settings.train_file, len(images)), (settings.test_file, len(test_images)))
            for path in (file, _labels_beside(file))
        ],
        notes=[
            f"{len(train)} training, {len(validation)} validation and {len(test_images)} test images, each as "
            f"{len(order)} steps of one pixel"
            + (f", in an order drawn from seed {settings.split_seed}." if settings.permuted else ".")
        ],
    )


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images (rows, pixels) and their digits."""
    beside = _labels_beside(path)
    images, digits = _unpacked(path, IMAGES), _unpacked(beside, LABELS)
    if len(images) != len(digits) or not len(images):
        raise DataError(f"{path}: {len(images)} images, and {len(digits)} labels in {beside.name}")
    if digits.max() > 9:
        raise DataError(f"{beside}: has the label {digits.max()}; MNIST's are digits")
    return images.reshape(len(images), -1), digits


def _labels_beside(path: Path) -> Path:
    beside = path.with_name(path.name.replace("images-idx3", "labels-idx1"))
    if beside == path:
        raise DataError(f"{path}: expected a file of images, named …-images-idx3-ubyte or …-images-idx3-ubyte.gz")
    return beside


def _unpacked(path: Path, begins: bytes) -> np.ndarray:
    try:
        with BoundedGzip(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    dimensions = begins[3]
    start = 4 + 4 * dimensions
    if len(content) < start or content[:4] != begins:
        raise DataError(f"{path}: not an MNIST file, or not a whole one")
    shape = np.frombuffer(content[4:start], ">u4")
    if len(content) - start != math.prod(map(int, shape)):  # NumPy's would wrap around
        raise DataError(f"{path}: not an MNIST file, or not a whole one")
    return np.frombuffer(content, np.uint8, offset=start).reshape(tuple(int(size) for size in shape))
