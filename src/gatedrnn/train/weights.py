"""Copies of a model's weights: the best ones, and a moving average."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import torch
from torch import Tensor, nn

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
        self.decay, self.weights = decay, weights_of(model)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """One step of the average."""
        named = dict(model.named_parameters())
        averages = [self.weights[name] for name in named]
        torch._foreach_lerp_(averages, [parameter.detach() for parameter in named.values()], 1 - self.decay)

    @contextmanager
    def in_place(self, model: nn.Module) -> Iterator[None]:
        """The average stands in the model's place within."""
        own = weights_of(model)
        put_into(model, self.weights)
        try:
            yield
        finally:
            put_into(model, own)
