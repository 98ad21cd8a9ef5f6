"""The sections on whole models: a classifier's training steps, a language model's tokens, a forecaster's values."""

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy, embedding, linear

from benchmarks.contenders import Contender, Expected, Leaves, Setting
from benchmarks.layers import products_of, products_of_rows
from benchmarks.measure import BOTH, Bench, Mode, first_right, threads
from benchmarks.sizes import Sizes
from benchmarks.standards import BASELINE, LABELS, Standard, classified, in_float64, whole_texts
from benchmarks.steps import training_step
from benchmarks.training import train_step
from gatedrnn.models import (
    GatedRNNCache,
    GatedRNNConfig,
    GatedRNNForCausalLM,
    GatedRNNForecastConfig,
    GatedRNNForForecasting,
    GatedRNNForSequenceClassification,
)
from gatedrnn.models.next_token import next_token_loss

COMPILED_FORMS = 4
"""The most forms in which a model's code is compiled: training and not, with gradients and without."""
TRAINING = Mode("training step", train_step, backward=True)


def compiled(cell: str) -> str:
    """The name of a cell's model under torch.compile."""
    return f"{cell}, compiled"


def classifier(sizes: Sizes) -> Standard:
    """A classifier of texts whose layers are as wide as its embedding, whatever the cell."""
    *_, width = sizes.model
    return Standard(
        "classifier", sizes.model, {BASELINE: width},
        lambda cell, hidden: GatedRNNForSequenceClassification(GatedRNNConfig(
            cell=cell, vocab_size=sizes.vocabulary, embedding_size=width, hidden_size=hidden,
            num_hidden_layers=sizes.model_layers, num_labels=LABELS,
        )),
        partial(whole_texts, sizes.vocabulary), partial(classified, 0.0),
    )  # fmt: skip


def model(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """Whole models, beside one with an LSTM; each under torch.compile too, if that is asked for."""
    # Models share their code, which torch would else compile for eight of them, and then for no more.
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, COMPILED_FORMS * len(cells))
    contenders = [
        first_right(partial(training_step, classifier(sizes), cell, device=bench.device, compiled_as=name))
        for cell in cells for name in (None, *([compiled(cell)] if bench.compile else []))
    ]  # fmt: skip
    pairs = [(BASELINE, cell) for cell in cells if cell != BASELINE]
    pairs += [(compiled(cell), cell) for cell in cells if bench.compile]
    bench.compare("model", contenders, pairs, (TRAINING,), seconds)


VOCABULARY = "embedding and loss"
PRODUCTS = "the three products of the scores"
GENERATED = 32
"""Tokens of one call of `generate`."""
TOKEN = Mode("one token, one thread", lambda contender: contender.forward, backward=False)


def by_generate(cell: str) -> str:
    """The name of a token that transformers' `generate` has drawn."""
    return f"{cell} by generate"


def language(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """Embedding, scores and loss over the products they cannot do without; a token over its products."""
    setting = Setting(sizes.softmax, bench.device)
    bench.compare("language", _vocabulary(setting, sizes.words), [(VOCABULARY, PRODUCTS)], (BOTH,), seconds / 2)
    pairs = [(name, products_of(cell)) for cell in cells for name in (cell, by_generate(cell))]
    # A product of one row with a matrix is done before a second thread has begun.
    with threads(1):
        streams = [contender for cell in cells for contender in _stream(cell, sizes, bench.device)]
        bench.compare("language", streams, pairs, (TOKEN,), seconds / 2)


def _vocabulary(setting: Setting, words: int) -> Iterator[Contender]:
    batch, time, width = setting.shape
    weight = (0.1 * setting.normal(words, width)).requires_grad_()
    generator = torch.Generator().manual_seed(0)
    tokens, labels = (torch.randint(words, (batch, time), generator=generator).to(setting.device) for _ in range(2))

    def formula(w: Leaves) -> list[Tensor]:
        scores = embedding(tokens, w["weight"]) @ w["weight"].t()
        return [cross_entropy(scores.flatten(0, 1), labels.flatten())]

    expected = Expected(formula, {"weight": weight}, torch.ones((), device=setting.device))
    yield Contender(
        VOCABULARY, setting, lambda: next_token_loss(embedding(tokens, weight), weight, labels), {"weight": weight},
        expected, work=(batch * time, "tokens/s"),
    )  # fmt: skip
    leaves = {"hidden": setting.normal(batch * time, width).requires_grad_(), "weight": weight}
    upstream = setting.normal(batch * time, words)
    alone = Expected(lambda w: [linear(w["hidden"], w["weight"])], leaves, upstream)
    yield Contender(PRODUCTS, setting, lambda: linear(leaves["hidden"], weight), leaves, alone)


def _stream(cell: str, sizes: Sizes, device: str) -> Iterator[Contender]:
    """A model without blocks, its step, its bare products, and `generate` around it."""
    layers, width, vocabulary = sizes.stream
    setting = Setting((1, 1, width), device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = GatedRNNConfig(
            cell=cell, vocab_size=vocabulary, embedding_size=width, hidden_size=width, num_hidden_layers=layers,
            pad_token_id=None,
        )  # fmt: skip
        model = GatedRNNForCausalLM(config).to(device).eval()
    token = torch.zeros(1, 1, dtype=torch.long, device=device)
    with torch.no_grad():
        begun = model(token, use_cache=True).past_key_values
    first_state = begun.tensors()
    leaves: dict[str, Tensor] = dict(model.named_parameters())
    exact = in_float64(model)

    def logits(of: Leaves) -> list[Tensor]:
        tensors = {name: t.double() if t.is_floating_point() else t for name, t in first_state.items()}
        state = GatedRNNCache.of_tensors(config, tensors)
        return [functional_call(exact, dict(of), args=(token,), kwargs={"past_key_values": state}).logits]

    kept = [dict(layer.recurrent_states) for layer in begun.layers]

    def step() -> Tensor:
        # The same state each time: `forward` brings the one it is given up to date.
        for layer, states in zip(begun.layers, kept, strict=True):
            layer.recurrent_states = dict(states)
        return model(token, past_key_values=begun).logits

    yield Contender(cell, setting, step, leaves, Expected(logits, leaves, None))
    recurrent = [weight for name, weight in leaves.items() if "weight_ih" in name or "weight_hh" in name]
    matrices = [*recurrent, model.lm_head.weight]
    yield products_of_rows(products_of(cell), setting, [(matrix, None) for matrix in matrices])

    def generated() -> Tensor:
        found = model.generate(token, max_new_tokens=GENERATED, do_sample=False)
        return model(found[:, :1]).logits  # something to be held against: the tokens themselves are no numbers

    def first(of: Leaves) -> list[Tensor]:
        return [functional_call(exact, dict(of), args=(token,)).logits]

    yield Contender(
        by_generate(cell), setting, generated, leaves, Expected(first, leaves, None), times=1 / (GENERATED + 1)
    )


VALUE = Mode("one value, one thread", lambda contender: contender.forward, backward=False)
SERIES = Mode("forecasts of all series", lambda contender: contender.forward, backward=False)
SEASON, HORIZON = 24, 48


def forecast(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """`update` by a value over the products that it cannot do without; `predict` of many series."""
    pairs = [(cell, products_of(cell)) for cell in cells]
    with threads(1):
        streams = [contender for cell in cells for contender in _values(cell, sizes, bench.device)]
        bench.compare("forecast", streams, pairs, (VALUE,), seconds / 2)
    bench.compare("forecast", [_predict(cell, sizes, bench.device) for cell in cells], (), (SERIES,), seconds / 2)


def _forecaster(cell: str, width: int, device: str) -> GatedRNNForForecasting:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = GatedRNNForecastConfig(
            cell=cell, embedding_size=width // 2, hidden_size=width, num_hidden_layers=1,
            horizon=HORIZON, seasons=[SEASON],
        )  # fmt: skip
        return GatedRNNForForecasting(config).to(device).eval()


def _values(cell: str, sizes: Sizes, device: str) -> Iterator[Contender]:
    _, context, width = sizes.series
    setting, model = Setting((1, 1, width), device), _forecaster(cell, width, device)
    past, value = setting.normal(1, context), setting.normal(1, 1)
    begun = model.start(past)
    before, first = begun.past, {name: tensor.clone() for name, tensor in begun.cache.tensors().items()}
    leaves: dict[str, Tensor] = dict(model.model.named_parameters())
    exact = in_float64(model.model)
    smoothed, _ = model.smooth(begun.scale.normalise(value), before, 1)
    features = model.joined(smoothed, begun.scale).double()

    def update() -> Tensor:
        # The same state each time: a stream is brought up to date in place.
        begun.past, begun.cache = before, GatedRNNCache.of_tensors(model.config, first)
        return model.update(begun, value).hidden[0]

    def hidden(of: Leaves) -> list[Tensor]:
        tensors = {name: t.double() if t.is_floating_point() else t for name, t in first.items()}
        state = GatedRNNCache.of_tensors(model.config, tensors)
        arguments = {"input_values": features, "past_key_values": state}
        return [functional_call(exact, dict(of), kwargs=arguments).last_hidden_state[:, -1]]

    yield Contender(cell, setting, update, leaves, Expected(hidden, leaves, None))
    matrices = [weight for name, weight in leaves.items() if weight.dim() == 2 and name.startswith(("emb", "parts"))]
    yield products_of_rows(products_of(cell), setting, [(matrix, None) for matrix in matrices])


def _predict(cell: str, sizes: Sizes, device: str) -> Contender:
    series, context, width = sizes.series
    setting, model = Setting(sizes.series, device), _forecaster(cell, width, device)
    past = setting.normal(series, context)
    leaves: dict[str, Tensor] = dict(model.named_parameters())
    exact = in_float64(model)

    def quantiles(of: Leaves) -> list[Tensor]:
        return [functional_call(exact, dict(of), args=(past,)).quantiles]

    return Contender(
        cell, setting, lambda: model.predict(past), leaves, Expected(quantiles, leaves, None), work=(series, "series/s")
    )  # fmt: skip
