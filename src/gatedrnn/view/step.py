"""One step of a trained model with its gates as outputs: the graph that the page runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from gatedrnn.export.onnx import beginning, graph_of, input_name, state_names
from gatedrnn.inspect.trace import Traced, trace
from gatedrnn.layers import RecurrentLayer
from gatedrnn.models import GatedRNNCache
from gatedrnn.view.answer import ReadTogether, StepAnswer


class WatchedStep(nn.Module):
    """(what is read, states …) to (answer, states after it, and of each layer its gates, decay and what it wrote)."""

    def __init__(self, answer: StepAnswer) -> None:
        super().__init__()
        self.answer, self.names = answer, state_names(answer.model)

    def initial(self) -> dict[str, Tensor]:
        """The states before the first step by name, the layers' first, each (1, size)."""
        model = self.answer.model
        return dict(zip(map(input_name, self.names), beginning(model, 1), strict=True)) | self.answer.carried

    def forward(self, read: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        layers = len(self.names)
        states_by_name = dict(zip(self.names, states[:layers], strict=True))
        cache = GatedRNNCache.of_tensors(self.answer.model.config, states_by_name)
        with watched(self.answer.model) as seen:
            said = self.answer(read, cache, *states[layers:])
        after = cache.tensors()
        numbers = [number for traced in seen for number in _numbers(traced)]
        return said.answer, *(after[name] for name in self.names), *said.carried, *numbers


@contextmanager
def watched(model: nn.Module) -> Iterator[list[Traced]]:
    """Record what the recurrent layers of a model do in single steps, in the order of their calls."""
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


@torch.no_grad()
def first_step(step: WatchedStep) -> tuple[list[Traced], int]:
    """The trace of the layers in a first step, which shows the numbers and their sizes, and the size of an answer."""
    initial = step.initial()
    states = dict(zip(step.names, initial.values(), strict=False))
    with watched(step.answer.model) as seen:
        cache = GatedRNNCache.of_tensors(step.answer.model.config, states)
        said = step.answer(step.answer.example, cache, *list(initial.values())[len(step.names) :])
    return seen, said.answer.shape[1]


def watched_graph(step: WatchedStep, seen: list[Traced]) -> onnx.ModelProto:
    """The step as ONNX, for a batch of one; `seen` is what `first_step` found."""
    initial = step.initial()
    outputs = ["answer", *(f"{name}_after" for name in initial)]
    outputs += [f"layer_{n}_{name}" for n, traced in enumerate(seen) for name in number_names(traced)]
    with torch.no_grad():
        return graph_of(
            step, (step.answer.example, *initial.values()), ["read", *initial], outputs,
            {"read": None, "states": tuple(None for _ in initial)},
        )  # fmt: skip


def context_graph(context: ReadTogether) -> onnx.ModelProto:
    """The ONNX graph that reads all that is typed, for any number of steps."""
    time = torch.export.Dim("time", min=2)
    return graph_of(context, (context.example,), ["values"], ["rows"], {"values": {0: time}})


def number_names(traced: Traced) -> list[str]:
    """The names of the graph's outputs for a layer, in their order."""
    names = [f"gate_{gate}" for gate in traced.gates]
    names += [] if traced.decay is None else ["decay"]
    return names + ([] if traced.written is None else ["written"])


def _numbers(traced: Traced) -> list[Tensor]:
    numbers = [*traced.gates.values(), traced.decay, traced.written]
    return [number[:, 0] for number in numbers if number is not None]
