"""The loss of a language model, a chunk of logits at a time in memory."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear, log_softmax, nll_loss

from gatedrnn.kernels.backends import observed
from gatedrnn.kernels.matmul import add_product_over_rows, product, product_into, product_over_rows
from gatedrnn.shapes import Features, Table, Tokens

CHUNK = 1 << 25
"""The number of logits in a chunk: 128 MiB in float32."""


def next_token_loss(
    hidden: Features, weight: Table, labels: Tokens, items: Tensor | int | None = None, logits: Tensor | None = None
) -> Tensor:  # fmt: skip
    """Mean cross-entropy of logits hidden @ weight.T, float32; its gradient is computed in the same pass.

    Args:
        hidden: (batch, time, width).
        weight: (vocab_size, width).
        labels: (batch, time); -100 does not count.
        items: divisor of the sum: the labels of all batches under gradient accumulation; those of this batch if None.
        logits: hidden @ weight.T, (batch, time, vocab_size), where the caller needs them too; computed if None. The
            gradient does not go through them.
    """
    rows, wanted = hidden.flatten(0, -2), labels.flatten()
    if torch.compiler.is_compiling():  # where a number that depends on the labels would end the graph
        scores = linear(rows, weight) if logits is None else logits.flatten(0, -2)
        wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
        counted = (wanted != -100).sum() if items is None else items
        return cross_entropy(wide, wanted, ignore_index=-100, reduction="sum") / counted
    total = float(items if items is not None else (wanted != -100).sum())
    factor, given = 1 / total if total else math.nan, None if logits is None else logits.detach().flatten(0, -2)
    return _LinearCrossEntropy.apply(rows, weight, wanted, _product_dtype(hidden), factor, given)


@torch.no_grad()
def token_losses(hidden: Features, weight: Table, labels: Tokens) -> Tensor:
    """Cross-entropy of each label, (batch, time), float32; 0 for -100. Arguments as in `next_token_loss`."""
    dtype = _product_dtype(hidden)
    rows, matrix, wanted = hidden.flatten(0, -2).to(dtype), weight.to(dtype), labels.flatten()
    step = max(1, CHUNK // len(weight))
    chunks = [
        _cross_entropy(_logits(rows[start : start + step], matrix, None), wanted[start : start + step], None)
        for start in range(0, len(rows), step)
    ]
    return torch.cat(chunks).view(labels.shape)


class _LinearCrossEntropy(torch.autograd.Function):
    """The sum over rows, times `factor`; the gradient overwrites a chunk's logits and is multiplied at once."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, labels: Tensor, dtype: torch.dtype, factor: float, given: Tensor | None
    ) -> Tensor:  # fmt: skip
        inputs, matrix = rows.to(dtype), weight.to(dtype)
        of_rows, of_weight = ctx.needs_input_grad[:2]
        grad_rows = torch.empty_like(inputs) if of_rows else None
        wide = torch.promote_types(dtype, torch.float32)
        grad_weight: Tensor | None = None
        total = rows.new_zeros((), dtype=wide)
        step = max(1, CHUNK // len(weight))
        for start in range(0, len(rows), step):
            chunk, wanted = inputs[start : start + step], labels[start : start + step]
            logits = _logits(chunk, matrix, None if given is None else given[start : start + step])
            total += _cross_entropy(logits, wanted, factor if of_rows or of_weight else None).sum()
            if grad_rows is not None:
                product_into(grad_rows[start : start + step], logits, matrix.t())
            if of_weight and grad_weight is None:
                grad_weight = product_over_rows(logits, chunk).to(wide)
            elif grad_weight is not None:
                add_product_over_rows(grad_weight, logits, chunk)
        ctx.save_for_backward(grad_rows, grad_weight)
        ctx.dtypes = rows.dtype, weight.dtype
        return total * factor

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        # The loss is usually what backward begins with; then a pass over the weights' gradient is saved.
        as_it_is = upstream.device.type == "cpu" and upstream.item() == 1
        grads = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        of_rows, of_weight = (None if g is None else (g if as_it_is else g * upstream).to(dtype) for g, dtype in grads)
        return of_rows, of_weight, None, None, None, None


def _logits(rows: Tensor, matrix: Tensor, given: Tensor | None) -> Tensor:
    """rows @ matrix.T in memory that may be overwritten: a copy of them where they are given."""
    if not rows.is_cpu or observed(rows):  # a mode's tensors must not be there in the next call
        return rows @ matrix.t() if given is None else given.to(rows.dtype, copy=True)
    from gatedrnn.kernels.cpu.scratch import scratch

    memory = scratch(len(rows), len(matrix), rows.dtype)
    return product(rows, matrix, memory) if given is None else memory.copy_(given)


def _product_dtype(hidden: Tensor) -> torch.dtype:
    """Return the dtype of matrix products: narrow under autocast."""
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype


def _cross_entropy(logits: Tensor, labels: Tensor, scale: float | None) -> Tensor:
    """-log softmax(logits)[label] of every row, computed in float32 at least; 0 where the label is -100.

    Unless None, the gradient of their sum times `scale` overwrites `logits`.
    """
    if logits.device.type == "cpu" and logits.dtype != torch.float16:
        from gatedrnn.kernels.cpu.cross_entropy import cross_entropy

        return cross_entropy(logits, labels, scale)
    scores = log_softmax(logits, 1, dtype=torch.promote_types(logits.dtype, torch.float32))
    losses = nll_loss(scores, labels, reduction="none")
    if scale is not None:
        grad = scores.exp_()
        grad[torch.arange(len(labels), device=grad.device), labels.clamp(min=0)] -= 1
        logits.copy_(grad.mul_((labels != -100).unsqueeze(1) * scale))
    return losses
