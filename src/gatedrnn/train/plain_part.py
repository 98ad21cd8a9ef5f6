"""What the gated network of a model adds to its plain part: a linear path, or smoothers that forecasts begin with."""

from typing import NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from torch.nn.functional import nll_loss

from gatedrnn.data import Examples, Windows
from gatedrnn.models import GatedRNNForForecasting, GatedRNNForSequenceClassification
from gatedrnn.models.linear_path import LinearPath
from gatedrnn.train.evaluate import evaluate
from gatedrnn.train.outcomes import Outcomes, difference_of, of_rows
from gatedrnn.train.result import PlainPart
from gatedrnn.train.sharing import in_turns

TEXTS, SERIES, FORECASTS = (
    "TF-IDF with logistic regression",
    "random convolutions with a linear classifier",
    "smoothers",
)
"""The plain parts."""


class _Losses(NamedTuple):
    """Of a batch, (rows,)."""

    own: np.ndarray
    alone: np.ndarray


def beside_path(
    model: GatedRNNForSequenceClassification, split: str, examples: Examples, accelerator: Accelerator
) -> PlainPart:
    """A classifier beside its linear path, by the log loss of each example of a part that it was not trained on."""
    own, alone = (np.zeros(len(examples)) for _ in range(2))

    @torch.no_grad()
    def score(rows: np.ndarray) -> _Losses:
        batch = {name: tensor.to(accelerator.device) for name, tensor in examples.collate(rows).items()}
        labels = batch.pop("labels")
        both, path = model(**batch).logits.log_softmax(1), model.path_alone(**batch)
        return _Losses(*(nll_loss(one, labels, reduction="none").cpu().numpy() for one in (both, path)))

    batches = list(examples.evaluation_rows())
    was_training = model.training
    model.eval()
    for rows, found in zip(batches, in_turns(accelerator, score, batches), strict=True):
        own[rows], alone[rows] = found
    model.train(was_training)
    ones = np.ones(len(examples))
    name = TEXTS if isinstance(model.linear_path, LinearPath) else SERIES
    return _beside(name, split, "log loss", of_rows(own, ones), of_rows(alone, ones))


def beside_smoothers(
    model: GatedRNNForForecasting, split: str, windows: Windows, accelerator: Accelerator
) -> PlainPart:  # fmt: skip
    """A forecaster beside the smoothers that it begins with, by the scaled errors of a part that it was not trained
    on."""
    shrinkage = model.config.shrinkage
    own = evaluate(model, windows, accelerator).outcomes
    model.config.shrinkage = 1.0
    alone = evaluate(model, windows, accelerator).outcomes
    model.config.shrinkage = shrinkage
    return _beside(FORECASTS, split, "MASE", own, alone)


def _beside(name: str, split: str, metric: str, own: Outcomes, alone: Outcomes) -> PlainPart:
    low, high = difference_of(own, alone)
    return PlainPart(
        name=name, split=split, metric=metric, score=own.rate, alone=alone.rate, low=low, high=high,
        examples=len(own.counts), unit=own.unit,
    )  # fmt: skip
