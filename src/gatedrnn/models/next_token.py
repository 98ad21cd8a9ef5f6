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
    divisor = (labels != -100).sum() if items is None else items
    if logits is not None:
        return _cross_entropy(logits.flatten(0, -2), labels.flatten(), "sum") / divisor
    rows, targets = hidden.flatten(0, -2), labels.flatten()
    # A graph may have any number of rows, and a transform follows operations of torch alone.
    if torch.compiler.is_compiling() or plain_torch_only() or len(rows) * len(weight) <= CHUNK:
        return _loss_of_rows(rows, weight, targets) / divisor
    return _ByChunks.apply(rows, weight, targets) / divisor


class _ByChunks(torch.autograd.Function):
    """The sum of losses, with its gradients: no logit is computed twice."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Table, labels: Tensor) -> Tensor:
        wide, (needs_rows, needs_weight, _) = torch.promote_types(rows.dtype, torch.float32), ctx.needs_input_grad
        loss = torch.zeros((), dtype=wide, device=rows.device)
        grad_weight = torch.zeros(weight.shape, dtype=wide, device=rows.device) if needs_weight else None
        grad_rows: list[Tensor] = []
        for chunk, targets in _chunks(rows, weight, labels):
            log_probs, valid = linear(chunk, weight).to(wide).log_softmax(1), targets != -100
            # -100 is no index; what it gathers is masked out.
            index = targets.clamp(min=0).unsqueeze(1)
            loss -= log_probs.gather(1, index).masked_select(valid.unsqueeze(1)).sum()
            if not (needs_rows or needs_weight):
                continue
            # The gradient of logits: softmax, less 1 at the label.
            grad_logits = log_probs.exp_().scatter_add_(1, index, torch.full_like(index, -1, dtype=wide))
            # In the dtype of the rows: products with a wider one would take twice as long or be refused.
            grad_logits = grad_logits.mul_(valid.unsqueeze(1)).to(chunk.dtype)
            if needs_rows:
                grad_rows.append(linear(grad_logits, weight.t()).to(rows.dtype))
            if grad_weight is not None:
                add_weight_grad(grad_weight, grad_logits, chunk)
        # Rows, weight and labels are for second derivatives alone.
        ctx.save_for_backward(
            rows, weight, labels, torch.cat(grad_rows) if grad_rows else None,
            None if grad_weight is None else grad_weight.to(weight.dtype),
        )  # fmt: skip
        return loss

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, labels, *gradients = ctx.saved_tensors
        if torch.is_grad_enabled():  # with a graph of its own
            by_torch = gradients_with_graph(lambda x, w: (_loss_of_rows(x, w, labels),), [rows, weight], [upstream])
            return *by_torch, None
        return *(None if each is None else each * upstream.to(each.dtype) for each in gradients), None


@torch.no_grad()
def token_losses(hidden: Features, weight: Table, labels: Tokens) -> Tensor:
    """Cross-entropy of each label, (batch, time), float32; 0 for -100. Arguments as in `next_token_loss`."""
    chunks = _chunks(hidden.flatten(0, -2), weight, labels.flatten())
    losses = [_loss_of_rows(rows, weight, targets, "none") for rows, targets in chunks]
    return torch.cat(losses).view(labels.shape)


def _chunks(rows: Tensor, weight: Table, labels: Tensor) -> "zip[tuple[Tensor, Tensor]]":
    step = max(1, CHUNK // len(weight))
    return zip(rows.split(step), labels.split(step), strict=True)


def _loss_of_rows(rows: Tensor, weight: Table, labels: Tensor, reduction: str = "sum") -> Tensor:
    return _cross_entropy(linear(rows, weight), labels, reduction)


def _cross_entropy(logits: Tensor, labels: Tensor, reduction: str) -> Tensor:
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return cross_entropy(wide, labels, ignore_index=-100, reduction=reduction)
