"""Tagging of words as a task."""

from typing import TYPE_CHECKING

from gatedrnn.data.registry import Recipe
from gatedrnn.tasks.labelled import LabelledTask
from gatedrnn.tasks.tagging.settings import TaggingSettings

if TYPE_CHECKING:
    from gatedrnn.data.task import TaskData
    from gatedrnn.models.modeling import GatedRNNPreTrainedModel
    from gatedrnn.tasks.tagging.answering import TagAnswering
    from gatedrnn.training.baseline import Baselines


class TaggingTask(LabelledTask[TaggingSettings]):
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
        from gatedrnn.tasks.tagging.read import load_tagging

        return load_tagging(settings)

    def model_class(self, data: "TaskData") -> "type[GatedRNNPreTrainedModel]":
        from gatedrnn.models import GatedRNNForTokenClassification

        return GatedRNNForTokenClassification

    def answering(self) -> "type[TagAnswering]":
        from gatedrnn.tasks.tagging.answering import TagAnswering

        return TagAnswering

    def baselines(self, data: "TaskData", threads: int, refits: int | None = None) -> "Baselines":
        from gatedrnn.tasks.tagging.baselines import tag_baselines
        from gatedrnn.training.baseline import baselines_of

        return baselines_of(tag_baselines(data), data)
