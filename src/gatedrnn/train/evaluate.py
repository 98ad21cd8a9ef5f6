"""Scores of a model while its run is under way, and at its end: accuracy, or perplexity and bits per byte."""

import math
from typing import Any, TypeAlias

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn

from gatedrnn.data import Examples, Lanes
from gatedrnn.models import GatedRNNForCausalLM

Scores: TypeAlias = dict[str, Any]
"""Numbers by name; a "loss" always, in nats per label."""
GROUPS = 200
"""Of documents whose losses are kept apart; where there are more documents, neighbours share a group."""


@torch.no_grad()
def evaluate(model: nn.Module, split: Examples | Lanes, accelerator: Accelerator) -> Scores:
    """Scores of `model` on every example, or every token, once."""
    was_training = model.training
    model.eval()
    if isinstance(split, Lanes):
        scores = _text(model, split)
    else:
        scores = (_numbers if split.within else _classes)(model, split, accelerator)
    model.train(was_training)
    return scores


def _classes(model: Any, examples: Examples, accelerator: Accelerator) -> Scores:
    """`confusion[true][predicted]` counts labels; a step labelled -100 does not count anywhere."""
    classes = model.num_labels
    confusion = torch.zeros(classes * classes, dtype=torch.int64)
    loss = 0.0
    for batch in examples.evaluation_batches():
        with accelerator.autocast():
            output = model(**{name: tensor.to(accelerator.device) for name, tensor in batch.items()})
        labels = batch["labels"]
        predicted = output.logits.argmax(-1).cpu()
        counted = labels != -100
        loss += output.loss.item() * int(counted.sum())
        confusion += torch.bincount(labels[counted] * classes + predicted[counted], minlength=classes * classes)
    total = int(confusion.sum())
    table = confusion.view(classes, classes)
    return {"loss": loss / total, "accuracy": int(table.trace()) / total, "confusion": table.tolist()}


def _numbers(model: Any, examples: Examples, accelerator: Accelerator) -> Scores:
    """The mean squared error, and the share of answers that are near enough."""
    loss, right = 0.0, 0
    for batch in examples.evaluation_batches():
        with accelerator.autocast():
            output = model(**{name: tensor.to(accelerator.device) for name, tensor in batch.items()})
        off = output.logits[:, 0].float().cpu() - batch["labels"]
        loss += float(off.square().sum())
        right += int((off.abs() < examples.within).sum())
    return {"loss": loss / len(examples), "accuracy": right / len(examples)}


def _text(model: Any, text: Lanes) -> Scores:
    """From the first token to the last with one state, in float32 whatever the training was in."""
    losses = token_losses(model, text)
    stream = text.stream
    nats = float(losses.sum())
    return {
        "loss": nats / len(losses),
        "perplexity": math.exp(min(nats / len(losses), 700.0)),
        "bits_per_byte": nats / math.log(2) / stream.text_bytes,
        "tokens": len(losses),
        "documents": _by_document(losses, stream.starts),
    }


@torch.no_grad()
def token_losses(model: GatedRNNForCausalLM, text: Lanes) -> np.ndarray:
    """The loss of each token of a text in nats, (tokens,), float64: read as one lane, the state carried throughout."""
    state, losses = None, []
    for index in range(text.steps_per_epoch(1)):
        batch = {name: tensor.to(model.device) for name, tensor in text.batch(0, 0, index, 1).items()}
        found, state = model.token_losses(**batch, past_key_values=state)
        losses.append(found[0].double().cpu())
    return torch.cat(losses).numpy()


def _by_document(losses: np.ndarray, starts: np.ndarray) -> dict[str, list[float]]:
    """Tokens and nats of each document, or group of them: what an interval over documents is made from."""
    edges = np.asarray(starts) - 1
    if len(edges) > GROUPS:
        edges = edges[np.linspace(0, len(edges), GROUPS, endpoint=False).astype(int)]
    edges = edges[edges < len(losses)]
    counts = np.diff(np.append(edges, len(losses)))
    return {"tokens": counts.tolist(), "nats": np.add.reduceat(losses, edges).tolist()}
