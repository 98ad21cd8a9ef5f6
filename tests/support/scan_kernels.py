"""The scan cells that fused kernels run, and what their own equations give: outputs, last state and gradients."""

import torch
from kernel_cells import SCAN_KERNELS as CELLS
from kernel_cells import axis_of, split_biases
from torch import Tensor

from gatedrnn.kinds import kernel_of
from gatedrnn.kinds.scan.definition import coefficients_of, gates_of, shown
from gatedrnn.kinds.scan.op import linear_scan

TILES = {name: kernel_of(cell, "cuda").program for name, cell in CELLS.items() if not cell.diagonals}
TILE = axis_of({name: CELLS[name] for name in TILES})
PROGRAMS = {name: kernel_of(cell).program for name, cell in CELLS.items()}


def by_equations(
    name: str, projected: Tensor, bias: Tensor | None, h0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    reset_state: Tensor | None, reverse: bool, grad_output: Tensor, grad_last: Tensor, dtype: torch.dtype,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Output, last state, and gradients of projections, bias, h0 and reset_state, by operations of torch in `dtype`."""

    def leaf(x: Tensor | None, *shape: int) -> Tensor:
        return (torch.zeros(shape, device=projected.device) if x is None else x.detach()).to(dtype).requires_grad_()

    channels = grad_output.shape[2]
    projected, added = leaf(projected), leaf(bias, projected.shape[2])
    own, diagonals = split_biases(CELLS[name], channels, added)
    whole = projected if own is None else projected + own
    start, reset_start = leaf(h0, len(projected), channels), leaf(reset_state, channels)
    reset_to = None if resets is None else reset_start
    gates = gates_of(CELLS[name], whole)
    decay, drive = coefficients_of(CELLS[name], gates, diagonals, mask)
    h, last = linear_scan(
        decay, drive, start, resets=resets, reset_state=reset_to, reverse=reverse, backend="reference"
    )
    output = shown(CELLS[name], h, gates, mask, whole.dtype)
    leaves, grads = (projected, added, start, reset_start), (grad_output.to(dtype), grad_last.to(dtype))
    found = torch.autograd.grad((output, last), leaves, grads, materialize_grads=True)
    return output.detach(), last.detach(), *found
