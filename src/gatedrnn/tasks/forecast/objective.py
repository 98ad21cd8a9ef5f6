"""The loss of a forecaster's training."""

from typing import cast

from torch import Tensor, nn

from gatedrnn.data import Batch, TaskData, Windows
from gatedrnn.training.objective import ENOUGH, Stateless, metric_of
from gatedrnn.training.result import Metric


class Quantiles(Stateless):
    """Pinball loss of the quantiles of every forecast of a window; windows count alike, whatever labels are missing."""

    def __init__(self, origins: int, metric: Metric, takes_last: bool) -> None:
        self.origins, self.metric, self.takes_last = origins, metric, takes_last

    def count(self, batch: Batch) -> int:
        return len(batch["labels"])

    def loss(self, model: nn.Module, batch: Batch, items: int) -> Tensor:
        return model(**batch, origins=self.origins, skip_quantiles=True).loss * (len(batch["labels"]) / items)


def forecast_objective(data: TaskData) -> Quantiles:
    """The loss of a task of forecasts; of a few windows of validation the last weights are taken."""
    validation = cast(Windows | None, data.evaluation.get("validation"))
    few = validation is not None and len(validation) < ENOUGH
    return Quantiles(cast(Windows, data.train).origins, metric_of(data), few)
