"""Dropout with torch's own mask, drawn faster where torch's loop draws one element at a time."""

import torch
from torch import Tensor
from torch.nn import functional

from gatedrnn.kernels.backends import has_cpu_kernels, observed
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
    if training and 0 < rate < 1 and not observed(x) and x.is_floating_point() and has_cpu_kernels(x.device):
        # Read through its memory, so that nothing may follow the call.
        from gatedrnn.kernels.cpu import dropout as kernel

        mask, scale = torch.empty_like(x), torch.ones((), dtype=x.dtype).div_(1 - rate)
        in_order = mask.is_contiguous() or (mask.dim() == 3 and time_first(mask))  # elements are drawn as they lie
        if in_order and kernel.draws_as_torch():
            kernel.fill_dropout_mask(mask, 1 - rate, scale, torch.default_generator)
            return x * mask
    return functional.dropout(x, rate, training)
