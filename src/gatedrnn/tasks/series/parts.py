"""The part of a model of series that its training series decide: the ridge on random convolutions."""

from typing import cast

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from torch import Tensor

from gatedrnn.data import Examples, TaskData
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.models.random_convolutions import ConvolutionPath
from gatedrnn.training.settings import RunSettings

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
