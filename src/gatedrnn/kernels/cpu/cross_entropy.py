"""Cross-entropy over rows of scores, and its gradient written over them: each row is read once and written once."""

import math
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from gatedrnn.kernels.cpu.compile import INLINED, REORDERED, compiled
from gatedrnn.kernels.cpu.functions import ZERO, exp
from gatedrnn.kernels.cpu.threads import Kernel, share_out, threads_for
from gatedrnn.kernels.cpu.views import borrowed, flat, store, view, widened

# Inlined: of a function apart, a process that compiles it runs another copy than one that loads it from disk, and where
# sums are reordered the two differ in their last bits.
INLINED_REORDERED = INLINED | {"fastmath": REORDERED["fastmath"]}
LANES = 16  # maxima that are found side by side, so that LLVM has a vector for them


def cross_entropy(scores: Tensor, labels: Tensor, gradient_scale: float | None) -> Tensor:
    """-log softmax(scores)[label] of every row; 0 where the label is negative.

    Args:
        scores: (rows, classes), contiguous; float64, float32 or bfloat16. Computed in float32 at least.
        labels: (rows,), int64, each below `classes`.
        gradient_scale: `scores` are replaced by the gradient of the losses' sum times this; None leaves them.
    """
    wide = torch.promote_types(scores.dtype, torch.float32)
    losses = torch.empty(len(scores), dtype=wide)
    rows, classes = scores.shape
    share_out(
        _CROSS_ENTROPY, rows, threads_for(scores.numel()), classes, flat(scores), flat(labels.contiguous()),
        flat(losses), gradient_scale is not None, gradient_scale or 0.0,
    )  # fmt: skip
    return losses


@compiled(**REORDERED)
def _cross_entropy(
    first: int, last: int, classes: int, scores: Any, labels: Any, losses: Any, differentiated: bool, scale: float
) -> None:  # fmt: skip
    scratch, factor = np.empty(classes, losses.dtype), np.full(1, scale, losses.dtype)[0]
    scores = borrowed(scores)
    for r in range(first, last):
        row = view(scores, r * classes, classes)
        label = labels[r]
        if label < 0:
            losses[r] = ZERO
            if differentiated:
                row[:] = 0
            continue
        read = widened(row, borrowed(scratch))
        largest = _largest(read)
        chosen = read[label]
        if not differentiated:
            losses[r] = _sum_of_powers(read, largest)
        else:
            losses[r] = _replace_by_powers(read, largest)
            share = factor / losses[r]
            for j in range(classes):
                read[j] *= share
            read[label] -= factor
            store(read, row)
        losses[r] = math.log(losses[r]) + (largest - chosen)


@numba.njit(**INLINED_REORDERED)
def _largest(row: Any) -> Any:
    whole = row.size - row.size % LANES
    lanes = np.full(LANES, row[0])
    for j in range(0, whole, LANES):
        for k in range(LANES):
            lanes[k] = row[j + k] if row[j + k] > lanes[k] else lanes[k]
    largest = lanes[0]
    for k in range(LANES):
        largest = lanes[k] if lanes[k] > largest else largest
    for j in range(whole, row.size):
        largest = row[j] if row[j] > largest else largest
    return largest


@numba.njit(**INLINED_REORDERED)
def _sum_of_powers(row: Any, largest: Any) -> Any:
    total = largest - largest
    for j in range(row.size):
        total += exp(row[j] - largest)
    return total


@numba.njit(**INLINED_REORDERED)
def _replace_by_powers(row: Any, largest: Any) -> Any:
    # One array alone: LLVM gives up a loop over two that may be the same.
    total = largest - largest
    for j in range(row.size):
        power = exp(row[j] - largest)
        row[j] = power
        total += power
    return total


_CROSS_ENTROPY = Kernel.of(_cross_entropy)
