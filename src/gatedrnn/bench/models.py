"""The sections on whole models: training steps of a classifier; vocabulary and single tokens of a language model."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy, embedding, linear
from torch.nn.utils import clip_grad_norm_

from gatedrnn.bench.contenders import Contender, Expected, Setting, Weights
from gatedrnn.bench.layers import products_of
from gatedrnn.bench.measure import BOTH, Bench, Mode, disagreement, threads
from gatedrnn.bench.sizes import Sizes
from gatedrnn.layers import RecurrentLayer
from gatedrnn.models import GatedRNNCache, GatedRNNConfig, GatedRNNForCausalLM, GatedRNNForSequenceClassification
from gatedrnn.ops.cross_entropy import next_token_loss
from gatedrnn.timing import Action
from gatedrnn.train.settings import TrainSettings

LABELS = 4
BATCHES = 3
"""Batches on which a model may be shown right: where rounding decides on which side of g's kink a number lies, the
gradients are not those of float64, and another batch is tried."""
BASELINE = "lstm"
COMPILED_FORMS = 4
"""In how many forms a model's code is compiled at most: training and not, with gradients and without."""


@dataclass(frozen=True)
class ModelContender(Contender):
    """A model and its optimizer."""

    model: nn.Module | None = None
    optimizer: torch.optim.Optimizer | None = None

    def train_step(self) -> None:
        """One update, as the training loop makes it."""
        assert self.model is not None and self.optimizer is not None
        (logits,) = self.outputs()
        labels = torch.arange(len(logits), device=logits.device) % LABELS
        cross_entropy(logits, labels).backward()
        clip_grad_norm_(self.model.parameters(), TrainSettings().clip)
        self.optimizer.step()
        self.optimizer.zero_grad()


def _train_step(contender: Contender) -> Action:
    assert isinstance(contender, ModelContender)
    return contender.train_step


TRAINING = Mode("training step", _train_step, backward=True)


def in_float64(model: nn.Module) -> nn.Module:
    """A copy whose layers run by plain torch: what a model is held against."""
    exact = deepcopy(model).double()
    for module in exact.modules():
        if isinstance(module, RecurrentLayer):
            module.backend = "reference"
    return exact


def compiled(cell: str) -> str:
    """The name of a cell's model under torch.compile."""
    return f"{cell}, compiled"


def model(bench: Bench, sizes: Sizes, cells: Sequence[str], compile: bool, seconds: float) -> None:
    """Whole models, beside one with an LSTM."""
    setting = Setting(sizes.model, bench.device)
    contenders = []
    # Models share their code, which torch would else compile for eight of them, and then for no more.
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, COMPILED_FORMS * len(cells))
    for cell in cells:
        contenders.append(_model(cell, setting, sizes, None))
        if compile:
            contenders.append(_model(cell, setting, sizes, compiled(cell)))
    pairs = [(BASELINE, cell) for cell in cells if cell != BASELINE]
    pairs += [(compiled(cell), cell) for cell in cells if compile]
    bench.compare("model", contenders, pairs, (TRAINING,), seconds)


def _model(cell: str, setting: Setting, sizes: Sizes, compiled_as: str | None) -> ModelContender:
    """The contender on the first batch on which it passes the gate; the last batch's if it passes on none."""
    contender = _on_batch(cell, setting, sizes, compiled_as, 0)
    for number in range(1, BATCHES):
        if disagreement(contender, forward=False) is None:
            break
        contender = _on_batch(cell, setting, sizes, compiled_as, number)
    return contender


def _on_batch(cell: str, setting: Setting, sizes: Sizes, compiled_as: str | None, number: int) -> ModelContender:
    batch, time, width = setting.shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        built = GatedRNNForSequenceClassification(
            GatedRNNConfig(
                cell=cell, vocab_size=sizes.vocabulary, embedding_size=width, hidden_size=width,
                num_hidden_layers=sizes.model_layers, num_labels=LABELS,
            )
        ).to(setting.device)  # fmt: skip
        tokens = torch.randint(2, sizes.vocabulary, (batch, time)).to(setting.device)
    leaves: dict[str, Tensor] = dict(built.named_parameters())
    exact = in_float64(built)

    def formula(weights: Weights) -> list[Tensor]:
        return [functional_call(exact, dict(weights), kwargs={"input_ids": tokens}).logits]

    expected = Expected(formula, leaves, setting.normal(batch, LABELS))
    called = built if compiled_as is None else torch.compile(built, fullgraph=True)
    return ModelContender(
        compiled_as or cell, setting, lambda: called(input_ids=tokens).logits, leaves, expected,
        work=(batch * time, "tokens/s"), model=built,
        optimizer=torch.optim.AdamW(built.parameters(), lr=TrainSettings().learning_rate, fused=True),
    )  # fmt: skip


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
