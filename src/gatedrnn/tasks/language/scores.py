"""Scores of language models: perplexity and bits per byte."""

import math

import numpy as np
import torch

from gatedrnn.data import Lanes
from gatedrnn.models import GatedRNNForCausalLM
from gatedrnn.training.metrics import Evaluation
from gatedrnn.training.outcomes import of_text
from gatedrnn.training.result import Scores


def evaluate_text(model: GatedRNNForCausalLM, text: Lanes) -> Evaluation:
    """Evaluate a text from its first token to its last with one state, in float32 whatever the training was in."""
    losses = token_losses(model, text)
    return Evaluation(text_scores(losses, text.stream.text_bytes), of_text(losses, text.stream.starts))


def text_scores(losses: np.ndarray, text_bytes: int) -> Scores:
    """Perplexity and bits per byte, from the loss of each token in nats, (tokens,)."""
    nats = float(losses.sum())
    return Scores(
        loss=nats / len(losses),
        perplexity=math.exp(min(nats / len(losses), 700.0)),
        bits_per_byte=nats / math.log(2) / text_bytes,
        tokens=len(losses),
    )


@torch.no_grad()
def token_losses(model: GatedRNNForCausalLM, text: Lanes) -> np.ndarray:
    """The loss of each token of a text in nats, (tokens,), float64: read as one lane, the state carried throughout."""
    state, losses = None, []
    for index in range(text.steps_per_epoch(1)):
        batch = {name: tensor.to(model.device) for name, tensor in text.batch(0, 0, index, 1).items()}
        chunk_losses, state = model.token_losses(**batch, past_key_values=state)
        losses.append(chunk_losses[0].double().cpu())
    return torch.cat(losses).numpy()
