"""The learning rate as a pure function of the step; the plateau rule's state apart."""

import math
from dataclasses import dataclass

from gatedrnn.train.settings import TrainSettings


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
