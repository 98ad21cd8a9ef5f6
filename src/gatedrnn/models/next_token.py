"""The loss of a language model: the cross-entropy of the next token, with few logits in memory."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from gatedrnn.kernels.backends import plain_torch_only
from gatedrnn.kernels.matmul import add_weight_grad, linear
from gatedrnn.kernels.op import gradients_with_graph
from gatedrnn.shapes import Features, Table, Tokens

CHUNK = 1 << 22
"""The number of logits that are in memory at once: 16 MiB in float32. Where there are more, the gradient is computed
with the loss, chunk by chunk."""


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
    # A graph may have any number of rows, and a transform follows operations of torch alone.
    if torch.compiler.is_compiling() or plain_torch_only() or len(rows) * len(weight) <= CHUNK:
        return _of_rows(rows, weight, wanted) / counted
    return _ByChunks.apply(rows, weight, wanted) / counted


class _ByChunks(torch.autograd.Function):
    """The sum of losses, with its gradients: no logit is computed twice."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Table, labels: Tensor) -> Tensor:
        wide, (of_rows, of_weight, _) = torch.promote_types(rows.dtype, torch.float32), ctx.needs_input_grad
        loss = torch.zeros((), dtype=wide, device=rows.device)
        grad_weight = torch.zeros(weight.shape, dtype=wide, device=rows.device) if of_weight else None
        grads: list[Tensor] = []
        for some, wanted in _chunks(rows, weight, labels):
            logs, counted = linear(some, weight).to(wide).log_softmax(1), wanted != -100
            index = wanted.clamp(min=0).unsqueeze(1)
            loss -= logs.gather(1, index).masked_select(counted.unsqueeze(1)).sum()
            if not (of_rows or of_weight):
                continue
            # The gradient of logits: softmax, less 1 at the label.
            slope = logs.exp_().scatter_add_(1, index, torch.full_like(index, -1, dtype=wide))
            slope = slope.mul_(counted.unsqueeze(1)).to(some.dtype)
            if of_rows:
                grads.append(linear(slope, weight.t()).to(rows.dtype))
            if grad_weight is not None:
                add_weight_grad(grad_weight, slope, some)
        ctx.save_for_backward(
            rows, weight, labels, torch.cat(grads) if grads else None,
            None if grad_weight is None else grad_weight.to(weight.dtype),
        )  # fmt: skip
        return loss

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, labels, *gradients = ctx.saved_tensors
        if torch.is_grad_enabled():  # with a graph of its own
            by_torch = gradients_with_graph(lambda x, w: (_of_rows(x, w, labels),), [rows, weight], [upstream])
            return *by_torch, None
        return *(None if each is None else each * upstream.to(each.dtype) for each in gradients), None


@torch.no_grad()
def token_losses(hidden: Features, weight: Table, labels: Tokens) -> Tensor:
    """Cross-entropy of each label, (batch, time), float32; 0 for -100. Arguments as in `next_token_loss`."""
    chunks = _chunks(hidden.flatten(0, -2), weight, labels.flatten())
    losses = [_of_rows(rows, weight, wanted, "none") for rows, wanted in chunks]
    return torch.cat(losses).view(labels.shape)


def _chunks(rows: Tensor, weight: Table, labels: Tensor) -> "zip[tuple[Tensor, Tensor]]":
    step = max(1, CHUNK // len(weight))
    return zip(rows.split(step), labels.split(step), strict=True)


def _of_rows(rows: Tensor, weight: Table, labels: Tensor, reduction: str = "sum") -> Tensor:
    return _cross_entropy(linear(rows, weight), labels, reduction)


def _cross_entropy(logits: Tensor, labels: Tensor, reduction: str) -> Tensor:
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return cross_entropy(wide, labels, ignore_index=-100, reduction=reduction)
