"""The contribution of a model's gated network beside its plain part: a linear path, or smoothers that forecasts begin
with.
"""

from typing import NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from gatedrnn.data import Examples, Windows
from gatedrnn.models import GatedRNNForForecasting, GatedRNNForSequenceClassification
from gatedrnn.models.linear_path import LinearPath
from gatedrnn.training.evaluate import evaluate
from gatedrnn.training.outcomes import Outcomes, difference_of, of_rows
from gatedrnn.training.result import Measure, PlainPart
from gatedrnn.training.sharing import in_turns

TEXTS, SERIES, FORECASTS = (
    "TF-IDF with logistic regression",
    "random convolutions with a linear classifier",
    "smoothers",
)
"""The plain parts."""


class _Losses(NamedTuple):
    """The losses of a batch, (rows,)."""

    own: np.ndarray
    alone: np.ndarray


def beside_path(
    model: GatedRNNForSequenceClassification, split: str, examples: Examples, accelerator: Accelerator
) -> PlainPart:
    """A model of sequences beside its linear path, by the loss of each example of a part that it was not trained on."""
    whole, alone = (np.zeros(len(examples)) for _ in range(2))

    @torch.no_grad()
    def score(rows: np.ndarray) -> _Losses:
        batch = {name: tensor.to(accelerator.device) for name, tensor in examples.collate(rows).items()}
        labels = batch.pop("labels")
        both, path = model(**batch).logits, model.path_alone(**batch)
        return _Losses(*(_loss(answers, labels, examples).cpu().numpy() for answers in (both, path)))

    batches = list(examples.evaluation_rows())
    was_training = model.training
    model.eval()
    for rows, losses in zip(batches, in_turns(accelerator, score, batches), strict=True):
        whole[rows], alone[rows] = losses
    model.train(was_training)
    ones = np.ones(len(examples))
    name = TEXTS if isinstance(model.linear_path, LinearPath) else SERIES
    metric: Measure = "mean squared error" if examples.are_numbers else "log loss"
    return _beside(name, split, metric, of_rows(whole, ones), of_rows(alone, ones))


def _loss(answers: Tensor, labels: Tensor, examples: Examples) -> Tensor:
    """The loss of each row, (rows,): squares in units of the labels' variance, or nats; mean over several labels."""
    if examples.are_numbers:
        return ((answers[:, 0] - labels) / examples.unit).square()
    if examples.several:
        return binary_cross_entropy_with_logits(answers, labels.to(answers.dtype), reduction="none").mean(1)
    return cross_entropy(answers, labels, reduction="none")


def beside_smoothers(
    model: GatedRNNForForecasting, split: str, windows: Windows, accelerator: Accelerator
) -> PlainPart:  # fmt: skip
    """A forecaster beside the smoothers that it begins with, by the scaled errors of a part that it was not trained
    on."""
    shrinkage = model.config.shrinkage
    whole = evaluate(model, windows, accelerator).outcomes
    model.config.shrinkage = 1.0
    alone = evaluate(model, windows, accelerator).outcomes
    model.config.shrinkage = shrinkage
    return _beside(FORECASTS, split, "MASE", whole, alone)


def _beside(name: str, split: str, metric: Measure, whole: Outcomes, alone: Outcomes) -> PlainPart:
    low, high = difference_of(whole, alone)
    return PlainPart(
        name=name, split=split, metric=metric, score=whole.rate, alone=alone.rate, low=low, high=high,
        examples=len(whole.counts), unit=whole.unit,
    )  # fmt: skip
