"""Language modelling as a task."""

from typing import TYPE_CHECKING

from gatedrnn.data.settings import LanguageSettings
from gatedrnn.training.task import Recipe, Task

if TYPE_CHECKING:
    from gatedrnn.data.task import TaskData


class LanguageTask(Task):
    """Running text, each token predicted from those before it."""

    settings = LanguageSettings
    recipe = Recipe(
        {
            "contenders": {"hidden_size": 256},
            "data": {
                "tokenizer": "characters", "min_count": 1, "length": 128, "validation_fraction": 0.05,
                "test_fraction": 0.05,
            },
            "model": {"layers": 3, "embedding_size": 128, "block": True, "dropout": 0.1},
            "train": {"epochs": 8, "batch_size": 16, "learning_rate": 4e-3, "clip": 1.0},
        }
    )  # fmt: skip

    def read(self, settings: LanguageSettings) -> "TaskData":
        from gatedrnn.data.language import load_language_model

        return load_language_model(settings)
