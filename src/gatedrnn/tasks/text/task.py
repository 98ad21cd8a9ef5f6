"""Classification and regression of texts as tasks."""

from typing import TYPE_CHECKING

from gatedrnn.data.registry import Recipe
from gatedrnn.records import Json
from gatedrnn.tasks.labelled import LabelledTask
from gatedrnn.tasks.text.settings import TextRegressionSettings, TextSettings
from gatedrnn.training.task import Chosen, SettingsT

if TYPE_CHECKING:
    from gatedrnn.data.task import TaskData
    from gatedrnn.models.modeling import GatedRNNPreTrainedModel
    from gatedrnn.training.baseline import Baselines
    from gatedrnn.training.settings import RunSettings

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


class _TextTask(LabelledTask[SettingsT]):
    """Texts with labels."""

    def configuration(self, run: "RunSettings", data: "TaskData") -> dict[str, Json]:
        from gatedrnn.tasks.text.parts import text_fields

        return text_fields(run, data)

    def fill(self, model: "GatedRNNPreTrainedModel", run: "RunSettings", data: "TaskData") -> None:
        from gatedrnn.tasks.text.parts import fill_tables

        fill_tables(model, run, data)

    def begin(self, model: "GatedRNNPreTrainedModel", run: "RunSettings", data: "TaskData") -> None:
        from gatedrnn.tasks.text.parts import begin_from_texts

        begin_from_texts(model, run, data)

    def baselines(self, data: "TaskData", threads: int, refits: int | None = None) -> "Baselines":
        from gatedrnn.tasks.text.baselines import text_baselines
        from gatedrnn.training.baseline import baselines_of

        return baselines_of(text_baselines(data), data)


class TextClassificationTask(_TextTask[TextSettings]):
    """Texts with a class each, or with any number of labels."""

    settings = TextSettings
    recipe = Recipe(_CELLS, _BESIDE, most_steps=True)

    def read(self, settings: TextSettings) -> "TaskData":
        from gatedrnn.tasks.text.read import load_text_classification

        return load_text_classification(settings)

    def chosen(self, data: "TaskData", *, explain: bool = False) -> dict[str, Chosen]:
        from gatedrnn.tasks.text.chosen import recipe_of_texts

        return recipe_of_texts(data)


class TextRegressionTask(_TextTask[TextRegressionSettings]):
    """Texts with a number each."""

    settings = TextRegressionSettings
    recipe = Recipe({**_CELLS, "train": _TRAIN | {"label_smoothing": 0.0}}, _BESIDE, most_steps=True)

    def read(self, settings: TextRegressionSettings) -> "TaskData":
        from gatedrnn.tasks.text.read import load_text_regression

        return load_text_regression(settings)

    def chosen(self, data: "TaskData", *, explain: bool = False) -> dict[str, Chosen]:
        from gatedrnn.tasks.text.chosen import recipe_of_texts

        return recipe_of_texts(data)


class AgNewsTask(_TextTask[TextSettings]):
    """AG News: short news in four classes."""

    settings = TextSettings

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
        from gatedrnn.tasks.text.read import load_ag_news

        return load_ag_news(settings)
