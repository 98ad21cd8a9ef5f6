"""Masked steps of a series by torch operations: they leave the state as it was, and their output is 0."""

import torch

from gatedrnn.shapes import Flags, Series


def hold_masked_steps(decay: Series, drive: Series, mask: Flags) -> tuple[Series, Series]:
    """a = 1 and b = 0 at masked steps: the scan carries the state over them unchanged."""
    real = mask.unsqueeze(2)
    return torch.where(real, decay, 1), torch.where(real, drive, 0)


def zero_masked_steps(output: Series, mask: Flags) -> Series:
    """0 at masked steps, whatever the value there was (a NaN too)."""
    return torch.where(mask.unsqueeze(2), output, 0)


def reversed_resets(resets: Flags) -> Flags:
    """The same cuts for a run from the last step to the first: a cut between t-1 and t comes before step t-1."""
    return torch.cat([resets[:, 1:], torch.zeros_like(resets[:, :1])], dim=1)
