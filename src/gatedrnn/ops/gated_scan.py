"""A scan cell over a whole sequence: its gates and its scan, by torch operations or in one kernel.

`scan_in_torch` is the definition. `gated_scan` runs it in one kernel from the projections W x; `projected_scan`, for a
CPU, from the inputs x.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear

from gatedrnn.codegen.elementwise import CellProgram
from gatedrnn.codegen.scan_tile import TileProgram
from gatedrnn.equations import GappedScanEquations, ScanEquations, output_of, split_gates
from gatedrnn.ops._op import Gradients, register_gradient, through
from gatedrnn.ops.backends import accumulation_dtype, choose_backend, has_cpu_kernels, native_kernels
from gatedrnn.ops.by_channel import biased_and_diagonals
from gatedrnn.ops.cells import EQUATIONS, cell_program, program_of, tile_of, tile_program
from gatedrnn.ops.linear_scan import linear_scan
from gatedrnn.ops.masking import hold_masked_steps, zero_masked_steps
from gatedrnn.ops.over_ranks import TimeRanks
from gatedrnn.ops.step import ZoneoutMask, zoned_coefficients
from gatedrnn.shapes import Channels, Flags, Gaps, Projections, Series, State


def scan_in_torch(
    cell: ScanEquations, projected: Projections, h0: State | None, mask: Flags | None, resets: Flags | None,
    reset_state: Channels | None, reverse: bool, *, diagonals: Sequence[Channels] = (), gaps: Gaps | None = None,
    dropout_mask: State | None = None, zoneout: ZoneoutMask | None = None, backend: str = "auto",
    ranks: TimeRanks | None = None,
) -> tuple[Series, State]:  # fmt: skip
    """Outputs, in the dtype of `projected`, and the last state of any scan cell.

    Args:
        projected: W x + b, (batch, time, gates · channels).
        mask: a masked step leaves the state as it was; its output is 0.
        resets: a reset returns the state to `reset_state`, zeros if None.
        diagonals: the diagonal weights, in the cell's order.
        gaps: from the state that a step reads to the step (`gaps_between_real_steps`); None for 1 everywhere.
        dropout_mask: (batch, channels), multiplies the drive at every step.
        zoneout: the zoneout mask, (batch, time, channels), or its expectation.
        backend: of `linear_scan`.
        ranks: processes that the sequence is cut over; None for one that has all of it.
    """
    gates = split_gates(len(cell.projections), projected.to(accumulation_dtype(projected.dtype)))
    own = [weight.to(gates[0].dtype) for weight in diagonals]
    if gaps is None:
        decay, drive = cell.coefficients(*gates, *own)
    else:
        assert isinstance(cell, GappedScanEquations)
        decay, drive = cell.coefficients_over(gaps.to(gates[0].dtype).unsqueeze(2), *gates, *own)
    if dropout_mask is not None:
        drive = drive * dropout_mask.unsqueeze(1)
    decay, drive = zoned_coefficients(zoneout, decay, drive)
    if mask is not None:
        decay, drive = hold_masked_steps(decay, drive, mask)
    reset_to = None if reset_state is None else reset_state.to(drive.dtype)
    scan = linear_scan if ranks is None else ranks.linear_scan
    h, last = scan(decay, drive, h0, resets=resets, reset_state=reset_to, reverse=reverse, backend=backend)
    output = output_of(cell, (h,), gates).to(projected.dtype)
    return output if mask is None else zero_masked_steps(output, mask), last


def has_gated_scan(cell: ScanEquations, device: torch.device) -> bool:
    """Whether `gated_scan` can run the cell on this device."""
    if device.type == "cuda":
        return tile_program(cell) is not None and choose_backend(device).backend == "native"
    return has_projected_scan(cell, device)


def has_projected_scan(cell: ScanEquations, device: torch.device) -> bool:
    """Whether `projected_scan` can run the cell on this device: on a GPU a bias in the product costs nothing."""
    return has_cpu_kernels(device) and cell_program(cell) is not None


def _known(word: str) -> ScanEquations:
    """The equations under a cell's word."""
    cell = EQUATIONS[word]
    assert isinstance(cell, ScanEquations)
    return cell


def _kernel(word: str, device: torch.device) -> TileProgram | CellProgram:
    """What the kernels of a device run the cell by."""
    if device.type == "cuda":
        return tile_of(word)
    return _cell_program(word)


def _cell_program(word: str) -> CellProgram:
    found = program_of(word)
    assert isinstance(found, CellProgram)
    return found


def _accumulated(like: Tensor, *given: Tensor | None) -> list[Tensor | None]:
    """The tensors in the dtype of states and sums; None stays None."""
    return [None if x is None else x.to(accumulation_dtype(like.dtype)) for x in given]


def _output_is_state(word: str, mask: Flags | None) -> bool:
    """Whether a backward can read the states from the output."""
    return mask is None and _cell_program(word).output_is_state


# From projections


@torch.library.custom_op("gatedrnn::gated_scan", mutates_args=())
def gated_scan(
    projected: Tensor, bias: Tensor | None, h0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    reset_state: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`scan_in_torch` of the cell that goes by this word, all in one pass, with `bias` (`by_channel`) added to the
    projections."""
    bias, reset_state = _accumulated(projected, bias, reset_state)
    kernels = native_kernels(projected.device)
    return kernels.gated_scan(_kernel(cell, projected.device), projected, bias, h0, mask, resets, reset_state, reverse)


@gated_scan.register_fake
def _(
    projected: Tensor, bias: Tensor | None, h0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    reset_state: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    batch, steps, features = projected.shape
    channels = features // len(EQUATIONS[cell].projections)
    last = projected.new_empty(batch, channels, dtype=accumulation_dtype(projected.dtype))
    return projected.new_empty(batch, steps, channels), last


@torch.library.custom_op("gatedrnn::gated_scan_gradient", mutates_args=())
def gated_scan_gradient(
    grad_output: Tensor, grad_last: Tensor, projected: Tensor, bias: Tensor | None, output: Tensor | None,
    h0: Tensor | None, mask: Tensor | None, resets: Tensor | None, reset_state: Tensor | None, cell: str,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of `projected`, `bias` (empty without one), h0 and reset_state; gates are computed again, and so are
    states where `output` is None."""
    bias, reset_state = _accumulated(projected, bias, reset_state)
    return native_kernels(projected.device).gated_scan_gradient(
        _kernel(cell, projected.device),
        grad_output,
        grad_last,
        projected,
        bias,
        output,
        h0,
        mask,
        resets,
        reset_state,
        reverse,
    )


@gated_scan_gradient.register_fake
def _(
    grad_output: Tensor, grad_last: Tensor, projected: Tensor, bias: Tensor | None, output: Tensor | None,
    h0: Tensor | None, mask: Tensor | None, resets: Tensor | None, reset_state: Tensor | None, cell: str,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    sizes = (0 if bias is None else len(bias), grad_last.shape[1])
    grad_bias, grad_reset_state = (grad_last.new_empty(size) for size in sizes)
    return projected.new_empty(projected.shape), grad_bias, grad_last.new_empty(grad_last.shape), grad_reset_state


def _saves(output: tuple[Tensor, Tensor], *, mask: Tensor | None, cell: str, **_: object) -> tuple[Tensor | None]:
    return (output[0] if _output_is_state(cell, mask) else None,)


def _backward(
    upstream: Gradients, saved: Gradients, needed: frozenset[str], *, projected: Tensor, bias: Tensor | None,
    h0: Tensor | None, mask: Tensor | None, resets: Tensor | None, reset_state: Tensor | None, cell: str,
    reverse: bool,
) -> Gradients:  # fmt: skip
    grads = _upstream(upstream, projected, cell)
    return gated_scan_gradient(*grads, projected, bias, *saved, h0, mask, resets, reset_state, cell, reverse)


def _plain(
    projected: Tensor, bias: Tensor | None, h0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    reset_state: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    whole, diagonals = biased_and_diagonals(_known(cell), projected, bias)
    own = tuple(diagonals.values())
    output, last = scan_in_torch(_known(cell), whole, h0, mask, resets, reset_state, reverse, diagonals=own)
    return output.to(projected.dtype), last


def _upstream(upstream: Gradients, projected: Tensor, cell: str) -> tuple[Tensor, Tensor]:
    """The gradients of output and last state; zeros, of no size in memory, for an output that nobody asked for."""
    grad_output, grad_last = upstream[:2]
    channels = projected.shape[2] // len(EQUATIONS[cell].projections)
    if grad_output is None:
        grad_output = projected.new_zeros(1, 1, 1).expand(*projected.shape[:2], channels)
    if grad_last is None:
        grad_last = projected.new_zeros(len(projected), channels, dtype=accumulation_dtype(projected.dtype))
    return grad_output, grad_last


_DIFFERENTIABLE = ("projected", "bias", "h0", "reset_state")
register_gradient(gated_scan, _DIFFERENTIABLE, _saves, _backward, through(_plain, _DIFFERENTIABLE))


# From inputs, on a CPU


@torch.library.custom_op("gatedrnn::projected_scan", mutates_args=())
def projected_scan(
    x: Tensor, weight: Tensor, bias: Tensor | None, h0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    reset_state: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`gated_scan` of the product of x (batch, time, features) with weight.T; the product is the third output.

    x is contiguous as (batch, time, features) or as (time, batch, features); the outputs have the same layout.
    """
    bias, reset_state = _accumulated(x, bias, reset_state)
    kernels = native_kernels(x.device)
    return kernels.projected_scan(_kernel(cell, x.device), x, weight, bias, h0, mask, resets, reset_state, reverse)


@projected_scan.register_fake
def _(
    x: Tensor, weight: Tensor, bias: Tensor | None, h0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    reset_state: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    batch, steps, _ = x.shape
    channels = len(weight) // len(EQUATIONS[cell].projections)
    last = x.new_empty(batch, channels, dtype=accumulation_dtype(x.dtype))
    if x.is_contiguous():
        return x.new_empty(batch, steps, channels), last, x.new_empty(batch, steps, len(weight))
    output, projected = (x.new_empty(steps, batch, size).transpose(0, 1) for size in (channels, len(weight)))
    return output, last, projected


@torch.library.custom_op("gatedrnn::projected_scan_gradient", mutates_args=())
def projected_scan_gradient(
    grad_output: Tensor, grad_last: Tensor, x: Tensor, weight: Tensor, projected: Tensor, bias: Tensor | None,
    output: Tensor | None, h0: Tensor | None, mask: Tensor | None, resets: Tensor | None, reset_state: Tensor | None,
    cell: str, reverse: bool, of_x: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of x (empty unless `of_x`), weight, bias (empty without one), h0 and reset_state."""
    bias, reset_state = _accumulated(x, bias, reset_state)
    return native_kernels(x.device).projected_scan_gradient(
        _kernel(cell, x.device), grad_output, grad_last, x, weight, projected, bias, output, h0, mask, resets,
        reset_state, reverse, of_x,
    )  # fmt: skip


@projected_scan_gradient.register_fake
def _(
    grad_output: Tensor, grad_last: Tensor, x: Tensor, weight: Tensor, projected: Tensor, bias: Tensor | None,
    output: Tensor | None, h0: Tensor | None, mask: Tensor | None, resets: Tensor | None, reset_state: Tensor | None,
    cell: str, reverse: bool, of_x: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    sizes = (0 if bias is None else len(bias), grad_last.shape[1])
    grad_bias, grad_reset_state = (grad_last.new_empty(size) for size in sizes)
    grad_x = torch.empty_like(x) if of_x else x.new_empty(0)
    return grad_x, weight.new_empty(weight.shape), grad_bias, grad_last.new_empty(grad_last.shape), grad_reset_state


def _saves_projected(
    outputs: tuple[Tensor, Tensor, Tensor], *, mask: Tensor | None, cell: str, **_: object
) -> tuple[Tensor | None, Tensor]:
    states, _last, projected = outputs
    return states if _output_is_state(cell, mask) else None, projected


def _backward_projected(
    upstream: Gradients, saved: Gradients, needed: frozenset[str], *, x: Tensor, weight: Tensor, bias: Tensor | None,
    h0: Tensor | None, mask: Tensor | None, resets: Tensor | None, reset_state: Tensor | None, cell: str,
    reverse: bool,
) -> Gradients:  # fmt: skip
    output, projected = saved
    assert projected is not None
    of_x = "x" in needed
    grads = _upstream(upstream, projected, cell)
    grad_x, *others = projected_scan_gradient(
        *grads, x, weight, projected, bias, output, h0, mask, resets, reset_state, cell, reverse, of_x
    )
    return grad_x if of_x else None, *others


def _plain_projected(
    x: Tensor, weight: Tensor, bias: Tensor | None, h0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    reset_state: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return _plain(linear(x, weight), bias, h0, mask, resets, reset_state, cell, reverse)


_OF_INPUTS = ("x", "weight", "bias", "h0", "reset_state")
register_gradient(
    projected_scan, _OF_INPUTS, _saves_projected, _backward_projected, through(_plain_projected, _OF_INPUTS)
)
