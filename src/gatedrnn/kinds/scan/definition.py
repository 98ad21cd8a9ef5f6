"""A scan cell over a whole sequence by torch operations: gates, masked steps, and the scan with its resets."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gatedrnn.equations import Equations, GappedScanEquations, ScanEquations, output_of, split_gates
from gatedrnn.kernels.backends import accumulation_dtype
from gatedrnn.kinds.definition import ZoneoutMask, over_time, zero_masked_steps, zone_out
from gatedrnn.shapes import Channels, Flags, Gaps, Projections, Series, State

BARE = "linear-scan"
"""The word of the scan of decays and drives alone, which are no cell's."""


class ScanInputs(NamedTuple):
    """The inputs of a scan: arguments of its operation and of the kernels. Tensors that are no series are in the dtype
    of states and sums (`accumulation_dtype`)."""

    x: Tensor
    """The input projections W x, (batch, time, gates · channels); of the bare scan the decay, beside its drive."""
    drive: Tensor | None = None
    weight: Tensor | None = None
    """Multiplied with x, the inputs, on a CPU; x is then contiguous as (batch, time, features) or as (time, batch,
    features), and outputs and product have the same layout."""
    by_channel: Tensor | None = None
    """Biases of all projections, and the diagonal weights after them; without biases these are alone. A product that
    adds a bias first writes it out first: kernels add it."""
    starts: Tensor | None = None
    """The states before the first step side by side, (batch, states · channels); zeros if None."""
    mask: Tensor | None = None
    """A step where it is False leaves the states as they were, and its output is 0."""
    resets: Tensor | None = None
    """A step where it is True begins from `reset_state`, a masked step too."""
    reset_state: Tensor | None = None
    """(channels,); zeros if None."""
    cell: str = BARE
    """The cell's word."""
    reverse: bool = False
    """Run from the last step to the first."""
    native: bool = True
    """Run kernels; only the bare scan has another form."""


class ScanUpstream(NamedTuple):
    """The values that the gradient of a scan reads beside its inputs."""

    grad_output: Tensor
    grad_last: Tensor
    projected: Tensor
    """The product with `weight`; empty without it."""
    output: Tensor | None
    """The outputs, if they show the states, which are computed again otherwise."""
    of_x: bool
    """Whether the gradient of x is asked for where it is a product."""


class ScanGradients(NamedTuple):
    """Gradients of a scan's arguments."""

    x: Series | None
    """The gradient in the memory layout of x; None if not requested."""
    drive: Series | None
    weight: Tensor | None
    by_channel: Channels
    """Empty without a bias and diagonal weights."""
    starts: State
    """Side by side."""
    reset_state: Channels


def scan_in_torch(
    decay: Series, drive: Series, h0: State, resets: Flags | None, reset_state: Channels | None, reverse: bool
) -> tuple[Series, State]:
    """Return all states of h_t = decay_t * h_(t-1) + drive_t and the last one, by a loop."""
    if not drive.shape[1]:
        # `over_time` runs one step at least.
        return torch.zeros_like(drive), h0.clone()
    reset_to = drive.new_zeros(drive.shape[2]) if reset_state is None else reset_state

    def step(
        state: tuple[Tensor, ...], decay: Tensor, drive: Tensor, reset: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        previous = state[0] if reset is None else torch.where(reset.unsqueeze(1), reset_to, state[0])
        h = decay * previous + drive
        return h, (h,)

    h, (last,) = over_time(step, (h0,), (decay, drive, resets), reverse)
    return h, last.clone()


def coefficients_of(
    cell: ScanEquations, gates: tuple[Series, ...], diagonals: Sequence[Channels], mask: Flags | None = None,
    gaps: Gaps | None = None, dropped: State | None = None, zoneout: ZoneoutMask | None = None,
) -> tuple[Series, Series]:  # fmt: skip
    """Return decay and drive of every step, with all that acts between gates and scan.

    Args:
        gates: the input projections with their biases, in the dtype of accumulation.
        diagonals: the diagonal weights, in the cell's order.
        mask: a masked step leaves the state as it was.
        gaps: from the state that a step reads to the step (`gaps_between_real_steps`); None for 1 everywhere.
        dropped: the dropout mask of the drive, (batch, channels), the same at every step.
        zoneout: the zoneout mask, (batch, time, channels), or its expectation: h = k h + (1 - k)(a h + b) is a scan
            again, with k + (1 - k) a and (1 - k) b.
    """
    weights = [weight.to(gates[0].dtype) for weight in diagonals]
    if gaps is None:
        decay, drive = cell.coefficients(*gates, *weights)
    else:
        assert isinstance(cell, GappedScanEquations)
        decay, drive = cell.coefficients_over(gaps.to(gates[0].dtype).unsqueeze(2), *gates, *weights)
    if dropped is not None:
        # No gate reads the state: what a step adds is dropped (Semeniuta et al. 2016, arXiv:1603.05118).
        drive = drive * dropped.unsqueeze(1)
    if zoneout is not None:
        decay, drive = (
            zone_out(zoneout[0], torch.ones_like(decay), decay), zone_out(zoneout[0], torch.zeros_like(drive), drive),
        )  # fmt: skip
    if mask is not None:
        real = mask.unsqueeze(2)
        # After dropout and zoneout: a masked step keeps the state whatever was drawn. Selected, not multiplied, for a
        # NaN in the padding.
        decay, drive = torch.where(real, decay, 1), torch.where(real, drive, 0)
    return decay, drive


def shown(cell: Equations, h: Series, gates: tuple[Series, ...], mask: Flags | None, dtype: torch.dtype) -> Series:
    """Return the outputs of all steps from their states; 0 at masked ones."""
    output = output_of(cell, (h,), gates).to(dtype)
    return output if mask is None else zero_masked_steps(output, mask)


def gates_of(cell: ScanEquations, projected: Projections) -> tuple[Series, ...]:
    """Split projections by gate, in the dtype of accumulation."""
    # In float32 at least: the largest bfloat16 below 1 is 0.996, a memory of 256 steps.
    return split_gates(len(cell.projections), projected.to(accumulation_dtype(projected.dtype)))
