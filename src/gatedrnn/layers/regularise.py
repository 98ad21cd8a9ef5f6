"""What is dropped in training: drawn once a sequence, before time is walked, and the same however it is walked."""

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from gatedrnn.shapes import Series, State

REGULARISERS = ("zoneout", "input_dropout", "state_dropout", "weight_dropout")
"""Rates that draw something once a sequence."""

Keep: TypeAlias = tuple[Tensor | float, ...]  # one per state tensor; bool: the step leaves it as it was; float: in part


class DirectionNoise(NamedTuple):
    """What one layer and direction drops during one sequence; None for nothing.

    Locked dropouts hold 0 or 1/(1-p) and stay the same over time.
    """

    input: Tensor | None = None
    """(batch, features): multiplies the layer's input."""
    state: Tensor | None = None
    """(batch, size): multiplies h_(t-1) where gates read it; in a scan cell, what enters the state."""
    weight: Tensor | None = None
    """Like `weight_hh`, which it multiplies."""
    keep: tuple[Tensor, ...] | None = None
    """Zoneout, one per state tensor: (batch, time, size), or (batch, size) in a step; True leaves the old value."""

    def at(self, t: int) -> "DirectionNoise":
        """The same for step t alone."""
        return self if self.keep is None else self._replace(keep=tuple(k[:, t] for k in self.keep))


NOTHING = DirectionNoise()


class Noise(NamedTuple):
    """What a whole layer drops during one sequence, by layer and direction as states are stacked."""

    directions: tuple[DirectionNoise, ...]

    def at(self, t: int) -> "Noise":
        """What `step` takes for step t."""
        return Noise(tuple(part.at(t) for part in self.directions))


def draw_locked(rate: float, *shape: int, like: Tensor) -> Tensor | None:
    """0 with probability `rate`, else 1/(1-rate), in the dtype and on the device of `like`; None where rate is 0."""
    if not rate:
        return None
    return torch.bernoulli(torch.full(shape, 1 - rate, device=like.device, dtype=like.dtype)) / (1 - rate)


def draw_keep(rate: float, *shape: int, like: Tensor) -> Tensor:
    """True with probability `rate`."""
    return torch.rand(shape, device=like.device) < rate


def zoned(keep: Keep | None, before: tuple[State, ...], after: tuple[State, ...]) -> tuple[State, ...]:
    """Zoneout: the old value where `keep` is True, the new one elsewhere; the mixture where it is a number.

    Krueger et al. 2017 (arXiv:1606.01305).
    """
    if keep is None:
        return after
    return tuple(_mixed(k, b, a) for k, b, a in zip(keep, before, after, strict=True))


def zoned_coefficients(keep: Keep | None, decay: Series, drive: Series) -> tuple[Series, Series]:
    """`zoned` of a scan: h = k h + (1 - k)(a h + b) is a scan again, with k + (1 - k) a and (1 - k) b."""
    if keep is None:
        return decay, drive
    return _mixed(keep[0], torch.ones_like(decay), decay), _mixed(keep[0], torch.zeros_like(drive), drive)


def _mixed(keep: Tensor | float, old: Tensor, new: Tensor) -> Tensor:
    return torch.where(keep, old, new) if isinstance(keep, Tensor) else keep * old + (1 - keep) * new
