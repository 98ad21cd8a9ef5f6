"""A scan cell over a whole sequence from its projections: in torch around `linear_scan`, or in one kernel."""

from typing import Any

import torch
from torch import Tensor

from gatedrnn.cells import ScanCell, split_gates
from gatedrnn.cells.gru_ladder import InputGatedGRUEquations
from gatedrnn.cells.lstm_ladder import InputGatedLSTMEquations, NormalizedLSTMEquations
from gatedrnn.cells.mingru import MinGRUEquations
from gatedrnn.cells.minlstm import MinLSTMEquations
from gatedrnn.layers.ragged import hold_masked_steps, zero_masked_steps
from gatedrnn.layers.regularise import NOTHING, DirectionNoise, Keep, zoned_coefficients
from gatedrnn.scan import accumulation_dtype, choose_backend, implementation, linear_scan
from gatedrnn.shapes import Flags, Series, State

CELLS: dict[str, ScanCell] = {
    cell.kernel: cell
    for cell in (
        MinGRUEquations("g"), MinGRUEquations("identity"), MinLSTMEquations("g"), MinLSTMEquations("identity"),
        InputGatedLSTMEquations(), NormalizedLSTMEquations(), InputGatedGRUEquations(),
    )
    if cell.kernel is not None
}  # fmt: skip
"""The cells that have a kernel, by its name."""


def scan_in_torch(
    cell: ScanCell, projected: Series, h0: State | None, mask: Flags | None, resets: Flags | None, reverse: bool,
    noise: DirectionNoise = NOTHING, keep: Keep | None = None, backend: str = "auto",
) -> tuple[Series, State]:  # fmt: skip
    """Outputs, in the dtype of `projected`, and the last state of any scan cell.

    A masked step leaves the state as it was; its output is 0. A reset brings the state back to zeros.
    """
    gates = split_gates(len(cell.projections), projected.to(accumulation_dtype(projected.dtype)))
    decay, drive = cell.coefficients(*gates)
    if noise.state is not None:
        drive = drive * noise.state.unsqueeze(1)
    decay, drive = zoned_coefficients(keep, decay, drive)
    if mask is not None:
        decay, drive = hold_masked_steps(decay, drive, mask)
    h, last = linear_scan(decay, drive, h0, resets=resets, reverse=reverse, backend=backend)
    output = cell.output(h).to(projected.dtype)
    return output if mask is None else zero_masked_steps(output, mask), last


def has_kernel(cell: ScanCell, device: torch.device) -> bool:
    """Whether `gated_scan` can run the cell's gates on this device."""
    # The very class: one derived from it may have other equations.
    known = cell.kernel in CELLS and type(cell) is type(CELLS[cell.kernel])
    return known and choose_backend(device).backend != "reference"


@torch.library.custom_op("gatedrnn::gated_scan", mutates_args=())
def gated_scan(
    projected: Tensor, h0: Tensor | None, mask: Tensor | None, resets: Tensor | None, kernel: str, reverse: bool
) -> tuple[Tensor, Tensor]:
    """`scan_in_torch` of the cell that has this kernel, gates computed in the same pass as the scan."""
    return implementation("auto", projected.device).gated_scan(kernel, projected, h0, mask, resets, reverse)


@gated_scan.register_fake
def _(
    projected: Tensor, h0: Tensor | None, mask: Tensor | None, resets: Tensor | None, kernel: str, reverse: bool
) -> tuple[Tensor, Tensor]:
    batch, steps, features = projected.shape
    channels = features // len(CELLS[kernel].projections)
    last = projected.new_empty(batch, channels, dtype=accumulation_dtype(projected.dtype))
    return projected.new_empty(batch, steps, channels), last


@torch.library.custom_op("gatedrnn::gated_scan_gradient", mutates_args=())
def gated_scan_gradient(
    grad_output: Tensor, grad_last: Tensor, projected: Tensor, output: Tensor | None, h0: Tensor | None,
    mask: Tensor | None, resets: Tensor | None, kernel: str, reverse: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Gradients of `projected` and of h0; gates are computed again, and states too where `output` is None."""
    return implementation("auto", projected.device).gated_scan_gradient(
        kernel, grad_output, grad_last, projected, output, h0, mask, resets, reverse
    )


@gated_scan_gradient.register_fake
def _(
    grad_output: Tensor, grad_last: Tensor, projected: Tensor, output: Tensor | None, h0: Tensor | None,
    mask: Tensor | None, resets: Tensor | None, kernel: str, reverse: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return projected.new_empty(projected.shape), grad_last.new_empty(grad_last.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    projected, h0, mask, resets, ctx.kernel, ctx.reverse = inputs
    tells_the_state = mask is None and type(CELLS[ctx.kernel]).output is ScanCell.output
    ctx.save_for_backward(projected, output[0] if tells_the_state else None, h0, mask, resets)


def _gradient(ctx: Any, grad_output: Tensor, grad_last: Tensor) -> tuple[Tensor | None, ...]:
    projected, output, h0, mask, resets = ctx.saved_tensors
    # Grad mode is on inside a backward exactly when the caller asked for create_graph.
    if torch.is_grad_enabled():
        inputs = [x.view_as(x) for x in (projected, h0) if x is not None and x.requires_grad]
        again = iter(inputs)
        p, start = (next(again) if x is not None and x.requires_grad else x for x in (projected, h0))
        outputs = scan_in_torch(CELLS[ctx.kernel], p, start, mask, resets, ctx.reverse)
        found = iter(torch.autograd.grad(outputs, inputs, (grad_output, grad_last), create_graph=True))
        grads = [next(found) if x is not None and x.requires_grad else None for x in (projected, h0)]
    else:
        grads = list(
            gated_scan_gradient(grad_output, grad_last, projected, output, h0, mask, resets, ctx.kernel, ctx.reverse)
        )
    grad_h0 = None if h0 is None or grads[1] is None else grads[1].to(h0.dtype)
    return grads[0], grad_h0, None, None, None, None


gated_scan.register_autograd(_gradient, setup_context=_save)
