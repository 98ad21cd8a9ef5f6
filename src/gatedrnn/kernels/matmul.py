"""Matrix products in float32 by the faster of the two libraries that torch brings for a CPU.

torch multiplies by MKL, which on AMD's processors leaves AVX-512 unused; oneDNN, by which torch runs convolutions and
LSTMs, uses it. There a product by oneDNN takes far less time, and a training step is little but products. On
other processors both are alike, and torch's own choice stands. torch offers no switch between the two; the operation
that calls oneDNN is the one that `torch.compile` writes. A torch without it multiplies as it does.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from gatedrnn.kernels.backends import ONEDNN_LINEAR, observed
from gatedrnn.machine import processor
from gatedrnn.shapes import Features

_MIN_MULTIPLY_ADDS = 1 << 21
"""Multiply-adds from which a product makes up for the dearer call."""


def linear(x: Features, weight: Tensor, bias: Tensor | None = None) -> Features:
    """`torch.nn.functional.linear`, by oneDNN where that is faster.

    Args:
        x: (*, features).
        weight: (outputs, features).
        bias: (outputs,).

    Example:
        >>> linear(torch.ones(2, 3), torch.ones(4, 3)).tolist()[0]
        [3.0, 3.0, 3.0, 3.0]
    """
    # Autocast changes the dtype of torch's own operation alone: that of oneDNN would still multiply in float32.
    by_torch = torch.compiler.is_compiling() or not has_faster() or observed(x) or torch.is_autocast_enabled("cpu")
    if by_torch or not _by_onednn(x, weight):
        return functional.linear(x, weight, bias)
    # The operation of oneDNN has no gradient formula; where none is needed, the autograd function only costs time.
    needs_grad = any(each is not None and each.requires_grad for each in (x, weight, bias))
    return _Linear.apply(x, weight, bias) if needs_grad and torch.is_grad_enabled() else _onednn_linear(x, weight, bias)


def product(x: Features, weight: Tensor) -> Features:
    """x @ weight.T as `linear` has it, without a gradient and for tensors that nothing follows."""
    return _onednn_linear(x, weight, None) if _by_onednn(x, weight) else functional.linear(x, weight)


def weight_grad(left: Tensor, right: Tensor) -> Tensor:
    """left.T @ right of two matrices with as many rows, as `product`: the gradient of a weight."""
    if not _by_onednn(left.t(), right.t()):
        return left.t() @ right
    if left.shape[1] <= right.shape[1]:
        return _onednn_linear(left.t(), right.t(), None)
    return _onednn_linear(right.t(), left.t(), None).t()  # it is slow where there are more rows than columns


def product_into(out: Tensor, x: Tensor, weight: Tensor) -> None:
    """Write x @ weight.T of two matrices to `out`, as `product`."""
    if _by_onednn(x, weight):
        # The operation of oneDNN takes no `out`.
        out.copy_(_onednn_linear(x, weight, None))
    else:
        torch.mm(x, weight.t(), out=out)


def add_weight_grad(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add left.T @ right to `total`, which may be of a wider dtype."""
    # addmm_ needs no temporary of the weight's size, but both sides must have one dtype.
    if left.dtype != total.dtype or _by_onednn(left.t(), right.t()):
        total += weight_grad(left, right)
    else:
        total.addmm_(left.t(), right)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn_linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        rows, inputs = upstream.flatten(0, -2), x.flatten(0, -2)
        # Under create_graph the gradient is differentiated again, and `weight_grad` has no gradient of its own.
        product_grad = (lambda left, right: left.t() @ right) if torch.is_grad_enabled() else weight_grad
        return (
            linear(upstream, weight.t()) if needs_x else None,
            product_grad(rows, inputs) if needs_weight else None,
            rows.sum(0) if needs_bias else None,
        )


@cache
def has_faster() -> bool:
    """Whether oneDNN can be called, and is the faster library here: for AMD's processors with AVX-512."""
    return (
        ONEDNN_LINEAR is not None
        and torch.backends.mkldnn.is_available()
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and "AMD" in processor()
    )


def _by_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        x.dtype == torch.float32 == weight.dtype
        and x.is_cpu
        and x.dim() > 1
        and x.numel() * len(weight) >= _MIN_MULTIPLY_ADDS
        and has_faster()
        # Read at each call: a user may switch oneDNN off for a while (`torch.backends.mkldnn.flags`).
        and bool(torch.backends.mkldnn.enabled)
    )


def _onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    # A second factor whose rows and columns both lie apart is multiplied element by element, a thousand times as slow.
    weight = weight if weight.t().is_contiguous() else weight.contiguous()
    assert ONEDNN_LINEAR is not None  # where `has_faster`
    result: Tensor = ONEDNN_LINEAR(x, weight, bias, "none", [], "")
    return result
