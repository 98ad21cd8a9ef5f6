"""The plain part of a model: a linear path fitted before the network is trained, and what the network adds to it."""

from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
import torch
from accelerate import Accelerator
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from gatedrnn.data import Examples, TaskData, Windows
from gatedrnn.models import GatedRNNForForecasting, GatedRNNForSequenceClassification
from gatedrnn.models.linear_path import LinearPath
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.models.random_convolutions import ConvolutionPath
from gatedrnn.training.evaluate import evaluate
from gatedrnn.training.outcomes import Outcomes, difference_of, of_rows
from gatedrnn.training.refit import SHRINKAGES, least_with_penalty
from gatedrnn.training.result import Measure, PlainPart
from gatedrnn.training.settings import RunSettings
from gatedrnn.training.sharing import in_turns

PENALTIES = np.logspace(-3, 3, 10)
"""The penalties of the ridge, chosen by leaving one out."""
MAX_ROWS = 5000
"""Series that are fitted, drawn where there are more: memory and time grow with their square."""
_SHARPEST = 16.0
"""Largest factor from a ridge's answers, which are about -1 and 1, to logits: where all are right when left out, no
likelihood bounds it."""
_FLAT = 1e-4
"""A feature that deviates by less over the training series distinguishes them by rounding alone."""


def begin_from_series(model: GatedRNNPreTrainedModel, run: RunSettings, data: TaskData) -> None:
    """Fit the convolutions' path of a model of series, if it has one; a function of the training series and the
    seed alone."""
    path = getattr(model, "linear_path", None)
    if isinstance(path, ConvolutionPath):
        fit_convolution_path(path, cast(Examples, data.train), run.seed)


@torch.no_grad()
def fit_convolution_path(path: ConvolutionPath, examples: Examples, seed: int) -> None:
    """Draw the convolutions, and fit a ridge on their features to the labels: numbers, or -1 or 1 for each class.

    Its penalty is the one under which each series, left out, has the smallest error: a ridge has the answers with each
    row left out in closed form. Those of classes are scaled so that the labels are likeliest.

    Args:
        path: what is fitted.
        examples: of training, with a class or a number each.
        seed: of the run.
    """
    from sklearn.linear_model import RidgeCV
    from sklearn.preprocessing import StandardScaler

    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(examples), generator=generator)[:MAX_ROWS].numpy()
    like = path.weight
    series = [path.scaled(torch.from_numpy(examples.inputs[row])[None], None).float() for row in rows]
    path.convolutions.fit(series, generator)
    labels, features = examples.labels[rows], _features(path, examples, rows)
    scaler = StandardScaler().fit(features)
    deviation = np.where(scaler.scale_ > _FLAT, scaler.scale_, np.inf)
    numbers = examples.are_numbers
    targets = labels[:, None] if numbers else np.where(np.arange(len(like)) == labels[:, None], 1.0, -1.0)
    ridge = RidgeCV(PENALTIES, scoring="neg_mean_squared_error", store_cv_results=True)
    weights = None if examples.weights is None else examples.weights[rows]
    ridge.fit((features - scaler.mean_) / deviation, targets, sample_weight=weights)
    left_out = ridge.cv_results_[..., list(PENALTIES).index(ridge.alpha_)]
    weight = ridge.coef_ / deviation
    factor = 1.0 if numbers else _sharpness(left_out, labels)
    path.weight.copy_(torch.from_numpy(factor * weight))
    path.bias.copy_(torch.from_numpy(factor * (ridge.intercept_ - weight @ scaler.mean_)))


def _features(path: ConvolutionPath, examples: Examples, rows: np.ndarray) -> np.ndarray:
    """(rows, features), float64."""
    read = np.empty((len(rows), path.convolutions.size))
    place = {row: number for number, row in enumerate(rows.tolist())}
    for batch_rows in examples.evaluation_rows():
        chosen = np.array([row for row in batch_rows.tolist() if row in place], dtype=np.int64)
        if len(chosen):
            batch = examples.collate(chosen)
            mask: Tensor | None = batch.get("attention_mask")
            features = path.features(batch["input_values"], None if mask is None else mask.bool())
            read[[place[row] for row in chosen.tolist()]] = features.double().numpy()
    return read


def _sharpness(answers: np.ndarray, labels: np.ndarray) -> float:
    """The factor, at most `_SHARPEST`, by which answers (rows, classes) are the likeliest logits of the labels."""

    def loss(logarithm: float) -> float:
        likelihoods = log_softmax(np.exp(logarithm) * answers, axis=1)
        return -float(likelihoods[np.arange(len(labels)), labels].mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, np.log(_SHARPEST)), method="bounded").x))


TEXTS, SERIES, FORECASTS = (
    "TF-IDF with logistic regression",
    "random convolutions with a linear model",
    "smoothers",
)
"""The plain parts."""


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
    name = TEXTS if isinstance(model.linear_path, LinearPath) else SERIES
    metric: Measure = "mean squared error" if examples.are_numbers else "log loss"
    both = (replace(of_rows(losses, ones), groups=examples.groups) for losses in (whole, alone))
    return _beside(name, split, metric, *both)


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
    name = FORECASTS if model.config.known_regression is None else f"{FORECASTS} with a regression on known columns"
    return _beside(name, split, "MASE", whole, alone)


def _beside(name: str, split: str, metric: Measure, whole: Outcomes, alone: Outcomes) -> PlainPart:
    low, high = difference_of(whole, alone)
    return PlainPart(
        name=name, split=split, metric=metric, score=whole.rate, alone=alone.rate, low=low, high=high,
        examples=len(whole.independent.counts), unit=whole.independent.unit,
    )  # fmt: skip
