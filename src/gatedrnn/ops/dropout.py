"""Dropout whose mask is torch's own, drawn faster where torch's loop goes number by number."""

import torch
from torch import Tensor
from torch.nn import functional

from gatedrnn.ops.backends import has_cpu_kernels, native_kernels, observed
from gatedrnn.shapes import time_first


def dropout(x: Tensor, rate: float, training: bool = True) -> Tensor:
    """`torch.nn.functional.dropout`, value for value: the same seed drops the same elements.

    Args:
        x: of any shape.
        rate: probability with which an element is zeroed; the others are divided by 1 - rate.
        training: False to return x.

    Example:
        >>> dropped = dropout(torch.ones(1000), 0.5)
        >>> sorted(set(dropped.tolist()))
        [0.0, 2.0]
    """
    if training and 0 < rate < 1 and _has_kernel(x):
        mask, kept = torch.empty_like(x), torch.ones((), dtype=x.dtype).div_(1 - rate)
        if mask.is_contiguous() or (mask.dim() == 3 and time_first(mask)):  # elements are drawn in the order of memory
            native_kernels(x.device).fill_dropout_mask(mask, 1 - rate, kept, torch.default_generator)
            return x * mask
    return functional.dropout(x, rate, training)


def _has_kernel(x: Tensor) -> bool:
    """Whether a kernel draws for x: it is read through its memory, so that nothing may follow the call."""
    if observed(x) or not x.is_floating_point() or not has_cpu_kernels(x.device):
        return False
    found: bool = native_kernels(x.device).draws_as_torch()
    return found
