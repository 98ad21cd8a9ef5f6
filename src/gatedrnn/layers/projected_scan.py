"""A scan cell over a whole sequence from its inputs: projection, gates and scan as one op, for a CPU."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from gatedrnn.equations import ScanEquations
from gatedrnn.layers.gated_scan import (
    CELLS,
    accumulated,
    has_kernel,
    scan_in_torch,
    tells_the_state,
    with_bias,
)
from gatedrnn.layers.kernel_records import SCAN
from gatedrnn.ops import accumulation_dtype, gradients_with_graph, implementation


def projects(cell: ScanEquations, device: torch.device) -> bool:
    """Whether `projected_scan` runs the cell on this device: on a GPU a bias in the product costs nothing."""
    return device.type == "cpu" and has_kernel(cell, device)


@torch.library.custom_op("gatedrnn::projected_scan", mutates_args=())
def projected_scan(
    x: Tensor, weight: Tensor, bias: Tensor | None, h0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    reset_state: Tensor | None, kernel: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`gated_scan` of the product of x (batch, time, features) with weight.T; the product comes third.

    In memory x goes sequence by sequence or step by step, without gaps; outputs and product do the same.
    """
    added, onset = accumulated(x, bias, reset_state)
    kernels = implementation("cpu", x.device)
    return kernels.projected_scan(SCAN[kernel], x, weight, added, h0, mask, resets, onset, reverse)


@projected_scan.register_fake
def _(
    x: Tensor, weight: Tensor, bias: Tensor | None, h0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    reset_state: Tensor | None, kernel: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    batch, steps, _ = x.shape
    channels = len(weight) // len(CELLS[kernel].projections)
    last = x.new_empty(batch, channels, dtype=accumulation_dtype(x.dtype))
    if x.is_contiguous():
        return x.new_empty(batch, steps, channels), last, x.new_empty(batch, steps, len(weight))
    output, projected = (x.new_empty(steps, batch, size).transpose(0, 1) for size in (channels, len(weight)))
    return output, last, projected


@torch.library.custom_op("gatedrnn::projected_scan_gradient", mutates_args=())
def projected_scan_gradient(
    grad_output: Tensor, grad_last: Tensor, x: Tensor, weight: Tensor, projected: Tensor, bias: Tensor | None,
    output: Tensor | None, h0: Tensor | None, mask: Tensor | None, resets: Tensor | None, reset_state: Tensor | None,
    kernel: str, reverse: bool, of_x: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of x (empty unless `of_x`), weight, bias (empty without one), h0 and reset_state."""
    added, onset = accumulated(x, bias, reset_state)
    return implementation("cpu", x.device).projected_scan_gradient(
        SCAN[kernel], grad_output, grad_last, x, weight, projected, added, output, h0, mask, resets, onset, reverse,
        of_x,
    )  # fmt: skip


@projected_scan_gradient.register_fake
def _(
    grad_output: Tensor, grad_last: Tensor, x: Tensor, weight: Tensor, projected: Tensor, bias: Tensor | None,
    output: Tensor | None, h0: Tensor | None, mask: Tensor | None, resets: Tensor | None, reset_state: Tensor | None,
    kernel: str, reverse: bool, of_x: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    grad_bias, onset = (grad_last.new_empty(size) for size in (0 if bias is None else len(bias), grad_last.shape[1]))
    grad_x = torch.empty_like(x) if of_x else x.new_empty(0)
    return grad_x, weight.new_empty(weight.shape), grad_bias, grad_last.new_empty(grad_last.shape), onset


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x, weight, bias, h0, mask, resets, reset_state, ctx.kernel, ctx.reverse = inputs
    states, _, projected = output
    kept = states if tells_the_state(ctx.kernel, mask) else None
    ctx.save_for_backward(x, weight, projected, bias, kept, h0, mask, resets, reset_state)
    ctx.set_materialize_grads(False)  # nobody asks for a gradient of the product: zeros of its size are never made


def _gradient(ctx: Any, grad_output: Tensor | None, grad_last: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
    x, weight, projected, bias, output, h0, mask, resets, reset_state = ctx.saved_tensors
    channels = projected.shape[2] // len(CELLS[ctx.kernel].projections)
    if grad_output is None:
        grad_output = projected.new_zeros(1, 1, 1).expand(*projected.shape[:2], channels)
    if grad_last is None:
        grad_last = projected.new_zeros(len(projected), channels, dtype=accumulation_dtype(projected.dtype))
    given = x, weight, bias, h0, reset_state
    # Grad mode is on inside a backward exactly when the caller asked for create_graph.
    if torch.is_grad_enabled():

        def in_torch(
            x: Tensor, weight: Tensor, bias: Tensor | None, h0: Tensor | None, reset_state: Tensor | None
        ) -> tuple[Tensor, Tensor]:
            whole = with_bias(linear(x, weight), bias)
            output, last = scan_in_torch(CELLS[ctx.kernel], whole, h0, mask, resets, reset_state, ctx.reverse)
            return output.to(x.dtype), last

        grads = gradients_with_graph(in_torch, given, (grad_output, grad_last))
    else:
        grads = list(
            projected_scan_gradient(
                grad_output, grad_last, x, weight, projected, bias, output, h0, mask, resets, reset_state, ctx.kernel,
                ctx.reverse, ctx.needs_input_grad[0],
            )
        )  # fmt: skip
        if not ctx.needs_input_grad[0]:
            grads[0] = None
    grads = [None if v is None or grad is None else grad.to(v.dtype) for v, grad in zip(given, grads, strict=True)]
    *grads, grad_onset = grads
    return *grads, None, None, grad_onset, None, None


projected_scan.register_autograd(_gradient, setup_context=_save)
