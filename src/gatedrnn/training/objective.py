"""The loss that a run minimises, and the metric by which its best weights are chosen."""

from pathlib import Path
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss

from gatedrnn.data import Batch, Examples, TaskData
from gatedrnn.errors import DataError
from gatedrnn.models import GatedRNNConfig
from gatedrnn.training.result import Metric
from gatedrnn.training.settings import TrainSettings

_LOWER_IS_BETTER = ("log_loss", "scaled_mae", "perplexity", "mase")
ENOUGH = 50
"""Examples of a validation by which weights are chosen: an accuracy of so many has a standard error of 0.05."""


class Objective(Protocol):
    """A loss over batches, and whatever goes from one batch to the next."""

    metric: Metric
    takes_last: bool
    """Whether the last weights are taken for the best: a validation of a few examples would choose by chance."""

    def count(self, batch: Batch) -> int:
        """Labels in a batch."""
        ...

    def loss(self, model: nn.Module, batch: Batch, items: int) -> Tensor:
        """The sum of the loss over this batch's labels, divided by `items`."""
        ...

    def begin(self) -> None:
        """A new epoch."""
        ...

    def save(self, into: Path, rank: int) -> None:
        """Save what goes from batch to batch into a checkpoint."""
        ...

    def load(self, folder: Path, rank: int, ranks: int) -> None:
        """Load what `save` wrote, whatever the number of processes was."""
        ...


class Stateless:
    """An objective that carries nothing from batch to batch: nothing of it is in a checkpoint."""

    takes_last = False

    def begin(self) -> None:
        pass

    def save(self, into: Path, rank: int) -> None:
        pass

    def load(self, folder: Path, rank: int, ranks: int) -> None:
        pass


class Classification(Stateless):
    """Cross-entropy of labels of sequences or steps.

    Args:
        smoothing: probability mass of each label that is spread over all.
        metric: by which the best weights are chosen.
        weights: of each class in the loss, (classes,); None for equal ones.
        takes_last: as in `Objective`.
    """

    def __init__(
        self, smoothing: float, metric: Metric, weights: Tensor | None = None, takes_last: bool = False
    ) -> None:
        self.smoothing, self.metric, self.weights, self.takes_last = smoothing, metric, weights, takes_last

    def count(self, batch: Batch) -> int:
        return int((batch["labels"] != -100).sum())

    def loss(self, model: nn.Module, batch: Batch, items: int) -> Tensor:
        votes = _votes(model, batch)
        labels = batch["labels"].expand(votes.shape[:-1])
        losses = cross_entropy(
            votes.flatten(0, -2).float(), labels.flatten(), label_smoothing=self.smoothing, reduction=_reduction(batch),
            weight=None if self.weights is None else self.weights.to(votes.device),
        )  # fmt: skip
        return _weighted(losses, votes.shape[:-1], batch) / (items * len(votes))


class SeveralLabels(Stateless):
    """Binary cross-entropy of each label that a row may have, in the mean over labels.

    Args:
        smoothing: probability mass of each label that is spread over having and lacking it.
        metric: by which the best weights are chosen.
        weights: of having each label in the loss, (labels,), beside 1 of lacking it; None for 1.
    """

    def __init__(self, smoothing: float, metric: Metric, weights: Tensor | None = None) -> None:
        self.smoothing, self.metric, self.weights = smoothing, metric, weights

    def count(self, batch: Batch) -> int:
        return batch["labels"].numel()

    def loss(self, model: nn.Module, batch: Batch, items: int) -> Tensor:
        votes = _votes(model, batch)
        labels = (batch["labels"] * (1 - self.smoothing) + self.smoothing / 2).expand(votes.shape)
        losses = binary_cross_entropy_with_logits(
            votes.float(), labels, reduction=_reduction(batch),
            pos_weight=None if self.weights is None else self.weights.to(votes.device),
        )  # fmt: skip
        return _weighted(losses, votes.shape, batch) / (items * len(votes))


class Regression(Stateless):
    """Squared error of one number a sequence, in units of the labels' deviation where it is known."""

    def __init__(self, config: GatedRNNConfig, metric: Metric) -> None:
        self.unit, self.metric = config.label_deviation or 1.0, metric

    def count(self, batch: Batch) -> int:
        return len(batch["labels"])

    def loss(self, model: nn.Module, batch: Batch, items: int) -> Tensor:
        votes = _votes(model, batch)
        off = ((votes[..., 0] - batch["labels"]) / self.unit).float()
        losses = mse_loss(off, torch.zeros_like(off), reduction=_reduction(batch))
        return _weighted(losses, off.shape, batch) / (items * len(votes))


def _votes(model: nn.Module, batch: Batch) -> Tensor:
    """The output of each member, (members, batch, …, labels); without the labels, from which the model would make a
    loss of its own.
    """
    output = model(**{name: tensor for name, tensor in batch.items() if name not in ("labels", "weights")})
    votes: Tensor = output.logits.unsqueeze(0) if output.votes is None else output.votes
    return votes


def _reduction(batch: Batch) -> str:
    return "none" if "weights" in batch else "sum"


def _weighted(losses: Tensor, shape: torch.Size, batch: Batch) -> Tensor:
    """The sum of losses, (members, batch, …), by what each row counts; it is summed where all count alike."""
    if "weights" not in batch:
        return losses
    weights = batch["weights"]
    return (losses.view(shape) * weights.view(1, -1, *[1] * (len(shape) - 2))).sum()


def metric_of(data: TaskData) -> Metric:
    """The score by which the best weights are chosen."""
    name = data.evaluation["validation"].score if "validation" in data.evaluation else data.train.score
    return Metric.model_validate({"name": name, "higher_is_better": name not in _LOWER_IS_BETTER})


def labelled_objective(
    data: TaskData, config: GatedRNNConfig, train: TrainSettings, takes_last: bool = False
) -> Objective:
    """The loss that fits the labels of examples: classes, several labels, or numbers.

    Args:
        takes_last: whether the last weights are taken where labels are classes.

    Raises:
        DataError: classes shall be balanced whose examples are drawn without end.
    """
    metric = metric_of(data)
    if config.problem_type == "regression":
        return Regression(config, metric)
    if config.problem_type == "multi_label_classification":
        balance = None if train.class_weight is None else balancing(data)
        return SeveralLabels(train.label_smoothing, metric, balance)
    weights = None if train.class_weight is None else _balanced(data, config.num_labels)
    return Classification(train.label_smoothing, metric, weights, takes_last)


def _balanced(data: TaskData, classes: int) -> Tensor:
    """Weights of classes that are in inverse proportion to their labels in training, and 1 in the mean over these."""
    if not isinstance(data.train, Examples):
        raise DataError(f"--class-weight: examples of {data.name} are drawn without end, its classes equally often")
    labels = np.asarray(data.train.labels).ravel()
    counts = np.bincount(labels[labels >= 0], minlength=classes)
    return torch.tensor(counts.sum() / (classes * np.maximum(counts, 1)), dtype=torch.float32)


def balancing(data: TaskData) -> Tensor:
    """Weights of having each of several labels, so that all rows that have it weigh as much as all that lack it."""
    labels = cast(Examples, data.train).labels
    having = labels.sum(0)
    return torch.tensor((len(labels) - having) / np.maximum(having, 1), dtype=torch.float32).clamp(min=1 / len(labels))


def rows_of(batch: Batch, rank: int, ranks: int, device: torch.device) -> Batch:
    """The rows of a batch that are this process's share."""
    return {name: tensor[share_of(len(tensor), rank, ranks)].to(device) for name, tensor in batch.items()}


def share_of(rows: int, rank: int, ranks: int) -> slice:
    """The rows, out of so many, that are the share of process `rank` of `ranks`."""
    return slice(rows * rank // ranks, rows * (rank + 1) // ranks)
