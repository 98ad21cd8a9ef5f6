"""Models small enough for any test, with weights large enough for every gate to leave its linear range."""

import pytest
import torch

from gatedrnn.layers import LAYERS
from gatedrnn.models import GatedRNNConfig

VOCABULARY, FEATURES, EMBEDDING, HIDDEN, LABELS = 11, 3, 6, 5, 4
PAD, UNK = 0, 1  # the configuration's own defaults; `tokens` draws neither
KINDS = {"tokens": {"vocab_size": VOCABULARY}, "numbers": {"input_size": FEATURES}}
EVERY_POOLING = ("last", "mean", "max")

every_cell = pytest.mark.parametrize("cell", LAYERS)
every_build = pytest.mark.parametrize("block", [False, True], ids=["plain", "block"])
every_kind = pytest.mark.parametrize("kind", KINDS)


def config_of(kind="tokens", **fields):
    chosen = {"embedding_size": EMBEDDING, "hidden_size": HIDDEN, "num_hidden_layers": 2, "num_labels": LABELS}
    return GatedRNNConfig(**(KINDS[kind] | chosen | fields))


def model_of(head, kind="tokens", dtype=torch.float64, **fields):
    """A model in eval mode."""
    model = head(config_of(kind, **fields)).to(dtype).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.7)
    return model


def inputs_of(kind, *shape, dtype=torch.float64):
    """Random inputs without padding, as an argument of forward."""
    if kind == "tokens":
        return {"input_ids": tokens(*shape)}
    return {"input_values": torch.randn(*shape, FEATURES, dtype=dtype)}


def tokens(*shape):
    return torch.randint(2, VOCABULARY, shape)
