"""One step of any cell by its equations, with zoneout: streaming, the step loop and single-step modules share it."""

from typing import TypeAlias

import torch
from torch import Tensor

from gatedrnn.equations import Equations, GappedEquations, Recurrent, split_gates
from gatedrnn.ops.backends import accumulation_dtype
from gatedrnn.shapes import Series, StateTuple

ZoneoutMask: TypeAlias = tuple[Tensor | float, ...]
"""One per state tensor. bool: True leaves the old value; float: the share of the old value, zoneout's expectation."""


def one_step(
    cell: Equations, projected: Tensor, state: StateTuple, recurrent: Recurrent,
    zoneout: ZoneoutMask | None = None, gaps: Tensor | None = None,
) -> StateTuple:  # fmt: skip
    """The next state, in the dtype of the state before, from a step's projections (batch, gates · channels).

    Args:
        gaps: (batch,) or (batch, gap_features), of a cell that takes them; None for 1.
    """
    # Computed in at least float32, as torch's kernels do it, and rounded to the state's dtype at the end of the step.
    wide = accumulation_dtype(projected.dtype)
    gates, before = split_gates(len(cell.projections), projected.to(wide)), tuple(s.to(wide) for s in state)
    if gaps is None:
        after = cell.step(gates, before, recurrent)
    else:
        assert isinstance(cell, GappedEquations)
        over = gaps.unsqueeze(1) if gaps.dim() == 1 else gaps
        after = cell.step_over(over.to(wide), gates, before, recurrent)
    after = zoned(zoneout, before, after)
    return tuple(a.to(s.dtype) for a, s in zip(after, state, strict=True))


def zoned(zoneout: ZoneoutMask | None, before: StateTuple, after: StateTuple) -> StateTuple:
    """Zoneout of a step: Krueger et al. 2017 (arXiv:1606.01305)."""
    if zoneout is None:
        return after
    return tuple(_mixed(mask, b, a) for mask, b, a in zip(zoneout, before, after, strict=True))


def zoned_coefficients(zoneout: ZoneoutMask | None, decay: Series, drive: Series) -> tuple[Series, Series]:
    """Zoneout of a scan: h = k h + (1 - k)(a h + b) is a scan again, with k + (1 - k) a and (1 - k) b."""
    if zoneout is None:
        return decay, drive
    return _mixed(zoneout[0], torch.ones_like(decay), decay), _mixed(zoneout[0], torch.zeros_like(drive), drive)


def _mixed(mask: Tensor | float, old: Tensor, new: Tensor) -> Tensor:
    return torch.where(mask, old, new) if isinstance(mask, Tensor) else mask * old + (1 - mask) * new
