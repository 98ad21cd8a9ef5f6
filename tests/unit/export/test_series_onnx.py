"""Models of series as ONNX: onnxruntime's numbers are the model's, in a window and in the stream after it."""

import numpy as np
import onnxruntime
import pytest
import torch

from gatedrnn.errors import ExportWrong
from gatedrnn.export import series as exporting
from gatedrnn.export.onnx import ALLOWED
from gatedrnn.export.series import export_classifier, export_forecast
from gatedrnn.models import (
    GatedRNNConfig,
    GatedRNNForecastConfig,
    GatedRNNForForecasting,
    GatedRNNForSequenceClassification,
)


def forecaster(cell="mingru", **given):
    torch.manual_seed(0)
    size = 3 + sum(given.get(name, 0) for name in ("known_size", "past_size", "static_size"))
    fields = {"horizon": 5, "seasons": [3, 4], "context": 9, "hidden_size": 8, "embedding_size": 6, **given}
    scale = {"channel_means": [0.0] * size, "channel_deviations": [1.0] * size, "flagged_channels": [0]}
    layers = len(cell.split(","))
    config = GatedRNNForecastConfig(cell=cell, input_size=size, num_hidden_layers=layers, **scale, **fields)
    model = GatedRNNForForecasting(config).eval()
    for parameter in model.head.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def in_torch(model, folder):
    """The modules that are exported, called as their graphs are."""
    window, step = exporting.Window(model), exporting.NextValue(model)
    return window, lambda new, carried: step(new, *carried)


def as_graphs(model, folder):
    assert all(error <= ALLOWED for error in export_forecast(model, folder).values())
    window, step = (onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in ("window", "step"))
    names = [one.name for one in step.get_inputs()]
    return (
        lambda values: window.run(None, {"past_values": values.numpy()}),
        lambda new, carried: step.run(None, dict(zip(names, [new.numpy(), *carried], strict=True))),
    )


@pytest.mark.parametrize("run", [in_torch, pytest.param(as_graphs, marks=pytest.mark.slow)])
@torch.no_grad()
def test_a_window_and_the_stream_after_it_give_the_models_forecasts(run, tmp_path):
    model = forecaster("lstm,mingru", linear_size=9)
    values = torch.randn(4, 18, dtype=torch.float64) * 50
    values[1, 7] = values[2, 13] = float("nan")
    window, step = run(model, tmp_path)
    quantiles, *carried = window(values[:, :9])
    np.testing.assert_allclose(quantiles, model.predict(values[:, :9]), rtol=1e-4, atol=1e-3)
    state = model.start(values[:, :9])
    for place in range(9, 18):
        new = values[:, place : place + 1]
        quantiles, *carried = step(new, carried)
        np.testing.assert_allclose(quantiles, model.forecast(model.update(state, new)), rtol=1e-4, atol=1e-3)


@pytest.mark.slow
def test_a_forecast_with_covariates_is_the_models_in_both_graphs(tmp_path):
    model = forecaster("gru", known_size=2, past_size=1, static_size=1)
    assert all(error <= ALLOWED for error in export_forecast(model, tmp_path).values())


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{"bidirectional": True, "pooling": "mean"}, {"pooling": "last", "cell": "lstm"}])
def test_a_classifier_of_series_reads_windows_of_any_length(fields, tmp_path):
    scale = {"channel_means": [1.0, 2.0], "channel_deviations": [2.0, 3.0], "flagged_channels": [1]}
    config = GatedRNNConfig(**{"cell": "mingru", "input_size": 2, "hidden_size": 5, "num_labels": 3, **scale, **fields})
    model = GatedRNNForSequenceClassification(config).eval()
    assert export_classifier(model, tmp_path)["window.onnx"] <= ALLOWED
    values = torch.randn(4, 17, 2)
    values[0, 3, 1] = float("nan")
    found = onnxruntime.InferenceSession(tmp_path / "window.onnx").run(None, {"input_values": values.numpy()})[0]
    np.testing.assert_allclose(found, model(input_values=values).logits.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_graph_with_other_numbers_is_refused_and_removed(tmp_path, monkeypatch):
    graph_of = exporting.graph_of

    def of_another_model(module, *rest):
        return graph_of(type(module)(forecaster(hidden_size=8, quantiles=[0.2, 0.5, 0.8])), *rest)

    model = forecaster()
    torch.nn.init.normal_(model.head.quantiles.bias)
    monkeypatch.setattr(exporting, "graph_of", of_another_model)
    with pytest.raises(ExportWrong, match="differs from the model by"):
        export_forecast(model, tmp_path)
    assert list(tmp_path.glob("*.onnx")) == []
