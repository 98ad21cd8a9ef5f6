"""Classification and regression of texts as tasks."""

from typing import TYPE_CHECKING, ClassVar

from gatedrnn.data.settings import TextFileSettings, TextRegressionSettings, TextSettings
from gatedrnn.records import Json
from gatedrnn.training.task import Chosen, Recipe, Task

if TYPE_CHECKING:
    from gatedrnn.data.task import TaskData

_TRAIN: dict[str, Json] = {
    "epochs": 8, "batch_size": 64, "learning_rate": 3e-3, "schedule": "cosine", "warmup": 0.1,
    "label_smoothing": 0.1, "weights": "last",
}  # fmt: skip
_CELLS: dict[str, dict[str, Json]] = {
    "contenders": {"hidden_size": 64},
    "data": {"tokenizer": "pieces", "min_count": 1, "max_tokens": 2048},
    "model": {
        "embedding_size": 128, "bidirectional": True, "pooling": "last-mean-max", "character_grams": 50_000,
        "word_vectors": True, "token_dropout": 0.2, "embedding_dropout": 0.5, "locked_dropout": True,
        "head_dropout": 0.5,
    },
    "train": _TRAIN,
}  # fmt: skip
_BESIDE: dict[str, dict[str, Json]] = {"data": {"validation_fraction": 0.0}, "model": {"linear_path": True}}


class TextClassificationTask(Task):
    """Texts with a class each, or with any number of labels."""

    settings: ClassVar[type[TextFileSettings]] = TextSettings
    recipe = Recipe(_CELLS, _BESIDE, most_steps=True)

    def read(self, settings: TextSettings) -> "TaskData":
        from gatedrnn.data.text import load_text_classification

        return load_text_classification(settings)

    def chosen(self, data: "TaskData", *, explain: bool = False) -> dict[str, Chosen]:
        from gatedrnn.tasks.text.chosen import recipe_of_texts

        return recipe_of_texts(data)


class TextRegressionTask(TextClassificationTask):
    """Texts with a number each."""

    settings = TextRegressionSettings
    recipe = Recipe({**_CELLS, "train": _TRAIN | {"label_smoothing": 0.0}}, _BESIDE, most_steps=True)

    def read(self, settings: TextRegressionSettings) -> "TaskData":  # type: ignore[override]
        from gatedrnn.data.text import load_text_regression

        return load_text_regression(settings)


class AgNewsTask(TextClassificationTask):
    """AG News: short news in four classes."""

    recipe = Recipe(
        {
            "contenders": {"hidden_size": 128},
            "data": {"tokenizer": "words", "min_count": 3, "max_tokens": 128, "validation_fraction": 0.05},
            "model": {
                "embedding_size": 128, "pooling": "max", "token_dropout": 0.25, "embedding_dropout": 0.5,
                "head_dropout": 0.4,
            },
            "train": {
                "epochs": 4, "batch_size": 64, "learning_rate": 3e-3, "schedule": "linear", "label_smoothing": 0.05,
            },
        }
    )  # fmt: skip

    def read(self, settings: TextSettings) -> "TaskData":
        from gatedrnn.data.text import load_ag_news

        return load_ag_news(settings)

    def chosen(self, data: "TaskData", *, explain: bool = False) -> dict[str, Chosen]:
        return {}
