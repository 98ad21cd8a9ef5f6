"""The section on whole models: training steps of the classifier that `compare` trains, on synthetic tokens."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from gatedrnn.bench.contenders import Contender, Expected, Setting
from gatedrnn.bench.equations import Weights
from gatedrnn.bench.gate import disagreement
from gatedrnn.bench.measure import Bench, Mode
from gatedrnn.bench.sizes import Sizes
from gatedrnn.layers import RecurrentLayer
from gatedrnn.models import GatedRNNConfig, GatedRNNForSequenceClassification
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
