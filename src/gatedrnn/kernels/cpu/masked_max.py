"""The maximum over the steps of a series, and its gradient: the series is read once, forward and backward."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gatedrnn.kernels.cpu.compile import FAST, compiled
from gatedrnn.kernels.cpu.threads import Kernel, share_out, threads_for
from gatedrnn.kernels.cpu.views import borrowed, clear, flags, flat, strided, view
from gatedrnn.shapes import Flags, Series, Step


def masked_max(x: Series, mask: Flags | None) -> tuple[Step, Tensor]:
    """Maxima over the real steps, and by how many steps each is reached, both (batch, channels).

    Args:
        x: (batch, time, channels), float32 or float64. NaN is a maximum.
        mask: (batch, time), True = real step; None if all are. A sequence without any has 0, reached by no step.
    """
    batch, steps, channels = x.shape
    largest, count = x.new_zeros(batch, channels), x.new_zeros(batch, channels)
    read = strided(x)
    share_out(_FORWARD, batch, threads_for(x.numel()), steps, channels, *read, flags(mask), flat(largest), flat(count))
    return largest, count


def masked_max_gradient(upstream: Step, x: Series, mask: Flags | None, largest: Step, count: Tensor) -> Series:
    """The gradient of x: the upstream one where a step reaches the maximum, shared where several do."""
    batch, steps, channels = x.shape
    # In memory as x, whose layer reads it next.
    grad_x = torch.empty_like(x, memory_format=torch.preserve_format)
    if grad_x.stride(2) != 1:
        grad_x = torch.empty(x.shape, dtype=x.dtype)
    each = (upstream / count.clamp(min=1)).contiguous()
    read, (written, batch_stride, time_stride) = strided(x), strided(grad_x)
    share_out(
        _BACKWARD, batch, threads_for(x.numel()), steps, channels, *read, flags(mask), flat(largest.contiguous()),
        flat(each), written, batch_stride, time_stride,
    )  # fmt: skip
    return grad_x


@compiled(**FAST)
def _forward(
    first: int, last: int, steps: int, channels: int, x: Any, batch_stride: int, time_stride: int, mask: Any,
    largest: Any, count: Any,
) -> None:  # fmt: skip
    one = np.ones(1, x.dtype)[0]
    x, largest, count = borrowed(x), borrowed(largest), borrowed(count)
    for b in range(first, last):
        found, reached = view(largest, b * channels, channels), view(count, b * channels, channels)
        begun = False
        for t in range(steps):
            if mask.size and not mask[b * steps + t]:
                continue
            row = view(x, b * batch_stride + t * time_stride, channels)
            if not begun:
                begun = True
                for j in range(channels):
                    found[j] = row[j]
                    reached[j] = one
                continue
            for j in range(channels):
                value, before = row[j], found[j]
                larger = (value > before) | (value != value)
                reached[j] = one if larger else reached[j] + (one if value == before else one - one)
                found[j] = value if larger else before


@compiled(**FAST)
def _backward(
    first: int, last: int, steps: int, channels: int, x: Any, batch_stride: int, time_stride: int, mask: Any,
    largest: Any, each: Any, gradient: Any, gradient_batch_stride: int, gradient_time_stride: int,
) -> None:  # fmt: skip
    zero = np.zeros(1, x.dtype)[0]
    x, largest, each, gradient = borrowed(x), borrowed(largest), borrowed(each), borrowed(gradient)
    for b in range(first, last):
        found, upstream = view(largest, b * channels, channels), view(each, b * channels, channels)
        for t in range(steps):
            to = view(gradient, b * gradient_batch_stride + t * gradient_time_stride, channels)
            if mask.size and not mask[b * steps + t]:
                clear(to)
                continue
            row = view(x, b * batch_stride + t * time_stride, channels)
            for j in range(channels):
                to[j] = upstream[j] if row[j] == found[j] else zero


_FORWARD, _BACKWARD = Kernel.of(_forward), Kernel.of(_backward)
