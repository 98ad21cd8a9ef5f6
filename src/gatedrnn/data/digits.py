"""scikit-learn's 1,797 handwritten digits as sequences: real data that comes with a dependency."""

import hashlib

import numpy as np
from sklearn.datasets import load_digits as read_digits
from sklearn.model_selection import train_test_split

from gatedrnn.data.batches import Examples
from gatedrnn.data.settings import DigitsTask
from gatedrnn.data.task import TaskData
from gatedrnn.errors import DataError


def load_digits(settings: DigitsTask) -> TaskData:
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
        name="digits",
        model_inputs={"input_size": images.shape[2], "pad_token_id": None, "unk_token_id": None},
        label_names=tuple(str(name) for name in digits.target_names),
        labelled="sequence",
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
