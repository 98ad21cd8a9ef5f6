"""The learning rate as a pure function of the step, the plateau rule, averaged weights, and numbers next to zero."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from gatedrnn.training.settings import TrainSettings


def learning_rate_at(step: int, total: int, settings: TrainSettings) -> float:
    """The rate of step `step` (from 0) of `total`, before the plateau rule."""
    warmup = round(settings.warmup * total)
    if step < warmup:
        return settings.learning_rate * (step + 1) / warmup
    done = (step - warmup) / max(1, total - warmup)
    if settings.schedule == "cosine":
        return settings.learning_rate * (1 + math.cos(math.pi * done)) / 2
    if settings.schedule == "linear":
        return settings.learning_rate * (1 - done)
    return settings.learning_rate


@dataclass
class Plateau:
    """Halves the rate after more than `patience` evaluations in a row without a lower validation loss."""

    patience: int
    best: float = math.inf
    waited: int = 0
    factor: float = 1.0

    def update(self, validation_loss: float) -> None:
        if validation_loss < self.best:
            self.best, self.waited = validation_loss, 0
            return
        self.waited += 1
        if self.waited > self.patience:
            self.factor, self.waited = self.factor / 2, 0


@contextmanager
def denormals_as_zero() -> Iterator[None]:
    """Take numbers below 1e-38 for zero inside, in this thread.

    A gradient that shrinks on its way to the first of many steps falls below, where it changes nothing any more, and an
    operation on it takes many times as long on some processors.
    """
    least = float(torch.finfo(torch.float64).tiny)
    were_zero = least / 2 == 0.0  # torch has no function that says so
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(were_zero)


Weights: TypeAlias = dict[str, Tensor]
"""Parameters by name; one that has two names, once."""


def weights_of(model: nn.Module) -> Weights:
    """A copy of all parameters."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@torch.no_grad()
def put_into(model: nn.Module, weights: Weights) -> None:
    """Write a copy back."""
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


class MovingAverage:
    """w <- decay · w + (1 - decay) · weights, after every step; it begins with the first weights."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.weights, self._update = weights_of(model), get_ema_multi_avg_fn(decay)

    def update(self, model: nn.Module) -> None:
        """One step of the average."""
        named = dict(model.named_parameters())
        averages = [self.weights[name] for name in named]
        self._update(averages, [parameter.detach() for parameter in named.values()], None)

    @contextmanager
    def in_place(self, model: nn.Module) -> Iterator[None]:
        """The average stands in the model's place within."""
        trained = weights_of(model)
        put_into(model, self.weights)
        try:
            yield
        finally:
            put_into(model, trained)
