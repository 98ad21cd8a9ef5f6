"""Forecasting as a task."""

from typing import TYPE_CHECKING

from gatedrnn.data.settings import ForecastSettings
from gatedrnn.training.task import Chosen, Recipe, Task

if TYPE_CHECKING:
    from gatedrnn.data.task import TaskData

_RECIPE = Recipe(
    cells={
        "contenders": {"hidden_size": 64},
        "model": {"embedding_size": 64, "head_dropout": 0.1},
        "train": {"total_steps": 200, "batch_size": 64, "learning_rate": 2e-3, "warmup": 0.25, "validate_every": 50},
    },
    beside={"train": {"refit": True, "calibrate": True, "weights": "last"}},
    most_steps=True,
)


class ForecastTask(Task):
    """Series of a table, each forecast from its past."""

    settings = ForecastSettings
    recipe = _RECIPE

    def read(self, settings: ForecastSettings) -> "TaskData":
        from gatedrnn.data.forecast.task import load_forecast

        return load_forecast(settings)

    def chosen(self, data: "TaskData", *, explain: bool = False) -> dict[str, Chosen]:
        from gatedrnn.tasks.forecast.chosen import forecast_recipe, size_for

        return (forecast_recipe if explain else size_for)(data)
