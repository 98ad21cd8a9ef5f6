"""The answers of a model after each step of a stream: one class for each kind of head."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gatedrnn.models import (
    GatedRNNCache,
    GatedRNNForForecasting,
    GatedRNNForSequenceClassification,
)
from gatedrnn.models.forecast_units import Scale
from gatedrnn.models.forecasting import stream_of
from gatedrnn.shapes import Step
from gatedrnn.view.record import Answers


class Said(NamedTuple):
    """The answer of one step, with what later answers need."""

    answer: Tensor
    """(1, size)."""
    carried: tuple[Tensor, ...]
    """The tensors that later answers need beside the state of the layers, each (1, size)."""


class Place(NamedTuple):
    """The place of a recurrent layer in a model."""

    name: str
    reverse: bool
    """Whether it reads a sequence from its end."""


class ReadTogether(nn.Module):
    """All that was typed, (time, columns), float64, to what each step reads, (time, features).

    Args:
        example: what the graph is traced with.
    """

    def __init__(self, example: Tensor) -> None:
        super().__init__()
        self.example = example


class StepAnswer(nn.Module):
    """One step of a model with its answer: called with what is read, the cache, which it changes in place, and what is
    carried, it returns what is `Said`.

    Args:
        model: in `eval()`, reading forwards.
        carried: what goes from step to step beside the layers' states, by name, before the first; each (1, size).
        context: None where a step reads what is typed there alone.
    """

    answers: Answers
    whole = False
    """Whether `context` has read the whole sequence and answers, so that no state changes an answer."""

    def __init__(
        self, model: nn.Module, carried: dict[str, Tensor] | None = None, context: ReadTogether | None = None
    ) -> None:
        super().__init__()
        self.model: Any = model
        self.carried, self.context = carried or {}, context
        config: Any = model.config
        columns = config.input_size
        self.example = torch.zeros(1, dtype=torch.long) if columns is None else torch.zeros(1, columns)
        """The input of a step: a token (1,), or numbers (1, columns)."""
        self.parts = list[str]()
        """The names of the parts that answer, one after the other in an answer; none where the model alone does."""
        self.places = list[Place]()
        """The places of the recurrent layers; none where they are numbered and read forwards."""

    def output(self, read: Tensor, cache: GatedRNNCache) -> Step:
        """(1, features): of the top layer."""
        named = "input_ids" if self.model.config.vocab_size is not None else "input_values"
        states, _ = self.model.model.read(**{named: read.unsqueeze(1)}, past_key_values=cache)
        top: Step = states[:, 0]
        return top


class NextToken(StepAnswer):
    """Scores of the next token."""

    answers = "next"

    def forward(self, read: Tensor, cache: GatedRNNCache) -> Said:
        return Said(self.model(read.unsqueeze(1), past_key_values=cache).logits[:, 0], ())


class LabelOfStep(StepAnswer):
    """Scores of this step's labels."""

    answers = "label of the step"

    def forward(self, read: Tensor, cache: GatedRNNCache) -> Said:
        return Said(self.model.scores(self.output(read, cache)), ())


class LabelSoFar(StepAnswer):
    """Scores of the sequence's labels, as if it ended here."""

    answers: Answers = "label so far"

    def __init__(self, model: GatedRNNForSequenceClassification) -> None:
        size, self.poolings = model.model.output_size, model.config.pooling.split("-")
        carried: dict[str, Tensor] = {}
        if "mean" in self.poolings:
            carried |= {"summed": torch.zeros(1, size), "counted": torch.zeros(1, 1)}
        if "max" in self.poolings:
            carried["largest"] = torch.full((1, size), torch.finfo(torch.float32).min)
        super().__init__(model, carried)

    def forward(self, read: Tensor, cache: GatedRNNCache, *carried: Tensor) -> Said:
        output = self.output(read, cache)
        sums = dict(zip(self.carried, carried, strict=True))
        pooled = {"last": output}
        if "mean" in self.poolings:
            sums |= {"summed": sums["summed"] + output, "counted": sums["counted"] + 1}
            pooled["mean"] = sums["summed"] / sums["counted"]
        if "max" in self.poolings:
            pooled["max"] = sums["largest"] = torch.maximum(sums["largest"], output)
        read_by_head = torch.cat([pooled[how] for how in self.poolings], dim=1)
        return Said(self.model.scores(read_by_head), tuple(sums.values()))


class NumbersSoFar(LabelSoFar):
    """The numbers of a regression, as if the sequence ended here."""

    answers = "numbers so far"


class Ahead(StepAnswer):
    """Quantiles of the steps ahead, (1, horizon · quantiles), in the units of the series; the mean of all members.

    A step reads a value and the unit of the whole context, (1, 6), float64.
    """

    answers = "forecast"

    def __init__(self, model: GatedRNNForForecasting) -> None:
        before, context = model.nothing_before(torch.zeros(1, 1)).tensors(), Context(model.config.usual_deviation)
        super().__init__(model, before, context)
        if len(networks := model.networks) > 1:
            layers = range(1, model.config.num_hidden_layers + 1)
            names = (f"network {n}, layer {layer}" for n, _ in enumerate(networks, start=1) for layer in layers)
            self.places = [Place(name, False) for name in names]
        self.example = Context(None)(torch.tensor([[1.0], [2.0]], dtype=torch.float64))[:1]

    def forward(self, read: Tensor, cache: GatedRNNCache, *carried: Tensor) -> Said:
        unit = dict(zip(Scale.of(read[:, :1]).tensors(), read[:, 1:].split(1, 1), strict=True))
        past = dict(zip(self.carried, carried, strict=True))
        state = self.model.update(stream_of(cache, unit | past, {}), read[:, :1])
        return Said(self.model.forecast(state).flatten(1).float(), tuple(state.past.tensors().values()))


class Context(ReadTogether):
    """Values (time, 1), float64, to what `Ahead` reads: (time, 6).

    Args:
        usual: what equal values are measured in, see `Scale.of`.
    """

    def __init__(self, usual: float | None) -> None:
        super().__init__(torch.arange(4.0, dtype=torch.float64).unsqueeze(1))
        self.usual = usual

    def forward(self, values: Tensor) -> Tensor:
        scale = Scale.of(values.t(), self.usual, logs=True)
        return torch.cat([values, *(unit.expand_as(values) for unit in vars(scale).values())], dim=1)
