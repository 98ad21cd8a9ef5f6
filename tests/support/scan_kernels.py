"""The scan cells that fused kernels run, and what their own equations give: outputs, last state and gradients."""

import torch
from kernel_cells import SCAN_KERNELS as CELLS

from gatedrnn.equations import output_of
from gatedrnn.ops.cells import cell_program, tile_program
from gatedrnn.ops.linear_scan import scan_in_torch

TILES = {name: tile_program(cell) for name, cell in CELLS.items()}
PROGRAMS = {name: cell_program(cell) for name, cell in CELLS.items()}


def by_equations(name, projected, bias, h0, mask, resets, reset_state, reverse, grad_output, grad_last, dtype):
    """Output, last state, and gradients of projections, bias, h0 and reset_state, step by step in `dtype`."""

    def leaf(x, shape):
        return (torch.zeros(shape, device=projected.device) if x is None else x.detach()).to(dtype).requires_grad_()

    cell, channels = CELLS[name], grad_output.shape[2]
    projected, added = leaf(projected, None), leaf(bias, projected.shape[2])
    start, reset_start = leaf(h0, (len(projected), channels)), leaf(reset_state, channels)
    decay, drive = cell.coefficients(*(projected + added).chunk(len(cell.projections), -1))
    if mask is not None:
        decay, drive = torch.where(mask[..., None], decay, 1), torch.where(mask[..., None], drive, 0)
    states, last = scan_in_torch(decay, drive, start, resets, None if resets is None else reset_start, reverse)
    output = output_of(cell, (states,), ())
    if mask is not None:
        output = torch.where(mask[..., None], output, 0)
    loss = (output * grad_output.to(dtype)).sum() + (last * grad_last.to(dtype)).sum() + 0 * (projected + added).sum()
    grads = torch.autograd.grad(loss, (projected, added, start, reset_start), materialize_grads=True)
    return output.detach(), last.detach(), *grads
