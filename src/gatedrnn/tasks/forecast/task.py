"""Forecasting as a task."""

from typing import TYPE_CHECKING, cast

from gatedrnn.data.registry import Recipe
from gatedrnn.records import Json
from gatedrnn.tasks.forecast.settings import ForecastSettings
from gatedrnn.training.task import Chosen, Task

if TYPE_CHECKING:
    from accelerate import Accelerator
    from torch.nn import Module

    from gatedrnn.data import Windows
    from gatedrnn.data.task import Split, TaskData
    from gatedrnn.models import GatedRNNConfig, GatedRNNForForecasting
    from gatedrnn.models.modeling import GatedRNNPreTrainedModel
    from gatedrnn.tasks.forecast.answering import ForecastAnswering
    from gatedrnn.tasks.forecast.ending import ForecastEnding
    from gatedrnn.training.baseline import Baselines
    from gatedrnn.training.metrics import Evaluation
    from gatedrnn.training.objective import Objective
    from gatedrnn.training.settings import RunSettings, TrainSettings

_RECIPE = Recipe(
    cells={
        "contenders": {"hidden_size": 64},
        "model": {"embedding_size": 64, "head_dropout": 0.1},
        "train": {"total_steps": 200, "batch_size": 64, "learning_rate": 2e-3, "warmup": 0.25, "validate_every": 50},
    },
    beside={"train": {"refit": True, "calibrate": True, "weights": "last"}},
    most_steps=True,
)


# Methods import what they need, see LabelledTask.
class ForecastTask(Task[ForecastSettings]):
    """Series of a table, each forecast from its past."""

    settings = ForecastSettings
    recipe = _RECIPE

    def read(self, settings: ForecastSettings) -> "TaskData":
        from gatedrnn.tasks.forecast.read import load_forecast

        return load_forecast(settings)

    def chosen(self, data: "TaskData", *, explain: bool = False) -> dict[str, Chosen]:
        from gatedrnn.tasks.forecast.chosen import forecast_recipe, size_for

        return (forecast_recipe if explain else size_for)(data)

    def model_class(self, data: "TaskData") -> "type[GatedRNNForForecasting]":
        from gatedrnn.models import GatedRNNForForecasting

        return GatedRNNForForecasting

    def configuration(self, run: "RunSettings", data: "TaskData") -> dict[str, Json]:
        from gatedrnn.tasks.forecast.configuration import forecast_fields

        return forecast_fields(run, data)

    def fill(self, model: "GatedRNNPreTrainedModel", run: "RunSettings", data: "TaskData") -> None:
        """Leave the model as it is."""

    def begin(self, model: "GatedRNNPreTrainedModel", run: "RunSettings", data: "TaskData") -> None:
        """Leave the model as it is."""

    def objective(self, data: "TaskData", config: "GatedRNNConfig", train: "TrainSettings") -> "Objective":
        from gatedrnn.tasks.forecast.objective import forecast_objective

        return forecast_objective(data)

    def evaluate(self, model: "Module", split: "Split", accelerator: "Accelerator") -> "Evaluation":
        from gatedrnn.tasks.forecast.scores import evaluate_windows

        return evaluate_windows(cast("GatedRNNForForecasting", model), cast("Windows", split), accelerator)

    def ending(self) -> "type[ForecastEnding]":
        from gatedrnn.tasks.forecast.ending import ForecastEnding

        return ForecastEnding

    def answering(self) -> "type[ForecastAnswering]":
        from gatedrnn.tasks.forecast.answering import ForecastAnswering

        return ForecastAnswering

    def baselines(self, data: "TaskData", threads: int, refits: int | None = None) -> "Baselines":
        from gatedrnn.tasks.forecast.baselines import forecast_baselines

        return forecast_baselines(data, threads, refits)
