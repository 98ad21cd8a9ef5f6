"""The section on language models: what a large vocabulary costs, and what a token of a stream costs."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy, embedding, linear

from gatedrnn.bench.contenders import Contender, Expected, Setting
from gatedrnn.bench.equations import Weights
from gatedrnn.bench.families import products_of
from gatedrnn.bench.measure import BOTH, Bench, Mode, threads
from gatedrnn.bench.sizes import Sizes
from gatedrnn.bench.training import in_float64
from gatedrnn.models import GatedRNNCache, GatedRNNConfig, GatedRNNForCausalLM
from gatedrnn.ops.cross_entropy import next_token_loss

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

    def formula(w: Weights) -> list[Tensor]:
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

    def logits(of: Weights) -> list[Tensor]:
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
    vector = setting.normal(1, width)
    recurrent = [weight for name, weight in leaves.items() if "weight_ih" in name or "weight_hh" in name]
    matrices = [*recurrent, model.lm_head.weight]
    named = {"vector": vector, **{str(number): matrix for number, matrix in enumerate(matrices)}}
    products = Expected(lambda w: [linear(w["vector"], w[str(n)]) for n in range(len(matrices))], named, None)
    yield Contender(
        products_of(cell), setting, lambda: tuple(linear(vector, matrix) for matrix in matrices), named, products
    )

    def generated() -> Tensor:
        found = model.generate(token, max_new_tokens=GENERATED, do_sample=False)
        return model(found[:, :1]).logits  # something to be held against: the tokens themselves are no numbers

    def first(of: Weights) -> list[Tensor]:
        return [functional_call(exact, dict(of), args=(token,)).logits]

    yield Contender(
        by_generate(cell), setting, generated, leaves, Expected(first, leaves, None), times=1 / (GENERATED + 1)
    )
