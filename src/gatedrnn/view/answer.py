"""What a model says after each step of a stream: one class for each kind of head."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from gatedrnn.errors import DataError
from gatedrnn.models import (
    GatedRNNCache,
    GatedRNNForCausalLM,
    GatedRNNForForecasting,
    GatedRNNForSequenceClassification,
    GatedRNNForTokenClassification,
)
from gatedrnn.models.forecast_units import Scale
from gatedrnn.models.forecasting import stream_of
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.shapes import Step
from gatedrnn.view.record import Answers


class Said(NamedTuple):
    """Of one step."""

    answer: Tensor
    """(1, size)."""
    carried: tuple[Tensor, ...]
    """What the answers to come need beside the state of the layers, each (1, size)."""


class StepAnswer(nn.Module):
    """One step of a model with its answer: called with what is read, the cache, which it changes in place, and what is
    carried, it returns what is `Said`.

    Args:
        model: in `eval()`, reading forwards.
        carried: what goes from step to step beside the layers' states, by name, before the first; each (1, size).
    """

    answers: ClassVar[Answers]

    def __init__(self, model: GatedRNNPreTrainedModel, carried: dict[str, Tensor] | None = None) -> None:
        super().__init__()
        self.model: Any = model
        self.carried = carried or {}
        columns = self.model.config.input_size
        self.example = torch.zeros(1, dtype=torch.long) if columns is None else torch.zeros(1, columns)
        """What a step reads: a token (1,), or numbers (1, columns)."""

    def output(self, read: Tensor, cache: GatedRNNCache) -> Step:
        """(1, features): of the top layer."""
        named = "input_ids" if self.model.config.vocab_size is not None else "input_values"
        states, _ = self.model.model.read(**{named: read.unsqueeze(1)}, past_key_values=cache)
        found: Step = states[:, 0]
        return found


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

    answers: ClassVar[Answers] = "label so far"

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
        kept = dict(zip(self.carried, carried, strict=True))
        pooled = {"last": output}
        if "mean" in self.poolings:
            kept |= {"summed": kept["summed"] + output, "counted": kept["counted"] + 1}
            pooled["mean"] = kept["summed"] / kept["counted"]
        if "max" in self.poolings:
            pooled["max"] = kept["largest"] = torch.maximum(kept["largest"], output)
        read_by_head = torch.cat([pooled[how] for how in self.poolings], dim=1)
        return Said(self.model.scores(read_by_head), tuple(kept.values()))


class NumbersSoFar(LabelSoFar):
    """The numbers of a regression, as if the sequence ended here."""

    answers = "numbers so far"


class Ahead(StepAnswer):
    """Quantiles of the steps ahead, (1, horizon · quantiles), in the units of the series.

    A step reads a value and the unit of the whole context, (1, 6), float64.
    """

    answers = "forecast"

    def __init__(self, model: GatedRNNForForecasting) -> None:
        super().__init__(model, model.nothing_before(torch.zeros(1, 1)).tensors())
        self.example = Context(None)(torch.tensor([[1.0], [2.0]], dtype=torch.float64))[:1]

    def forward(self, read: Tensor, cache: GatedRNNCache, *carried: Tensor) -> Said:
        unit = dict(zip(Scale.of(read[:, :1]).tensors(), read[:, 1:].split(1, 1), strict=True))
        past = dict(zip(self.carried, carried, strict=True))
        state = self.model.update(stream_of(cache, unit | past, {}), read[:, :1])
        return Said(self.model.forecast(state).flatten(1).float(), tuple(state.past.tensors().values()))


class Context(nn.Module):
    """Values (time, 1), float64, to what `Ahead` reads: (time, 6).

    Args:
        usual: what equal values are measured in, see `Scale.of`.
    """

    def __init__(self, usual: float | None) -> None:
        super().__init__()
        self.usual = usual

    def forward(self, values: Tensor) -> Tensor:
        scale = Scale.of(values.t(), self.usual, logs=True)
        return torch.cat([values, *(own.expand_as(values) for own in vars(scale).values())], dim=1)


ANSWERS: dict[type, Callable[[Any], StepAnswer]] = {
    GatedRNNForCausalLM: NextToken,
    GatedRNNForTokenClassification: LabelOfStep,
    GatedRNNForSequenceClassification: LabelSoFar,
    GatedRNNForForecasting: Ahead,
}


def step_answer(model: GatedRNNPreTrainedModel, place: str) -> StepAnswer:
    """The step of a model.

    Raises:
        DataError: it has no steps that could be shown one by one; why, in one sentence.
    """
    config: Any = model.config
    if config.backbone is not None:
        raise DataError(f"{place}: {config.backbone} has no gates and no state of constant size")
    if config.bidirectional:
        raise DataError(f"{place}: reads in both directions, and says nothing before the end; train one forwards")
    if config.problem_type == "multi_label_classification":
        raise DataError(f"{place}: gives a text several labels; the page shows which one of them is likeliest")
    if config.members > 1 or config.linear_path is not None:
        what = "a linear path" if config.linear_path is not None else f"{config.members} networks"
        raise DataError(f"{place}: answers by {what} together, and the page shows one network; train one by itself")
    if config.convolution_size:
        raise DataError(f"{place}: has convolutions that read steps to come; train one with --convolution-size 0")
    if config.gap_unit is not None:
        raise DataError(f"{place}: reads uneven times; the page shows steps equally far apart")
    if isinstance(model, GatedRNNForForecasting) and (config.known_size or config.past_size or config.static_size):
        raise DataError(f"{place}: reads covariates; the page shows forecasts from the values of a series alone")
    return NumbersSoFar(model) if config.problem_type == "regression" else ANSWERS[type(model)](model)
