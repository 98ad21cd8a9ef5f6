"""Saved models that the page shows, and the numbers that it should show."""

import torch

from gatedrnn.data.tokenizers import encode_stream, learn_tokenizer
from gatedrnn.inspect.trace import trace
from gatedrnn.layers import RecurrentLayer
from gatedrnn.models import (
    GatedRNNConfig,
    GatedRNNForCausalLM,
    GatedRNNForecastConfig,
    GatedRNNForForecasting,
    GatedRNNForSequenceClassification,
)
from gatedrnn.training.finished import open_finished

ALLOWED = 1e-5
TEXT = "The gate opens.\nThe state remembers, and it closes again. "
SERIES = [101.5, 98.0, float("nan"), 110.25, 99.0, 95.5, 107.0, 112.0, float("nan"), 97.0, 104.0, 115.0]


def saved(folder, cell="mingru", kind="characters", **fields):
    """A language model with drawn weights, as a run leaves it."""
    torch.manual_seed(0)
    tokenizer = learn_tokenizer(kind, TEXT.split("\n") if kind == "words" else [TEXT], 1, 300, stream=True)
    named = {"vocab_size": len(tokenizer), "embedding_size": 8, "hidden_size": 12, "num_hidden_layers": 2} | fields
    ends = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 1, "unk_token_id": 0}
    GatedRNNForCausalLM(GatedRNNConfig(cell=cell, **ends, **named)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def expected_of(folder, text):
    """Tokens; the whole sequence's logits; and of each layer its gates and decay, by `inspect` over the sequence."""
    model = GatedRNNForCausalLM.from_pretrained(folder).eval()
    tokenizer = open_finished(folder).tokenizer
    tokens = torch.tensor([[1, *next(encode_stream(tokenizer, [text]))]])
    inputs = []
    for layer in (module for module in model.modules() if isinstance(module, RecurrentLayer)):
        layer.register_forward_pre_hook(lambda layer, given: inputs.append((layer, given[0])))
    with torch.no_grad():
        logits = model(tokens).logits
    traced = [one for layer, x in list(inputs) for one in trace(layer, x)]
    return tokens[0].tolist(), logits[0].numpy(), traced


def read_in_both_directions(folder):
    """A classifier of symbols, which says nothing before the end."""
    torch.manual_seed(0)
    fields = {"vocab_size": 5, "embedding_size": 8, "hidden_size": 12, "num_labels": 3, "bidirectional": True}
    GatedRNNForSequenceClassification(GatedRNNConfig(**fields)).save_pretrained(folder)
    return folder


def forecast(folder, cell="mingru", **fields):
    torch.manual_seed(0)
    sizes = {"seasons": [4], "horizon": 3, "context": 20} | fields
    model = GatedRNNForForecasting(GatedRNNForecastConfig(cell=cell, hidden_size=12, num_hidden_layers=2, **sizes))
    for network in model.networks:
        for parameter in network.head.parameters():
            torch.nn.init.normal_(parameter, std=0.3)  # a new head is the seasonal naive forecast
    model.save_pretrained(folder)
    return folder
