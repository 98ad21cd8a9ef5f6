"""A scan cell over a whole sequence from its projections: in torch around `linear_scan`, or in one kernel."""

from typing import Any

import torch
from torch import Tensor

from gatedrnn.cells.gru_ladder import InputGatedGRUEquations
from gatedrnn.cells.lstm_ladder import InputGatedLSTMEquations, NormalizedLSTMEquations
from gatedrnn.cells.mingru import MinGRUEquations
from gatedrnn.cells.minlstm import MinLSTMEquations
from gatedrnn.cells.signed_mingru import SignedMinGRUEquations
from gatedrnn.equations import ScanEquations, split_gates
from gatedrnn.layers.kernel_records import SCAN
from gatedrnn.layers.ragged import hold_masked_steps, zero_masked_steps
from gatedrnn.layers.regularise import NOTHING, DirectionNoise, Keep, zoned_coefficients
from gatedrnn.ops import accumulation_dtype, choose_backend, gradients_with_graph, implementation, linear_scan
from gatedrnn.shapes import Channels, Flags, Series, State

CELLS: dict[str, ScanEquations] = {
    cell.kernel: cell
    for cell in (
        MinGRUEquations("g"), MinGRUEquations("identity"), MinLSTMEquations("g"), MinLSTMEquations("identity"),
        InputGatedLSTMEquations(), NormalizedLSTMEquations(), InputGatedGRUEquations(), SignedMinGRUEquations(),
    )
    if cell.kernel is not None
}  # fmt: skip
"""The cells that have a kernel, by its name."""


def scan_in_torch(
    cell: ScanEquations, projected: Series, h0: State | None, mask: Flags | None, resets: Flags | None,
    reset_state: Channels | None, reverse: bool, noise: DirectionNoise = NOTHING, keep: Keep | None = None,
    backend: str = "auto",
) -> tuple[Series, State]:  # fmt: skip
    """Outputs, in the dtype of `projected`, and the last state of any scan cell.

    A masked step leaves the state as it was; its output is 0. A reset brings the state back to `reset_state`, zeros if
    None.
    """
    gates = split_gates(len(cell.projections), projected.to(accumulation_dtype(projected.dtype)))
    decay, drive = cell.coefficients(*gates)
    if noise.state is not None:
        drive = drive * noise.state.unsqueeze(1)
    decay, drive = zoned_coefficients(keep, decay, drive)
    if mask is not None:
        decay, drive = hold_masked_steps(decay, drive, mask)
    onset = None if reset_state is None else reset_state.to(drive.dtype)
    h, last = linear_scan(decay, drive, h0, resets=resets, reset_state=onset, reverse=reverse, backend=backend)
    output = cell.output(h).to(projected.dtype)
    return output if mask is None else zero_masked_steps(output, mask), last


def has_kernel(cell: ScanEquations, device: torch.device) -> bool:
    """Whether `gated_scan` can run the cell's gates on this device."""
    # The very class: one derived from it may have other equations.
    known = cell.kernel in CELLS and type(cell) is type(CELLS[cell.kernel])
    return known and choose_backend(device).backend != "reference"


@torch.library.custom_op("gatedrnn::gated_scan", mutates_args=())
def gated_scan(
    projected: Tensor, bias: Tensor | None, h0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    reset_state: Tensor | None, kernel: str, reverse: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`scan_in_torch` of the cell that has this kernel, with `bias` added to the projections: all in one pass."""
    added, onset = accumulated(projected, bias, reset_state)
    kernels = implementation("auto", projected.device)
    return kernels.gated_scan(SCAN[kernel], projected, added, h0, mask, resets, onset, reverse)


def accumulated(projected: Tensor, *given: Tensor | None) -> list[Tensor | None]:
    """What is given, in the dtype in which a scan of these projections adds up."""
    return [None if x is None else x.to(accumulation_dtype(projected.dtype)) for x in given]


@gated_scan.register_fake
def _(
    projected: Tensor, bias: Tensor | None, h0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    reset_state: Tensor | None, kernel: str, reverse: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    batch, steps, features = projected.shape
    channels = features // len(CELLS[kernel].projections)
    last = projected.new_empty(batch, channels, dtype=accumulation_dtype(projected.dtype))
    return projected.new_empty(batch, steps, channels), last


@torch.library.custom_op("gatedrnn::gated_scan_gradient", mutates_args=())
def gated_scan_gradient(
    grad_output: Tensor, grad_last: Tensor, projected: Tensor, bias: Tensor | None, output: Tensor | None,
    h0: Tensor | None, mask: Tensor | None, resets: Tensor | None, reset_state: Tensor | None, kernel: str,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of `projected`, `bias` (empty without one), h0 and reset_state; gates are computed again, and states
    too where `output` is None."""
    added, onset = accumulated(projected, bias, reset_state)
    return implementation("auto", projected.device).gated_scan_gradient(
        SCAN[kernel], grad_output, grad_last, projected, added, output, h0, mask, resets, onset, reverse
    )


@gated_scan_gradient.register_fake
def _(
    grad_output: Tensor, grad_last: Tensor, projected: Tensor, bias: Tensor | None, output: Tensor | None,
    h0: Tensor | None, mask: Tensor | None, resets: Tensor | None, reset_state: Tensor | None, kernel: str,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    added, onset = (grad_last.new_empty(size) for size in (0 if bias is None else len(bias), grad_last.shape[1]))
    return projected.new_empty(projected.shape), added, grad_last.new_empty(grad_last.shape), onset


def with_bias(projected: Tensor, bias: Tensor | None) -> Tensor:
    """The sum as the kernels form it: in the dtype of accumulation."""
    return projected if bias is None else projected.to(accumulation_dtype(projected.dtype)) + bias


def tells_the_state(kernel: str, mask: Flags | None) -> bool:
    """Whether the output of the cell that has this kernel is its state at every step."""
    return mask is None and type(CELLS[kernel]).output is ScanEquations.output


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    projected, bias, h0, mask, resets, reset_state, ctx.kernel, ctx.reverse = inputs
    kept = output[0] if tells_the_state(ctx.kernel, mask) else None
    ctx.save_for_backward(projected, bias, kept, h0, mask, resets, reset_state)


def _gradient(ctx: Any, grad_output: Tensor, grad_last: Tensor) -> tuple[Tensor | None, ...]:
    projected, bias, output, h0, mask, resets, reset_state = ctx.saved_tensors
    given = projected, bias, h0, reset_state
    # Grad mode is on inside a backward exactly when the caller asked for create_graph.
    if torch.is_grad_enabled():

        def in_torch(
            projected: Tensor, bias: Tensor | None, h0: Tensor | None, reset_state: Tensor | None
        ) -> tuple[Tensor, Tensor]:
            whole = with_bias(projected, bias)
            output, last = scan_in_torch(CELLS[ctx.kernel], whole, h0, mask, resets, reset_state, ctx.reverse)
            return output.to(projected.dtype), last

        grads = gradients_with_graph(in_torch, given, (grad_output, grad_last))
    else:
        grads = list(
            gated_scan_gradient(
                grad_output, grad_last, projected, bias, output, h0, mask, resets, reset_state, ctx.kernel, ctx.reverse
            )
        )
    grads = [None if x is None or grad is None else grad.to(x.dtype) for x, grad in zip(given, grads, strict=True)]
    grad_projected, grad_bias, grad_h0, grad_onset = grads
    return grad_projected, grad_bias, grad_h0, None, None, grad_onset, None, None


gated_scan.register_autograd(_gradient, setup_context=_save)
