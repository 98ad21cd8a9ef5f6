"""Tensors as flat arrays and strides: what compiled loops read and write.

Tensors come in through their memory, not their shape. LLVM vectorises a loop over a 1-D slice, and does not over three
indices.
"""

import ctypes
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gatedrnn.shapes import Flags, Series

BYTES = ctypes.c_char * (1 << 62)  # how many there are is said where they are read
DTYPES: dict[torch.dtype, Any] = {
    torch.float64: np.dtype(np.float64), torch.float32: np.dtype(np.float32), torch.bfloat16: np.dtype(np.uint16),
    torch.int64: np.dtype(np.int64), torch.bool: np.dtype(np.bool_),
}  # fmt: skip


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
    return Memory(_array(x, span), x.stride(0), x.stride(1))


def flat(x: Tensor) -> np.ndarray:
    """A contiguous tensor's numbers."""
    assert x.is_contiguous()
    return _array(x, x.numel())


def flags(x: Flags | None) -> np.ndarray:
    """(batch, time) in a row; empty for None."""
    return np.empty(0, np.bool_) if x is None else flat(x.contiguous())


def _array(x: Tensor, size: int) -> np.ndarray:
    """So many numbers of a tensor, from its first on as they lie in memory; of bfloat16 the bits.

    Not `Tensor.numpy`, after which no storage can be resized: FSDP frees the parameters of a layer by that.
    """
    assert x.is_cpu
    memory: Any = BYTES.from_address(x.data_ptr())
    memory.tensor = x  # which lives as long as the array does
    return np.ndarray(size, DTYPES[x.dtype], memory)
