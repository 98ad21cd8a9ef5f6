"""The maximum over the steps of a series, as pooling takes it: one pass over the series, and one in the backward."""

import torch
from torch import Tensor

from gatedrnn.kernels.backends import has_cpu_kernels, plain_torch_only
from gatedrnn.kernels.op import FLOPS, Gradients, elementwise, register_gradient, through
from gatedrnn.shapes import Flags, Series, Step

KERNEL_DTYPES = (torch.float32, torch.float64)


def masked_max(x: Series, mask: Flags | None = None) -> Step:
    """Return the maximum of each channel over the real steps; 0 for a sequence without any.

    Where several steps reach it, they share the gradient evenly, as in `torch.amax`.

    Args:
        x: (batch, time, channels). NaN is a maximum.
        mask: (batch, time), True = real step; None if all are.

    Example:
        >>> x = torch.tensor([[[1.0, 5.0], [3.0, 2.0], [9.0, 9.0]]])
        >>> masked_max(x, torch.tensor([[True, True, False]]))
        tensor([[3., 5.]])
    """
    if x.dtype in KERNEL_DTYPES and x.shape[1] and has_cpu_kernels(x.device) and not plain_torch_only():
        largest: Tensor = masked_max_in_kernel(x, mask)[0]
        return largest
    return _in_torch(x, mask)


def _in_torch(x: Series, mask: Flags | None) -> Step:
    if mask is None:
        return x.amax(1)
    real, any_real = mask.unsqueeze(2), mask.any(1, keepdim=True)
    return torch.where(any_real, torch.where(real, x, float("-inf")).amax(1), 0)


@torch.library.custom_op("gatedrnn::masked_max", mutates_args=())
def masked_max_in_kernel(x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the maxima, and the number of steps that reach each."""
    from gatedrnn.kernels.cpu import masked_max as kernel

    return kernel.masked_max(x, mask)


@masked_max_in_kernel.register_fake
def _(x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    batch, _, channels = x.shape
    return x.new_empty(batch, channels), x.new_empty(batch, channels)


@torch.library.custom_op("gatedrnn::masked_max_gradient", mutates_args=())
def masked_max_gradient(upstream: Tensor, x: Tensor, mask: Tensor | None, largest: Tensor, count: Tensor) -> Tensor:
    """Return the gradient of x."""
    from gatedrnn.kernels.cpu import masked_max as kernel

    return kernel.masked_max_gradient(upstream, x, mask, largest, count)


@masked_max_gradient.register_fake
def _(upstream: Tensor, x: Tensor, mask: Tensor | None, largest: Tensor, count: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.preserve_format) if x.stride(2) == 1 else x.new_empty(x.shape)


def _backward(
    upstream: Gradients, saved: Gradients, needed: frozenset[str], *, x: Tensor, mask: Tensor | None
) -> Gradients:
    (of_largest, _), (largest, count) = upstream, saved
    if of_largest is None:
        return (None,)
    return (masked_max_gradient(of_largest, x, mask, largest, count),)


def _plain(x: Tensor, mask: Tensor | None) -> tuple[Tensor]:
    return (_in_torch(x, mask),)


register_gradient(masked_max_in_kernel, ("x",), lambda outputs, **_: tuple(outputs), _backward, through(_plain, ("x",)))
FLOPS |= {"masked_max": elementwise, "masked_max_gradient": elementwise}
