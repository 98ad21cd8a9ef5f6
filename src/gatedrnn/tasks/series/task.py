"""Classification and regression of series as tasks."""

from typing import TYPE_CHECKING

from gatedrnn.data.settings import SeriesRegressionSettings, SeriesSettings
from gatedrnn.records import Json
from gatedrnn.training.task import Chosen, Recipe, Task

if TYPE_CHECKING:
    from gatedrnn.data.task import TaskData

_CELLS: dict[str, dict[str, Json]] = {
    "contenders": {"hidden_size": 64},
    "model": {
        "embedding_size": 64, "layers": 2, "bidirectional": True, "pooling": "mean", "embedding_dropout": 0.1,
        "dropout": 0.1, "head_dropout": 0.1,
    },
    "train": {"total_steps": 1000, "batch_size": 16, "learning_rate": 3e-3, "validate_every": 50},
}  # fmt: skip
_BESIDE: dict[str, Json] = {
    "random_convolutions": 10_000, "convolution_size": 64, "embedding_size": 0, "embedding_dropout": 0.0, "layers": 1,
    "dropout": 0.0, "head_dropout": 0.2,
}  # fmt: skip


class SeriesClassificationTask(Task):
    """Series with a class each."""

    settings = SeriesSettings
    recipe = Recipe(
        _CELLS,
        {
            "data": {"validation_fraction": 0.0},
            "model": _BESIDE,
            "train": {"total_steps": 500, "label_smoothing": 0.1, "validate_every": 0},
        },
        most_steps=True,
    )

    def read(self, settings: SeriesSettings) -> "TaskData":
        from gatedrnn.data.series.task import load_series_task

        return load_series_task(settings)

    def chosen(self, data: "TaskData", *, explain: bool = False) -> dict[str, Chosen]:
        from gatedrnn.tasks.series.chosen import recipe_of_series

        return recipe_of_series(data, self)


class SeriesRegressionTask(SeriesClassificationTask):
    """Series with a number each."""

    settings = SeriesRegressionSettings
    recipe = Recipe(
        _CELLS,
        {"model": _BESIDE, "train": {"total_steps": 500, "validate_every": 0, "weights": "last"}},
        most_steps=True,
    )
