"""Tensors as flat arrays and strides: what compiled loops read and write.

Tensors come in through their memory, not their shape. LLVM vectorises a loop over a 1-D slice, and does not over three
indices.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gatedrnn.shapes import Flags, Series


class Memory(NamedTuple):
    """A series: its numbers, and how far apart sequences and steps are in them."""

    numbers: np.ndarray
    batch: int
    time: int
    offset: int = 0
    """Where the first step of the first sequence begins; negative if only later ones are there."""


def series(x: Series) -> Memory:
    """(batch, time, channels) as it lies in memory; copied only if channels are apart, or for float16.

    Strides of zero come in too: the backward of a sum hands over one number expanded to the whole shape.
    """
    if x.dtype == torch.float16:
        x = x.float()
    if x.stride(2) != 1 and x.shape[2] > 1:
        x = x.contiguous()
    if x.is_contiguous():
        return Memory(flat(x), x.shape[1] * x.shape[2], x.shape[2])
    span = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
    return Memory(numbers(x.detach().as_strided((span,), (1,))), x.stride(0), x.stride(1))


def flat(x: Tensor) -> np.ndarray:
    """A contiguous tensor's numbers."""
    return numbers((x.detach() if x.requires_grad else x).view(-1))


def flags(x: Flags | None) -> np.ndarray:
    """(batch, time) in a row; empty for None."""
    return np.empty(0, np.bool_) if x is None else flat(x.contiguous())


def numbers(x: Tensor) -> np.ndarray:
    """A tensor without a graph as numpy has it; of bfloat16, which it has not, the bits."""
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(np.uint16)
    return x.numpy()
