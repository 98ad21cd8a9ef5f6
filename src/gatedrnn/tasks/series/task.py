"""Classification and regression of series as tasks."""

from typing import TYPE_CHECKING, Any, cast

from gatedrnn.data.registry import Recipe
from gatedrnn.records import Json
from gatedrnn.tasks.labelled import LabelledTask
from gatedrnn.tasks.series.settings import SeriesRegressionSettings, SeriesSettings
from gatedrnn.training.task import Chosen

if TYPE_CHECKING:
    from gatedrnn.data.task import TaskData
    from gatedrnn.models import GatedRNNConfig
    from gatedrnn.models.modeling import GatedRNNPreTrainedModel
    from gatedrnn.tasks.series.answering import SeriesAnswering
    from gatedrnn.training.baseline import Baselines
    from gatedrnn.training.objective import Objective
    from gatedrnn.training.settings import RunSettings, TrainSettings

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


class SeriesClassificationTask(LabelledTask[SeriesSettings]):
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
        from gatedrnn.tasks.series.read import load_series_task

        return load_series_task(settings)

    def chosen(self, data: "TaskData", *, explain: bool = False) -> dict[str, Chosen]:
        from gatedrnn.tasks.series.chosen import recipe_of_series

        return recipe_of_series(data, self.name)

    def configuration(self, run: "RunSettings", data: "TaskData") -> dict[str, Json]:
        fields: dict[str, Any] = run.model.model_dump(include={"convolution_size", "random_convolutions"})
        if run.model.random_convolutions:
            fields["longest_steps"] = int(cast(Any, data.train).lengths.max())
        return fields

    def begin(self, model: "GatedRNNPreTrainedModel", run: "RunSettings", data: "TaskData") -> None:
        from gatedrnn.tasks.series.parts import begin_from_series

        begin_from_series(model, run, data)

    def objective(self, data: "TaskData", config: "GatedRNNConfig", train: "TrainSettings") -> "Objective":
        from gatedrnn.training.objective import ENOUGH, labelled_objective

        # Files of series are often small, and a validation of a few of them would choose by chance.
        few = "validation" in data.evaluation and len(cast(Any, data.evaluation["validation"])) < ENOUGH
        return labelled_objective(data, config, train, few)

    def answering(self) -> "type[SeriesAnswering]":
        from gatedrnn.tasks.series.answering import SeriesAnswering

        return SeriesAnswering

    def baselines(self, data: "TaskData", threads: int, refits: int | None = None) -> "Baselines":
        from gatedrnn.tasks.series.baselines import series_baselines
        from gatedrnn.training.baseline import baselines_of

        return baselines_of(series_baselines(data, threads), data)


class SeriesRegressionTask(SeriesClassificationTask):
    """Series with a number each."""

    settings = SeriesRegressionSettings
    recipe = Recipe(
        _CELLS,
        {"model": _BESIDE, "train": {"total_steps": 500, "validate_every": 0, "weights": "last"}},
        most_steps=True,
    )
