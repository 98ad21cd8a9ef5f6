"""Sequences of unequal length inside one rectangle: masks and resets."""

import torch

from gatedrnn.shapes import Flags, Series


def hold_masked_steps(decay: Series, drive: Series, mask: Flags) -> tuple[Series, Series]:
    """a = 1 and b = 0 where a step is not real: the scan carries the state over it unchanged."""
    real = mask.unsqueeze(2)
    return torch.where(real, decay, 1), torch.where(real, drive, 0)


def zero_masked_steps(output: Series, mask: Flags) -> Series:
    """0 where a step is not real, whatever stood there (a NaN too)."""
    return torch.where(mask.unsqueeze(2), output, 0)


def reversed_resets(resets: Flags) -> Flags:
    """The same cuts, met from the other side: between t-1 and t, now before step t-1 of a walk backwards."""
    return torch.cat([resets[:, 1:], torch.zeros_like(resets[:, :1])], dim=1)


def left_aligned(mask: Flags) -> torch.Tensor | None:
    """For each row the order of steps that puts the real ones first, (B, T); None if they are first already."""
    if not bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        return None
    return torch.argsort((~mask).to(torch.uint8), dim=1, stable=True)


def reorder(series: Series, order: torch.Tensor) -> Series:
    """Each row's steps in the given order."""
    return torch.take_along_dim(series, order.unsqueeze(2), dim=1)
