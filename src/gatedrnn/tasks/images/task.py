"""Handwritten digits as tasks."""

from typing import TYPE_CHECKING

from gatedrnn.data.registry import Recipe
from gatedrnn.tasks.images.settings import DigitsSettings, MnistSettings
from gatedrnn.tasks.labelled import LabelledTask

if TYPE_CHECKING:
    from gatedrnn.data.task import TaskData


class DigitsTask(LabelledTask[DigitsSettings]):
    """scikit-learn's images of 8 × 8 pixels."""

    settings = DigitsSettings
    recipe = Recipe(
        {
            "contenders": {"hidden_size": 128},
            "model": {"embedding_size": 64, "embedding_dropout": 0.3},
            "train": {"epochs": 40, "batch_size": 32, "learning_rate": 5e-3},
        }
    )

    def read(self, settings: DigitsSettings) -> "TaskData":
        from gatedrnn.tasks.images.read import load_digits

        return load_digits(settings)


class MnistTask(LabelledTask[MnistSettings]):
    """MNIST, pixel by pixel."""

    settings = MnistSettings
    recipe = Recipe(
        {
            "contenders": {"hidden_size": 128},
            "model": {
                "embedding_size": 64, "layers": 3, "block": True, "feed_forward_factor": 1,
                "longest_time_scale": 784.0,
            },
            "train": {"epochs": 7, "batch_size": 16, "learning_rate": 4e-3, "precision": "bfloat16"},
        },
        options={"minlstm": "minlstm:activation=identity", "mingru": "mingru:activation=identity"},
    )  # fmt: skip

    def read(self, settings: MnistSettings) -> "TaskData":
        from gatedrnn.tasks.images.read import load_mnist

        return load_mnist(settings)
