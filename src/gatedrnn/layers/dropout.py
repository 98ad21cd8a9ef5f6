"""Dropout and zoneout masks of training: drawn once a sequence, so that every execution mode applies the same ones."""

from typing import NamedTuple

import torch
from torch import Tensor


class DirectionMasks(NamedTuple):
    """The masks of one layer and direction for one sequence; None for no dropout.

    A dropout mask holds 0 or 1/(1-p) and is the same at every step.
    """

    input: Tensor | None = None
    """(batch, features): multiplies the layer's input."""
    state: Tensor | None = None
    """(batch, size): multiplies h_(t-1) where gates read it; in a scan cell, the drive."""
    weight: Tensor | None = None
    """The shape is that of `weight_hh`, which it multiplies."""
    zoneout: tuple[Tensor, ...] | None = None
    """One per state tensor: (batch, time, size), or (batch, size) for one step; True leaves the old value."""

    def at(self, t: int) -> "DirectionMasks":
        """Return the masks of step t."""
        return self if self.zoneout is None else self._replace(zoneout=tuple(z[:, t] for z in self.zoneout))

    def over_time(self) -> "DirectionMasks":
        """Add an axis of time to the masks of one step."""
        return self if self.zoneout is None else self._replace(zoneout=tuple(z.unsqueeze(1) for z in self.zoneout))


NO_MASKS = DirectionMasks()


class DropoutMasks(NamedTuple):
    """The masks of a whole layer for one sequence."""

    directions: tuple[DirectionMasks, ...]
    """The masks by layer and direction, in the order of stacked states."""

    def at(self, t: int) -> "DropoutMasks":
        """Return the masks of step t, for `step`."""
        return DropoutMasks(tuple(masks.at(t) for masks in self.directions))

    def over_time(self) -> "DropoutMasks":
        """Add an axis of time to the masks of one step."""
        return DropoutMasks(tuple(masks.over_time() for masks in self.directions))


def draw_dropout_mask(rate: float, *shape: int, like: Tensor) -> Tensor | None:
    """Draw 0 with probability `rate`, else 1/(1-rate), in the dtype and on the device of `like`; None if rate is 0."""
    if not rate:
        return None
    # Inverted dropout: scaled in training, so that evaluation needs no factor.
    return torch.bernoulli(torch.full(shape, 1 - rate, device=like.device, dtype=like.dtype)) / (1 - rate)


def draw_zoneout_mask(rate: float, *shape: int, like: Tensor) -> Tensor:
    """Draw True with probability `rate`."""
    return torch.rand(shape, device=like.device) < rate
