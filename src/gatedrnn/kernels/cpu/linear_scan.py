"""The bare scan h_t = a_t * h_(t-1) + b_t and its gradient."""

import torch

from gatedrnn.codegen.elementwise import bare_scan
from gatedrnn.kernels.cpu import scan as gated
from gatedrnn.shapes import Channels, Flags, Series, State


def scan(
    decay: Series, drive: Series, h0: State | None, resets: Flags | None, reset_state: Channels | None, reverse: bool
) -> tuple[Series, State]:
    """All states, in the dtype of `drive`, and the last one, in the dtype of accumulation."""
    return gated.scan(bare_scan(), (decay, drive), None, h0, None, resets, reset_state, reverse)


def scan_gradient(
    grad_h: Series, grad_last: State, decay: Series, h: Series, h0: State | None,
    resets: Flags | None, reset_state: Channels | None, reverse: bool,
) -> tuple[Series, Series, State, Channels]:  # fmt: skip
    """Gradients of decay, drive, h0 and reset_state, in one backward pass."""
    gradients = [torch.empty(h.shape, dtype=gated.written(h.dtype)) for _ in range(2)]
    # The backward does not read the drive.
    _, grad_h0, grad_reset_state = gated.scan_gradient(
        bare_scan(), grad_h, grad_last, (decay, decay), None, h, h0, None, resets, reset_state, reverse, gradients
    )
    return gradients[0].to(h.dtype), gradients[1].to(h.dtype), grad_h0, grad_reset_state
