"""The plain part of a model: a linear path fitted before the network is trained, and what the network adds to it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from gatedrnn.data import Examples
from gatedrnn.models import GatedRNNForSequenceClassification
from gatedrnn.training.outcomes import Outcomes, difference_of, of_rows
from gatedrnn.training.result import Measure, PlainPart
from gatedrnn.training.sharing import in_turns
from gatedrnn.training.task import Trained

SHRINKAGES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Weights of a plain part's answer beside the network's."""
_PENALTY = 0.05
"""A part of the error for each unit of distance from the weight that is expected: models choose by chance too."""
_FEW, _MANY = 1.0, 0.25
"""The weights expected of a model with hardly an example to choose by, and of one with `ENOUGH_EXAMPLES`: on panels of
M1 and M3 a fourth was best or nearly so, whatever a validation part of some hundred series said."""
ENOUGH_EXAMPLES = 100


def least_with_penalty(means: Sequence[float], examples: int) -> int:
    """The index in `SHRINKAGES` of the smallest mean error of so many independent examples, with a penalty on what is
    not expected: few must speak for the network, many against it."""
    expected = _FEW + (_MANY - _FEW) * min(1.0, examples / ENOUGH_EXAMPLES)
    costs = [
        mean * (1 + _PENALTY * abs(shrinkage - expected)) for mean, shrinkage in zip(means, SHRINKAGES, strict=True)
    ]
    return int(np.argmin(costs))


def end_beside_path(trained: Trained) -> PlainPart | None:
    """Choose how far the answer is that of the linear path, where both are numbers; and score the path alone.

    None of a model without such a path, of a trial, or without a part that was held back.
    """
    model, data, split = trained.model, trained.data, trained.unseen_split
    if not isinstance(model, GatedRNNForSequenceClassification) or model.linear_path is None:
        return None
    if model.config.problem_type == "regression" and "validation" in data.evaluation:
        choose_path_share(model, cast(Examples, data.evaluation["validation"]), trained.accelerator)
    if trained.settings.trial or split is None:
        return None
    return beside_path(model, split, cast(Examples, data.evaluation[split]), trained.accelerator)


class _Losses(NamedTuple):
    """The losses of a batch, (rows,)."""

    own: np.ndarray
    alone: np.ndarray


@torch.no_grad()
def choose_path_share(
    model: GatedRNNForSequenceClassification, validation: Examples, accelerator: Accelerator
) -> None:  # fmt: skip
    """Set how far the answer of a model of numbers is that of its linear path, by absolute errors of the validation
    part, as `refit.best_shrinkage` does for forecasts."""
    errors = np.zeros((len(SHRINKAGES), len(validation)))

    def off(rows: np.ndarray) -> np.ndarray:
        batch = {name: tensor.to(accelerator.device) for name, tensor in validation.collate(rows).items()}
        labels = batch.pop("labels")
        both, path = model(**batch).logits[:, 0], model.path_alone(**batch)[:, 0]
        network = (both - model.config.path_share * path) / (1 - model.config.path_share)
        shares = torch.tensor(SHRINKAGES, device=both.device)[:, None]
        return cast(np.ndarray, ((1 - shares) * network + shares * path - labels).abs().cpu().numpy())

    batches = list(validation.evaluation_rows())
    was_training = model.training
    model.eval()
    for rows, of_rows_ in zip(batches, in_turns(accelerator, off, batches), strict=True):
        errors[:, rows] = of_rows_
    model.train(was_training)
    groups = len(validation) if validation.groups is None else len(np.unique(validation.groups))
    model.config.path_share = SHRINKAGES[least_with_penalty(errors.mean(1).tolist(), groups)]


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
    assert model.linear_path is not None
    metric: Measure = "mean squared error" if examples.are_numbers else "log loss"
    both = (replace(of_rows(losses, ones), groups=examples.groups) for losses in (whole, alone))
    return plain_part_of(model.linear_path.title, split, metric, *both)


def _loss(answers: Tensor, labels: Tensor, examples: Examples) -> Tensor:
    """The loss of each row, (rows,): squares in units of the labels' variance, or nats; mean over several labels."""
    if examples.are_numbers:
        return ((answers[:, 0] - labels) / examples.unit).square()
    if examples.several:
        return binary_cross_entropy_with_logits(answers, labels.to(answers.dtype), reduction="none").mean(1)
    return cross_entropy(answers, labels, reduction="none")


def plain_part_of(name: str, split: str, metric: Measure, whole: Outcomes, alone: Outcomes) -> PlainPart:
    """The record of a plain part: a model's outcomes on a split beside those of the part alone."""
    low, high = difference_of(whole, alone)
    return PlainPart(
        name=name, split=split, metric=metric, score=whole.rate, alone=alone.rate, low=low, high=high,
        examples=len(whole.independent.counts), unit=whole.independent.unit,
    )  # fmt: skip
