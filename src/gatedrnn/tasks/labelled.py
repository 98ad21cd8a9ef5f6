"""Sequences with a label, or a number, each or at every step: what such tasks share."""

from typing import TYPE_CHECKING, cast

from gatedrnn.data.registry import Recipe
from gatedrnn.records import Json
from gatedrnn.training.task import Answering, Chosen, Ending, SettingsT, Task

if TYPE_CHECKING:
    from accelerate import Accelerator
    from torch.nn import Module

    from gatedrnn.data import Examples
    from gatedrnn.data.task import Split, TaskData
    from gatedrnn.models import GatedRNNConfig
    from gatedrnn.models.modeling import GatedRNNPreTrainedModel
    from gatedrnn.training.baseline import Baselines
    from gatedrnn.training.metrics import Evaluation
    from gatedrnn.training.objective import Objective
    from gatedrnn.training.settings import RunSettings, TrainSettings


# Methods import what they need: a help page makes tasks, and is to be there without torch.
class LabelledTask(Task[SettingsT]):
    """A task whose data are `gatedrnn.data.Examples`: it has to say how these are read, and may say more."""

    recipe = Recipe()

    def chosen(self, data: "TaskData", *, explain: bool = False) -> dict[str, Chosen]:
        return {}

    def model_class(self, data: "TaskData") -> "type[GatedRNNPreTrainedModel]":
        from gatedrnn.models import GatedRNNForSequenceClassification

        return GatedRNNForSequenceClassification

    def configuration(self, run: "RunSettings", data: "TaskData") -> dict[str, Json]:
        return {}

    def fill(self, model: "GatedRNNPreTrainedModel", run: "RunSettings", data: "TaskData") -> None:
        """Leave the model as it is."""

    def begin(self, model: "GatedRNNPreTrainedModel", run: "RunSettings", data: "TaskData") -> None:
        """Leave the model as it is."""

    def objective(self, data: "TaskData", config: "GatedRNNConfig", train: "TrainSettings") -> "Objective":
        from gatedrnn.training.objective import labelled_objective

        return labelled_objective(data, config, train)

    def evaluate(self, model: "Module", split: "Split", accelerator: "Accelerator") -> "Evaluation":
        from gatedrnn.training.evaluate import evaluate_examples

        return evaluate_examples(model, cast("Examples", split), accelerator)

    def baselines(self, data: "TaskData", threads: int, refits: int | None = None) -> "Baselines":
        from gatedrnn.training.baseline import baselines_of, baselines_of_rows

        return baselines_of(baselines_of_rows(data, threads), data)

    def answering(self) -> type[Answering]:
        from gatedrnn.training.answering import LabelAnswering

        return LabelAnswering

    def ending(self) -> type[Ending]:
        from gatedrnn.tasks.ending import LabelEnding

        return LabelEnding
