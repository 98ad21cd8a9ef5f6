"""Models whose training steps are timed, as this project's recipes train them, on random data of their shapes.

Of the package only models are imported, of which workers load older versions.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.contenders import Setting
from benchmarks.sizes import Shape, Sizes
from gatedrnn import RecurrentLayer
from gatedrnn.models import (
    GatedRNNConfig,
    GatedRNNForCausalLM,
    GatedRNNForecastConfig,
    GatedRNNForForecasting,
    GatedRNNForSequenceClassification,
)

Batch: TypeAlias = dict[str, Tensor]
Loss: TypeAlias = Callable[[Callable[..., Any], Batch], Tensor]
"""The loss of a model on a batch."""
BASELINE = "lstm"
LABELS = 4
"""Classes of texts."""
OF_PIXELS = {"mingru": "mingru:activation=identity", "minlstm": "minlstm:activation=identity"}
"""Cells with the options that the recipe of MNIST gives them."""


class Standard(NamedTuple):
    """A model as a recipe of this project trains it."""

    title: str
    shape: Shape
    """The number of sequences, their steps, and the width of the embedding."""
    widths: Mapping[str, int]
    """Hidden sizes by cell, for equal numbers of parameters; other cells have that of the LSTM."""
    build: Callable[..., nn.Module]
    """Builds a model from cell and hidden size."""
    batch: Callable[[Setting], Batch]
    loss: Loss


def standards(sizes: Sizes) -> Iterator[Standard]:
    """Yield the models of the kept results: AG News, Tiny Shakespeare, WikiText-2, MNIST by pixels, ETTh1."""
    scale = sizes.training_scale

    def shape(batch: int, steps: int, width: int) -> Shape:
        return max(2, batch // scale), max(4, steps // scale), max(8, width // scale)

    def widths(**sizes: int) -> dict[str, int]:
        return {cell: max(8, size // scale) for cell, size in sizes.items()}

    words, characters, vocabulary = 23_487 // scale, 67, max(9, sizes.words // scale)
    news = shape(64, 35, 128)
    yield Standard(
        "AG News", news, widths(mingru=512, lstm=128),
        lambda cell, hidden: GatedRNNForSequenceClassification(GatedRNNConfig(
            cell=cell, hidden_size=hidden, vocab_size=words, embedding_size=news[2], num_hidden_layers=1,
            num_labels=LABELS, pooling="max", token_dropout=0.25, embedding_dropout=0.5, head_dropout=0.4,
        )),
        partial(_texts, words), partial(classified, 0.05),
    )  # fmt: skip
    plays = shape(32, 128, 128)
    yield Standard(
        "Tiny Shakespeare", plays, widths(mingru=340, lstm=117),
        lambda cell, hidden: GatedRNNForCausalLM(GatedRNNConfig(
            cell=cell, hidden_size=hidden, vocab_size=characters, embedding_size=plays[2], num_hidden_layers=4,
            block=True, feed_forward_factor=2, dropout=0.1, pad_token_id=None,
        )),
        partial(_following, characters), _next_token,
    )  # fmt: skip
    articles = shape(20, 35, 256)
    yield Standard(
        "WikiText-2", articles, widths(mingru=342, lstm=235),
        lambda cell, hidden: GatedRNNForCausalLM(GatedRNNConfig(
            cell=cell, hidden_size=hidden, vocab_size=vocabulary, embedding_size=articles[2], num_hidden_layers=4,
            block=True, feed_forward_factor=1, embedding_dropout=0.3, dropout=0.3, head_dropout=0.3, pad_token_id=None,
        )),
        partial(_following, vocabulary), _next_token,
    )  # fmt: skip
    pixels = shape(16, 784, 64)
    yield Standard(
        "MNIST", pixels, widths(mingru=128, lstm=53),
        lambda cell, hidden: GatedRNNForSequenceClassification(GatedRNNConfig(
            cell=OF_PIXELS.get(cell, cell), hidden_size=hidden, input_size=1, embedding_size=pixels[2],
            num_hidden_layers=3, num_labels=10, block=True, feed_forward_factor=1,
        )),
        _images, partial(classified, 0.0),
    )  # fmt: skip
    hours, day = shape(32, 119, 64), max(2, 24 // scale)
    ahead = 4 * day
    yield Standard(
        "ETTh1", (hours[0], ahead + day - 1, hours[2]), widths(mingru=128, lstm=56),
        lambda cell, hidden: GatedRNNForForecasting(GatedRNNForecastConfig(
            cell=cell, hidden_size=hidden, embedding_size=hours[2], num_hidden_layers=1, horizon=ahead,
            context=ahead, seasons=[day], linear_size=ahead, embedding_dropout=0.2, head_dropout=0.5,
        )),
        partial(_windows, ahead),
        lambda model, batch: cast(Tensor, model(**batch, origins=day, skip_quantiles=True).loss),
    )  # fmt: skip


IN_BFLOAT16 = ("WikiText-2", "MNIST")
"""Models whose recipe trains scan cells under autocast."""
BFLOAT16 = ", bfloat16"
"""The suffix of models that are trained under autocast."""
MOVED = {
    ("AG News", "mingru"): 168_501_008,
    ("AG News", "lstm"): 149_728_594,
    ("Tiny Shakespeare", "mingru"): 496_982_600,
    ("Tiny Shakespeare", "lstm"): 409_559_176,
    ("WikiText-2", "mingru"): 560_899_552,
    ("WikiText-2", "lstm"): 592_459_040,
    ("WikiText-2" + BFLOAT16, "mingru"): 666_318_432,
    ("MNIST", "mingru"): 306_439_960,
    ("MNIST", "lstm"): 226_336_392,
    ("MNIST" + BFLOAT16, "mingru"): 156_516_840,
    ("ETTh1", "mingru"): 103_880_452,
    ("ETTh1", "lstm"): 94_664_228,
}
"""The bytes that a step moves beside its products, as `bytes_beside_products` counted them at commit 91f6518: a floor
that is counted anew would rise with the step."""


def _tokens(vocabulary: int, batch: int, steps: int) -> Tensor:
    return torch.randint(2, vocabulary, (batch, steps))


def _texts(vocabulary: int, setting: Setting) -> Batch:
    """Draw texts of unequal lengths."""
    batch, steps, _ = setting.shape
    lengths = torch.randint(steps // 2, steps + 1, (batch, 1))
    lengths[0] = steps
    mask = (torch.arange(steps) < lengths).long()
    tokens = _tokens(vocabulary, batch, steps) * mask
    return {"input_ids": tokens, "attention_mask": mask, "labels": _labels(batch, LABELS)}


def whole_texts(vocabulary: int, setting: Setting) -> Batch:
    """Draw texts of equal lengths."""
    batch, steps, _ = setting.shape
    return {"input_ids": _tokens(vocabulary, batch, steps), "labels": _labels(batch, LABELS)}


def _following(vocabulary: int, setting: Setting) -> Batch:
    batch, steps, _ = setting.shape
    return {name: _tokens(vocabulary, batch, steps) for name in ("input_ids", "shift_labels")}


def _images(setting: Setting) -> Batch:
    batch, steps, _ = setting.shape
    return {"input_values": torch.rand(batch, steps, 1), "labels": _labels(batch, 10)}


def _windows(ahead: int, setting: Setting) -> Batch:
    batch, steps, _ = setting.shape
    return {"past_values": torch.randn(batch, steps).cumsum(1), "labels": torch.randn(batch, ahead)}


def _labels(batch: int, classes: int) -> Tensor:
    return torch.arange(batch) % classes


def classified(smoothing: float, model: Callable[..., Any], batch: Batch) -> Tensor:
    """Compute the loss of a classifier."""
    inputs = {name: x for name, x in batch.items() if name != "labels"}
    logits = model(**inputs).logits
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return cross_entropy(wide, batch["labels"], label_smoothing=smoothing)


def _next_token(model: Callable[..., Any], batch: Batch) -> Tensor:
    return cast(Tensor, model(**batch, skip_logits=True).loss)  # as the training loop does


def in_float64(model: nn.Module) -> nn.Module:
    """Copy a model in float64 whose layers run in plain torch, as a reference."""
    exact = deepcopy(model).double()
    for module in exact.modules():
        if isinstance(module, RecurrentLayer):
            module.backend = "reference"
    return exact
