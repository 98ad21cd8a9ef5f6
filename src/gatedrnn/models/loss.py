"""The loss of a language model, without all of its logits ever in memory."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, nll_loss

PIECE = 1 << 25
"""Logits at a time: 128 MiB in float32."""


def next_token_loss(hidden: Tensor, weight: Tensor, labels: Tensor, items: Tensor | int | None = None) -> Tensor:
    """Mean cross-entropy of logits hidden @ weight.T, float32; its gradient is worked out on the way.

    Args:
        hidden: (batch, time, width).
        weight: (vocab_size, width).
        labels: (batch, time); -100 does not count.
        items: what to divide the sum by instead of the labels that count: those of all batches that are accumulated.
    """
    rows, wanted = hidden.flatten(0, -2), labels.flatten()
    total = items if items is not None else (wanted != -100).sum()
    narrow = torch.get_autocast_dtype(hidden.device.type) if torch.is_autocast_enabled(hidden.device.type) else None
    return _LinearCrossEntropy.apply(rows, weight, wanted, narrow) / total


class _LinearCrossEntropy(torch.autograd.Function):
    """The sum over rows. Logits of a piece become their own gradient, which is multiplied out at once."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, labels: Tensor, narrow: torch.dtype | None) -> Tensor:
        dtype = narrow or rows.dtype
        inputs, matrix = rows.to(dtype), weight.to(dtype)
        of_rows, of_weight = ctx.needs_input_grad[:2]
        grad_rows = torch.empty_like(inputs) if of_rows else None
        wide = torch.promote_types(dtype, torch.float32)
        grad_weight = torch.zeros(weight.shape, dtype=wide, device=weight.device) if of_weight else None
        total = rows.new_zeros((), dtype=wide)
        step = max(1, PIECE // len(weight))
        for start in range(0, len(rows), step):
            piece, wanted = inputs[start : start + step], labels[start : start + step]
            scores = log_softmax(piece @ matrix.t(), 1, dtype=wide)
            total += nll_loss(scores, wanted, reduction="sum")
            if not (of_rows or of_weight):
                continue
            grad = scores.exp_()
            grad[torch.arange(len(wanted), device=grad.device), wanted.clamp(min=0)] -= 1
            grad = grad.mul_((wanted != -100).unsqueeze(1)).to(dtype)
            if grad_rows is not None:
                torch.mm(grad, matrix, out=grad_rows[start : start + step])
            if grad_weight is not None:
                grad_weight += grad.t() @ piece
        ctx.save_for_backward(grad_rows, grad_weight)
        ctx.dtypes = rows.dtype, weight.dtype
        return total

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        grads = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        of_rows, of_weight = (None if g is None else (g * upstream).to(dtype) for g, dtype in grads)
        return of_rows, of_weight, None, None
