"""The scan as a plain torch loop: the definition that every kernel is tested against."""

import torch
from torch import Tensor

from gatedrnn.ops.steps import over_time
from gatedrnn.shapes import Channels, Flags, Series, State


def scan(
    decay: Series, drive: Series, h0: State, resets: Flags | None, reset_state: Channels | None, reverse: bool
) -> tuple[Series, State]:
    """All states of h_t = decay_t * h_(t-1) + drive_t and the last one walked. Differentiable by autograd."""
    if not drive.shape[1]:
        return torch.zeros_like(drive), h0.clone()
    onset = drive.new_zeros(drive.shape[2]) if reset_state is None else reset_state

    def step(
        state: tuple[Tensor, ...], decay: Tensor, drive: Tensor, reset: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        previous = state[0] if reset is None else torch.where(reset.unsqueeze(1), onset, state[0])
        h = decay * previous + drive
        return h, (h,)

    h, (last,) = over_time(step, (h0,), (decay, drive, resets), reverse)
    return h, last.clone()
