"""The end of a language model's run, after its training."""

from pathlib import Path

from gatedrnn.training.sample import write_samples
from gatedrnn.training.task import Ending


class TextEnding(Ending):
    """The model begins texts of its own, which the page shows."""

    @staticmethod
    def write(path: Path) -> None:
        write_samples(path)
