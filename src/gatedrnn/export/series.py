"""Models of series as ONNX: a window, and for forecasts a step of the stream that follows it; held against torch."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch
from torch import Tensor, nn

from gatedrnn.export.onnx import check_alike, graph_of, input_name, largest_difference, state_names
from gatedrnn.models import GatedRNNCache, GatedRNNForForecasting
from gatedrnn.models.forecast_units import Scale
from gatedrnn.models.forecasting import ForecastState, stream_of
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.records import written_together

BATCH, STEPS = 3, 11  # of the check; others than the export's example, so that a fixed size shows


class Window(nn.Module):
    """(past_values (batch, context), covariates …) to the forecast and the stream after it."""

    def __init__(self, model: GatedRNNForForecasting) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        named: dict[str, Any] = dict(zip(_input_names(self.model, ahead=True), inputs, strict=True))
        ahead = named.pop("known_ahead", None)
        state = self.model.start(named.pop("past_values"), **named)
        return self.model.forecast(state, ahead), *_carried(self.model, state)


class NextValue(nn.Module):
    """(new_value (batch, 1), covariates …, the stream …) to the forecast and the stream after it."""

    def __init__(self, model: GatedRNNForForecasting) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        model, names = self.model, _input_names(self.model, ahead=True)
        named = dict(zip(names, inputs, strict=False))
        stream = dict(zip(_stream(model), inputs[len(names) :], strict=True))
        cache = GatedRNNCache.of_tensors(
            model.config, {name: stream.pop(input_name(name)) for name in state_names(model)}
        )
        state = stream_of(cache, stream, {name: named.get(name) for name in ("static", "deviation")})
        model.update(state, named["past_values"], named.get("known_covariates"), named.get("past_covariates"))
        return model.forecast(state, named.get("known_ahead")), *_carried(model, state)


def export_forecast(model: GatedRNNForForecasting, folder: Path) -> dict[str, float]:
    """Write window.onnx and step.onnx into `folder`, both at once, after onnxruntime ran them beside the model.

    `window` takes `past_values`, float64 (batch, context), whose first step has a value, NaN where a later one is
    missing; `step` takes one value more, (batch, 1). Covariates are further inputs: `known_covariates`,
    `past_covariates` of the same steps, `static`, `known_ahead` of the horizon, and, where known covariates have
    effects in units of it, the `deviation` of each series, float64 (batch,). Both give `quantiles` (batch,
    horizon, quantiles), and the stream (the unit of its values, what the smoothers have seen, and the state of each
    layer), which `step` takes again.

    Returns:
        The largest difference of each, see `gatedrnn.export.onnx.ALLOWED`.

    Raises:
        ExportWrong: one is larger than allowed; nothing is written.
        OSError: a file cannot be written; nothing is.
    """
    model, config = model.eval().float(), model.config
    stream = _stream(model)
    outputs, batch = ["quantiles", *(f"{name}_after" for name in stream)], torch.export.Dim("batch", min=1)
    example, names = _example(model, 2, config.context), _input_names(model, ahead=True)

    def all_batches(count: int) -> dict[str, object]:
        return {"inputs": tuple({0: batch} for _ in range(count))}

    window = graph_of(Window(model), tuple(example.values()), names, outputs, all_batches(len(names)))
    with torch.no_grad():
        after = Window(model)(*example.values())[1:]
    single = _example(model, 2, 1)
    inputs = [name.replace("past_values", "new_value") for name in names] + stream
    step = graph_of(NextValue(model), (*single.values(), *after), inputs, outputs, all_batches(len(inputs)))
    differences, carried = {}, list[Any]()
    with written_together(folder) as writing:
        for name, graph, module, steps in (
            ("window", window, Window(model), config.context), ("step", step, NextValue(model), 1),
        ):  # fmt: skip
            path = writing / f"{name}.onnx"
            onnx.save(graph, path)
            new = list(_example(model, BATCH, steps).values())
            differences[path.name], carried = _beside(path, module, [*new, *carried])
            check_alike(folder / path.name, differences[path.name])
    return differences


def export_classifier(model: GatedRNNPreTrainedModel, folder: Path) -> dict[str, float]:
    """Write window.onnx into `folder`, for whole series: `input_values` (batch, time, channels) of any length, float64
    where the model knows means and deviations of its channels, else float32; and of a model of uneven series `gaps`,
    float32 (batch, time); to `logits`, (batch, labels), or (batch, time, labels) for a label at every step.

    Returns, raises:
        As `export_forecast`.
    """
    model, size = model.eval().float(), model.config.input_size or 0
    batch, time = torch.export.Dim("batch", min=1), torch.export.Dim("time", min=2)
    dtype = torch.float32 if model.config.channel_means is None else torch.float64
    module, names = _Logits(model), ["input_values"] + (["gaps"] if model.config.gap_unit is not None else [])

    def example(rows: int, steps: int) -> list[Tensor]:
        return [torch.randn(rows, steps, size, dtype=dtype), torch.rand(rows, steps)][: len(names)]

    free: dict[str, object] = {name: {0: batch, 1: time} for name in names}
    graph = graph_of(module, tuple(example(4, 7)), names, ["logits"], free)
    with written_together(folder) as writing:
        path = writing / "window.onnx"
        onnx.save(graph, path)
        difference, _ = _beside(path, module, example(BATCH, STEPS))
        check_alike(folder / path.name, difference)
    return {path.name: difference}


class _Logits(nn.Module):
    def __init__(self, model: GatedRNNPreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_values: Tensor, gaps: Tensor | None = None) -> Tensor:
        logits: Tensor = self.model(input_values=input_values, gaps=gaps).logits
        return logits


def _beside(path: Path, module: nn.Module, inputs: list[Tensor]) -> tuple[float, list[Tensor]]:
    """The difference, and all outputs but the first."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [tensor.name for tensor in session.get_inputs()]
    outputs = session.run(
        None, {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True) if name in names}
    )
    with torch.no_grad():
        expected = module(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    return largest_difference(outputs, [tensor.numpy() for tensor in expected]), list(expected[1:])


def _input_names(model: GatedRNNForForecasting, *, ahead: bool) -> list[str]:
    """Names of what a window, and a new value, come with."""
    config, names = model.config, ["past_values"]
    names += ["known_covariates"] if config.known_size else []
    names += ["past_covariates"] if config.past_size else []
    names += ["static"] if config.static_size else []
    if config.known_regression is not None and not config.known_regression["relative"]:
        names.append("deviation")
    return names + (["known_ahead"] if ahead and config.known_size else [])


def _example(model: GatedRNNForForecasting, batch: int, steps: int) -> dict[str, Tensor]:
    config = model.config
    random = torch.Generator().manual_seed(0)
    made: Mapping[str, Callable[[], Tensor]] = {
        "past_values": lambda: torch.randn(batch, steps, generator=random, dtype=torch.float64) * 10 + 100,
        "known_covariates": lambda: torch.randn(batch, steps, config.known_size, generator=random),
        "past_covariates": lambda: torch.randn(batch, steps, config.past_size, generator=random),
        "static": lambda: torch.randn(batch, config.static_size, generator=random),
        "deviation": lambda: torch.rand(batch, generator=random, dtype=torch.float64) + 0.5,
        "known_ahead": lambda: torch.randn(batch, config.horizon, config.known_size, generator=random),
    }
    return {name: made[name]() for name in _input_names(model, ahead=True)}


def _stream(model: GatedRNNForForecasting) -> list[str]:
    """Names of what a stream is between two values."""
    tensors = Scale.of(torch.zeros(1, 1)).tensors() | model.nothing_before(torch.zeros(1, 1)).tensors()
    return [*tensors, *(input_name(name) for name in state_names(model))]


def _carried(model: GatedRNNForForecasting, state: ForecastState) -> tuple[Tensor, ...]:
    states = state.cache.tensors()
    return (*state.tensors().values(), *(states[name] for name in state_names(model)))
