"""Tagging of words as a task."""

from typing import TYPE_CHECKING

from gatedrnn.data.settings import TaggingSettings
from gatedrnn.training.task import Recipe, Task

if TYPE_CHECKING:
    from gatedrnn.data.task import TaskData


class TaggingTask(Task):
    """Texts as lists of words, with a tag for each word."""

    settings = TaggingSettings
    recipe = Recipe(
        {
            "contenders": {"hidden_size": 128},
            "data": {"tokenizer": "tokens", "max_tokens": 0},
            "model": {
                "embedding_size": 128, "bidirectional": True, "token_dropout": 0.1, "embedding_dropout": 0.3,
                "head_dropout": 0.3,
            },
            "train": {"epochs": 12, "batch_size": 16, "learning_rate": 3e-3, "schedule": "linear"},
        }
    )  # fmt: skip

    def read(self, settings: TaggingSettings) -> "TaskData":
        from gatedrnn.data.text import load_tagging

        return load_tagging(settings)
