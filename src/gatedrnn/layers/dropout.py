"""Dropout and zoneout masks of training: drawn once a sequence, so that every execution mode applies the same ones."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from gatedrnn.equations import Equations

REGULARISERS = ("zoneout", "input_dropout", "state_dropout", "weight_dropout")
"""Rates whose masks are drawn once a sequence."""


def regularisers_of(cell: Equations | type[Equations]) -> tuple[str, ...]:
    """Those that a cell takes: it may have no recurrent weights, or states that zoneout would tear apart."""
    refused = set() if cell.multiplies_state else {"weight_dropout"}
    refused |= {"zoneout"} if cell.joint_states else set()
    return tuple(name for name in REGULARISERS if name not in refused)


def why_refused(rates: Mapping[str, float], cells: Mapping[str, Equations | type[Equations]]) -> str | None:
    """Why one of these rates is for none of the cells, given by name; None if each is for some, or 0."""
    for name, rate in rates.items():
        if rate and cells and not any(name in regularisers_of(cell) for cell in cells.values()):
            return f"{name} {_REFUSALS[name].format(cell=', '.join(cells))}; leave it at 0"
    return None


_REFUSALS = {
    "weight_dropout": "drops recurrent weights, and {cell} has none",
    "zoneout": "mixes each state by itself, and those of {cell} belong together",
}


class DirectionMasks(NamedTuple):
    """The masks of one layer and direction for one sequence; None for no dropout.

    A dropout mask holds 0 or 1/(1-p) and is the same at every step.
    """

    input: Tensor | None = None
    """(batch, features): multiplies the layer's input."""
    state: Tensor | None = None
    """(batch, size): multiplies h_(t-1) where gates read it; in a scan cell, the drive."""
    weight: Tensor | None = None
    """Like `weight_hh`, which it multiplies."""
    zoneout: tuple[Tensor, ...] | None = None
    """One per state tensor: (batch, time, size), or (batch, size) for one step; True leaves the old value."""

    def at(self, t: int) -> "DirectionMasks":
        """The masks of step t."""
        return self if self.zoneout is None else self._replace(zoneout=tuple(z[:, t] for z in self.zoneout))


NO_MASKS = DirectionMasks()


class DropoutMasks(NamedTuple):
    """The masks of a whole layer for one sequence."""

    directions: tuple[DirectionMasks, ...]
    """By layer and direction, in the order in which states are stacked."""

    def at(self, t: int) -> "DropoutMasks":
        """The masks of step t, for `step`."""
        return DropoutMasks(tuple(masks.at(t) for masks in self.directions))


def draw_dropout_mask(rate: float, *shape: int, like: Tensor) -> Tensor | None:
    """0 with probability `rate`, else 1/(1-rate), in the dtype and on the device of `like`; None where rate is 0."""
    if not rate:
        return None
    return torch.bernoulli(torch.full(shape, 1 - rate, device=like.device, dtype=like.dtype)) / (1 - rate)


def draw_zoneout_mask(rate: float, *shape: int, like: Tensor) -> Tensor:
    """True with probability `rate`."""
    return torch.rand(shape, device=like.device) < rate
