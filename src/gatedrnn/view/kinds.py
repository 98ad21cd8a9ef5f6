"""The step of a model that the page shows, by the kind of its head."""

from collections.abc import Callable
from typing import Any

from gatedrnn.errors import DataError
from gatedrnn.models import (
    GatedRNNForCausalLM,
    GatedRNNForForecasting,
    GatedRNNForSequenceClassification,
    GatedRNNForTokenClassification,
)
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.view.answer import Ahead, LabelOfStep, LabelSoFar, NextToken, NumbersSoFar, StepAnswer
from gatedrnn.view.whole import AnswerOfWhole

_ANSWERS: dict[type, Callable[[Any], StepAnswer]] = {
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
    if config.gap_unit is not None:
        raise DataError(f"{place}: reads uneven times; the page shows steps equally far apart")
    if isinstance(model, GatedRNNForForecasting) and (config.known_size or config.past_size or config.static_size):
        raise DataError(f"{place}: reads covariates; the page shows forecasts from the values of a series alone")
    if not isinstance(model, GatedRNNForForecasting) and _answers_at_the_end(config):
        return AnswerOfWhole(model)
    return NumbersSoFar(model) if config.problem_type == "regression" else _ANSWERS[type(model)](model)


def _answers_at_the_end(config: Any) -> bool:
    """Whether a classifier has one answer to all that is typed; steps of a single network that reads forwards have
    theirs.

    Several labels are among them for the page's sake, which shows each one's probability there alone.
    """
    beside = config.linear_path is not None or config.random_convolutions or config.convolution_size
    several = config.members > 1 or config.problem_type == "multi_label_classification"
    return bool(config.bidirectional or beside or several)
