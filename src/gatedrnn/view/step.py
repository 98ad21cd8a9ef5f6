"""One step of a trained model with its gates as outputs: the graph that the page runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from gatedrnn.errors import DataError
from gatedrnn.export.onnx import graph_of, input_name, state_names
from gatedrnn.inspect.trace import Traced, trace
from gatedrnn.layers import RecurrentLayer
from gatedrnn.models import GatedRNNCache, GatedRNNForCausalLM
from gatedrnn.models.modeling import GatedRNNPreTrainedModel


class WatchedStep(nn.Module):
    """(a token (batch,), states …) to (answer, states after it, and of each layer its gates, decay and what it wrote).

    Args:
        model: a language model or a classifier of tokens.
        answers: whether a step has an answer: scores of the next token, or of classes as if the text ended here.
    """

    def __init__(self, model: GatedRNNPreTrainedModel, answers: bool) -> None:
        super().__init__()
        self.model, self.answers, self.names = model, answers, state_names(model)

    def forward(self, tokens: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        cache = GatedRNNCache.of_tensors(self.model.config, dict(zip(self.names, states, strict=True)))
        with watched(self.model) as seen:
            answer = self._answer(tokens.unsqueeze(1), cache)
        after = cache.tensors()
        return *answer, *(after[name] for name in self.names), *(one for traced in seen for one in _numbers(traced))

    def _answer(self, tokens: Tensor, cache: GatedRNNCache) -> tuple[Tensor, ...]:
        model: Any = self.model
        if isinstance(model, GatedRNNForCausalLM):
            return (model(tokens, past_key_values=cache).logits[:, 0],)
        output, _ = model.model.read(tokens, past_key_values=cache)
        return (model.classifier(output[:, 0]),) if self.answers else ()


@contextmanager
def watched(model: nn.Module) -> Iterator[list[Traced]]:
    """What the recurrent layers of a model do in single steps, in the order of their calls."""
    seen = list[Traced]()
    layers = [module for module in model.modules() if isinstance(module, RecurrentLayer)]

    def recording(layer: RecurrentLayer[Any]) -> Any:
        step = layer.step

        def recorded(x: Tensor, hx: Any = None, **rest: Any) -> Any:
            begun = None if hx is None else hx if isinstance(hx, tuple) else (hx,)
            seen.extend(trace(layer, x.unsqueeze(1), begun))
            return step(x, hx, **rest)

        return recorded

    for layer in layers:
        layer.step = recording(layer)  # type: ignore[method-assign]  # of this one, until the end
    try:
        yield seen
    finally:
        for layer in layers:
            del layer.step


def first_step(model: GatedRNNPreTrainedModel, initial: list[Tensor]) -> list[Traced]:
    """What the layers do when they read token 0 first: which numbers there are, and of what size."""
    with watched(model) as seen, torch.no_grad():
        cache = GatedRNNCache.of_tensors(model.config, dict(zip(state_names(model), initial, strict=True)))
        model.model.read(torch.zeros(1, 1, dtype=torch.long), past_key_values=cache)
    return seen


def watched_graph(
    model: GatedRNNPreTrainedModel, answers: bool, initial: list[Tensor], seen: list[Traced]
) -> onnx.ModelProto:
    """The step as ONNX, for a batch of one; `seen` is what `first_step` found."""
    names = [input_name(name) for name in state_names(model)]
    outputs = ["answer"] if answers else []
    outputs += [f"{name}_after" for name in names]
    outputs += [f"layer_{n}_{name}" for n, traced in enumerate(seen) for name in number_names(traced)]
    with torch.no_grad():
        return graph_of(
            WatchedStep(model, answers), (torch.zeros(1, dtype=torch.long), *initial), ["read", *names], outputs,
            {"tokens": None, "states": tuple(None for _ in names)},
        )  # fmt: skip


def number_names(traced: Traced) -> list[str]:
    """What the graph tells of a layer, in the order of its outputs."""
    names = [f"gate_{gate}" for gate in traced.gates]
    names += [] if traced.decay is None else ["decay"]
    return names + ([] if traced.written is None else ["written"])


def _numbers(traced: Traced) -> list[Tensor]:
    found = [*traced.gates.values(), traced.decay, traced.written]
    return [one[:, 0] for one in found if one is not None]


def demand_steps(model: GatedRNNPreTrainedModel, place: str) -> None:
    """Refuse what has no steps of tokens.

    Raises:
        DataError: in one sentence, why.
    """
    config = model.config
    if config.backbone is not None:
        raise DataError(f"{place}: {config.backbone} has no gates and no state of constant size")
    if config.bidirectional:
        raise DataError(f"{place}: reads in both directions, so that no step is the last word; train one forwards")
    if config.vocab_size is None:
        raise DataError(f"{place}: reads numbers; the page shows models of tokens. See gatedrnn diagnose")
