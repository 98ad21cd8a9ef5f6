"""The scan cells that fused kernels run, and what their own equations give: outputs, last state and gradients."""

import torch
from kernel_cells import SCAN_KERNELS as CELLS
from kernel_cells import apart

from gatedrnn.equations import output_of
from gatedrnn.ops.cells import cell_program, tile_program
from gatedrnn.ops.linear_scan import scan_in_torch

TILES = {name: tile_program(cell) for name, cell in CELLS.items() if not cell.diagonals}
PROGRAMS = {name: cell_program(cell) for name, cell in CELLS.items()}


def by_equations(name, projected, bias, h0, mask, resets, reset_state, reverse, grad_output, grad_last, dtype):
    """Output, last state, and gradients of projections, bias, h0 and reset_state, step by step in `dtype`."""

    def leaf(x, shape):
        return (torch.zeros(shape, device=projected.device) if x is None else x.detach()).to(dtype).requires_grad_()

    cell, channels = CELLS[name], grad_output.shape[2]
    projected, added = leaf(projected, None), leaf(bias, projected.shape[2])
    own, diagonals = apart(cell, channels, added)
    whole = projected if own is None else projected + own
    start, reset_start = leaf(h0, (len(projected), channels)), leaf(reset_state, channels)
    gates = whole.chunk(len(cell.projections), -1)
    decay, drive = cell.coefficients(*gates, *diagonals)
    if mask is not None:
        decay, drive = torch.where(mask[..., None], decay, 1), torch.where(mask[..., None], drive, 0)
    states, last = scan_in_torch(decay, drive, start, resets, None if resets is None else reset_start, reverse)
    output = output_of(cell, (states,), gates)
    if mask is not None:
        output = torch.where(mask[..., None], output, 0)
    loss = (output * grad_output.to(dtype)).sum() + (last * grad_last.to(dtype)).sum()
    loss = loss + 0 * (projected.sum() + added.sum())
    grads = torch.autograd.grad(loss, (projected, added, start, reset_start), materialize_grads=True)
    return output.detach(), last.detach(), *grads
