"""Settings of images of digits."""

from pathlib import Path

from pydantic import Field, field_validator

from gatedrnn.data.settings import Seed, TaskSettings


class DigitsSettings(TaskSettings):
    """scikit-learn's handwritten digits."""

    expert = ("validation_fraction", "test_fraction", "split_seed")

    steps: int = 8
    """8 steps of 8 features, or 64 steps of 1."""
    validation_fraction: float = Field(0.1, gt=0, lt=1)
    """Fraction of the training images used for validation."""
    test_fraction: float = Field(0.2, gt=0, lt=1)
    """Fraction of all images used for the test."""
    split_seed: Seed = 0
    """Seed of those splits."""

    @field_validator("steps")
    @classmethod
    def _rows_or_pixels(cls, steps: int) -> int:
        if steps not in (8, 64):
            raise ValueError("must be 8 (rows) or 64 (pixels)")
        return steps


class MnistSettings(TaskSettings):
    """MNIST, pixel by pixel, from its original files."""

    expert = ("validation_fraction", "split_seed")

    train_file: Path | None = None
    """The original file of training images, with the file of their labels in the same folder."""
    test_file: Path | None = None
    """The original file of test images, likewise."""
    permuted: bool = False
    """Permute the pixels: one random order for all images."""
    validation_fraction: float = Field(0.1, gt=0, lt=1)
    """Fraction of the training images used for validation."""
    split_seed: Seed = 0
    """Seed of that split and of the permutation."""
