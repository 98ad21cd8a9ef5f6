"""The scan as a plain torch loop: the definition that every kernel is tested against."""

import torch

from gatedrnn.shapes import Channels, Flags, Series, State


def scan(
    decay: Series, drive: Series, h0: State, resets: Flags | None, reset_state: Channels | None, reverse: bool
) -> tuple[Series, State]:
    """All states of h_t = decay_t * h_(t-1) + drive_t and the last one walked. Differentiable by autograd."""
    steps = drive.shape[1]
    if reset_state is None:
        reset_state = drive.new_zeros(drive.shape[2])
    state, states = h0, []
    for t in reversed(range(steps)) if reverse else range(steps):
        previous = state if resets is None else torch.where(resets[:, t, None], reset_state, state)
        state = decay[:, t] * previous + drive[:, t]
        states.append(state)
    if not states:
        return torch.zeros_like(drive), h0.clone()
    return torch.stack(states[::-1] if reverse else states, dim=1), state.clone()
