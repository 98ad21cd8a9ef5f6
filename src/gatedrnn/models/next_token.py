"""The loss of a language model: the cross-entropy of the next token, with few logits in memory."""

from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from gatedrnn.kernels.matmul import linear
from gatedrnn.shapes import Features, Table, Tokens

CHUNK = 1 << 25
"""The number of logits that a loss keeps for its backward: 128 MiB in float32. Beyond it, logits are computed by chunks
of so many, and once more in the backward."""


def next_token_loss(
    hidden: Features, weight: Table, labels: Tokens, items: Tensor | int | None = None, logits: Tensor | None = None
) -> Tensor:  # fmt: skip
    """Mean cross-entropy of logits hidden @ weight.T, in float32 at least.

    Args:
        hidden: (batch, time, width).
        weight: (vocab_size, width).
        labels: (batch, time); -100 does not count.
        items: divisor of the sum: the labels of all batches under gradient accumulation; those of this batch if None.
        logits: hidden @ weight.T, (batch, time, vocab_size), where the caller needs them too; computed if None.
    """
    counted = (labels != -100).sum() if items is None else items
    if logits is not None:
        return _cross_entropy(logits.flatten(0, -2), labels.flatten(), "sum") / counted
    rows, wanted = hidden.flatten(0, -2), labels.flatten()
    if torch.compiler.is_compiling() or len(rows) * len(weight) <= CHUNK:  # a graph may have any number of rows
        return _of_rows(rows, weight, wanted) / counted
    step = max(1, CHUNK // len(weight))
    chunks = zip(rows.split(step), wanted.split(step), strict=True)
    sums = [cast(Tensor, checkpoint(_of_rows, some, weight, labels, use_reentrant=False)) for some, labels in chunks]
    return torch.stack(sums).sum() / counted


@torch.no_grad()
def token_losses(hidden: Features, weight: Table, labels: Tokens) -> Tensor:
    """Cross-entropy of each label, (batch, time), float32; 0 for -100. Arguments as in `next_token_loss`."""
    step = max(1, CHUNK // len(weight))
    chunks = zip(hidden.flatten(0, -2).split(step), labels.flatten().split(step), strict=True)
    losses = [_of_rows(rows, weight, wanted, "none") for rows, wanted in chunks]
    return torch.cat(losses).view(labels.shape)


def _of_rows(rows: Tensor, weight: Table, labels: Tensor, reduction: str = "sum") -> Tensor:
    return _cross_entropy(linear(rows, weight), labels, reduction)


def _cross_entropy(logits: Tensor, labels: Tensor, reduction: str) -> Tensor:
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return cross_entropy(wide, labels, ignore_index=-100, reduction=reduction)
