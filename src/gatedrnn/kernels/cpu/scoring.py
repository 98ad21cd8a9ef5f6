"""Cross-entropy over rows of scores, and its gradient in their place: each row is read once and written once."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gatedrnn.kernels.cpu.compiling import compiled
from gatedrnn.kernels.cpu.memory import flat
from gatedrnn.kernels.cpu.numbers import FAST, ZERO, borrowed, exp, part, store, widened
from gatedrnn.kernels.cpu.threads import Kernel, share_out, threads_for

LANES = 16  # sums and maxima that go on beside each other, so that LLVM has a vector for them
SUMMED = FAST | {"fastmath": {"contract", "reassoc", "nsz"}}  # the order of a sum is free


def cross_entropy(scores: Tensor, labels: Tensor, turn: float | None) -> Tensor:
    """-log softmax(scores)[label] of every row; 0 where the label is negative.

    Args:
        scores: (rows, classes), contiguous; float64, float32 or bfloat16. Computed in float32 at least.
        labels: (rows,), int64, each below `classes`.
        turn: the gradient of the losses' sum, times this, is to stand in the place of `scores`; None to leave them.
    """
    wide = torch.promote_types(scores.dtype, torch.float32)
    losses = torch.empty(len(scores), dtype=wide)
    rows, classes = scores.shape
    arguments = (classes, flat(scores), flat(labels.contiguous()), flat(losses), turn is not None, turn or 0.0)
    share_out(_CROSS_ENTROPY, rows, threads_for(scores.numel()), *arguments)
    return losses


@compiled(**SUMMED)
def _cross_entropy(
    first: int, last: int, classes: int, scores: Any, labels: Any, losses: Any, turned: bool, factor: float
) -> None:  # fmt: skip
    room, lent, scale = np.empty(classes, losses.dtype), borrowed(scores), np.full(1, factor, losses.dtype)[0]
    for r in range(first, last):
        row = part(lent, r * classes, classes)
        label = labels[r]
        if label < 0:
            losses[r] = ZERO
            if turned:
                row[:] = 0
            continue
        read = widened(row, borrowed(room))
        largest = _largest(read)
        chosen = read[label]
        if not turned:
            losses[r] = _sum_of_powers(read, largest)
        else:
            losses[r] = _turn_into_powers(read, largest)
            share = scale / losses[r]
            for j in range(classes):
                read[j] *= share
            read[label] -= scale
            store(read, row)
        losses[r] = math.log(losses[r]) + (largest - chosen)


@compiled(**SUMMED)
def _largest(row: Any) -> Any:
    whole = row.size - row.size % LANES
    lanes = np.full(LANES, row[0])
    for j in range(0, whole, LANES):
        for k in range(LANES):
            lanes[k] = row[j + k] if row[j + k] > lanes[k] else lanes[k]
    found = lanes[0]
    for k in range(LANES):
        found = lanes[k] if lanes[k] > found else found
    for j in range(whole, row.size):
        found = row[j] if row[j] > found else found
    return found


@compiled(**SUMMED)
def _sum_of_powers(row: Any, largest: Any) -> Any:
    total = largest - largest
    for j in range(row.size):
        total += exp(row[j] - largest)
    return total


@compiled(**SUMMED)
def _turn_into_powers(row: Any, largest: Any) -> Any:
    # One array alone: LLVM gives up a loop over two that may be the same.
    total = largest - largest
    for j in range(row.size):
        power = exp(row[j] - largest)
        row[j] = power
        total += power
    return total


_CROSS_ENTROPY = Kernel.of(_cross_entropy)
