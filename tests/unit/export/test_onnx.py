"""The outputs of onnxruntime are the model's, in a window and in the stream; a wrong graph is not kept."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from gatedrnn.errors import ExportWrong
from gatedrnn.export import onnx as onnx_export
from gatedrnn.export import series
from gatedrnn.export.onnx import ALLOWED, export_onnx
from gatedrnn.export.series import export_classifier, export_forecast
from gatedrnn.models import GatedRNNConfig, GatedRNNForCausalLM, GatedRNNForecastConfig, GatedRNNForForecasting
from gatedrnn.models import GatedRNNForSequenceClassification as Classifier

SCAN = {"cell": "mingru", "num_hidden_layers": 1}
MODELS = {
    "torch's kernel in blocks": {"cell": "lstm", "block": True},
    "one cell a layer": {"cell": "gru,minlstm,mgu", "num_hidden_layers": 3},
    "a learned initial state": {"cell": "signed-mingru,lstm,signed-mingru", "num_hidden_layers": 3},
}


def model_of(**changes):
    named = {"vocab_size": 19, "embedding_size": 6, "hidden_size": 7, "num_hidden_layers": 2}
    model = GatedRNNForCausalLM(GatedRNNConfig(**(named | changes))).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.7)
    return model


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A model, its folder, and how far what was exported differs from it."""
    model, folder = model_of(**SCAN), tmp_path_factory.mktemp("exported")
    return model, folder, export_onnx(model, folder)


@pytest.mark.parametrize("kind", [None, *(pytest.param(kind, marks=pytest.mark.slow) for kind in MODELS)])
def test_a_stream_and_a_whole_sequence_give_the_models_logits(kind, plain, tmp_path):
    model, folder, differences = plain
    if kind:
        model, folder = model_of(**MODELS[kind]), tmp_path
        differences = export_onnx(model, folder)
    assert all(error <= ALLOWED for error in differences.values())
    tokens = torch.randint(19, (4, 9))
    with torch.no_grad():
        expected = model(tokens).logits.numpy()
    whole = onnxruntime.InferenceSession(folder / "sequence.onnx")
    with np.load(folder / "initial_state.npz") as begun:
        assert set(begun) == {i.name for i in whole.get_inputs()[1:]}
        states = {i.name: np.repeat(begun[i.name][None], 4, axis=0) for i in whole.get_inputs()[1:]}
    (logits,) = whole.run(["logits"], {"tokens": tokens.numpy(), **states})
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
    step = onnxruntime.InferenceSession(folder / "step.onnx")
    carried = list(states.values())
    for t in range(9):
        logits, *carried = step.run(None, dict(zip(["tokens", *states], [tokens[:, t].numpy(), *carried], strict=True)))
        np.testing.assert_allclose(logits, expected[:, t], rtol=1e-5, atol=1e-5)


def test_a_graph_with_other_numbers_is_refused_and_removed(plain, tmp_path, monkeypatch):
    _, folder, _ = plain
    torch.manual_seed(1)  # other weights than those
    monkeypatch.setattr(onnx_export, "_exported", lambda given: onnx.load(folder / "step.onnx"))
    with pytest.raises(ExportWrong, match="differs from the model by"):
        export_onnx(model_of(**SCAN), tmp_path)
    assert list(tmp_path.glob("*.onnx")) == []


def forecaster(cell="mingru", **given):
    torch.manual_seed(0)
    fields = {"horizon": 5, "seasons": [3, 4], "context": 9, "hidden_size": 8, "embedding_size": 6, **given}
    fields["num_hidden_layers"] = len(cell.split(","))
    model = GatedRNNForForecasting(GatedRNNForecastConfig(cell=cell, **fields)).eval()
    for network in model.networks:
        for parameter in network.head.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def in_torch(model, folder):
    step = series.NextValue(model)
    return series.Window(model), lambda new, carried: step(new, *carried)


def as_graphs(model, folder):
    assert all(error <= ALLOWED for error in export_forecast(model, folder).values())
    window, step = (onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in ("window", "step"))
    names = [one.name for one in step.get_inputs()]
    return (
        lambda values: window.run(None, {"past_values": values.numpy()}),
        lambda new, carried: step.run(None, dict(zip(names, [new.numpy(), *carried], strict=True))),
    )


@pytest.mark.parametrize("fields", [{}, {"non_negative": True}, {"members": 2}])
@pytest.mark.parametrize("run", [in_torch, pytest.param(as_graphs, marks=pytest.mark.slow)])
@torch.no_grad()
def test_a_window_and_the_stream_after_it_give_the_models_forecasts(run, fields, tmp_path):
    model = forecaster("lstm,mingru", linear_size=9, **fields)
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
        assert (np.asarray(quantiles).min() == 0) == model.config.non_negative


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{"bidirectional": True, "pooling": "mean"}, {"pooling": "last", "cell": "lstm"}])
def test_a_classifier_of_series_reads_windows_of_any_length(fields, tmp_path):
    scale = {"channel_means": [1.0, 2.0], "channel_deviations": [2.0, 3.0], "flagged_channels": [1]}
    fields = {"cell": "mingru", "input_size": 2, "hidden_size": 5, "num_labels": 3, **scale, **fields}
    model = Classifier(GatedRNNConfig(**fields)).eval()
    assert export_classifier(model, tmp_path)["window.onnx"] <= ALLOWED
    values = torch.randn(4, 17, 2, dtype=torch.float64)
    values[0, 3, 1] = float("nan")
    found = onnxruntime.InferenceSession(tmp_path / "window.onnx").run(None, {"input_values": values.numpy()})[0]
    np.testing.assert_allclose(found, model(input_values=values).logits.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_forecast_with_covariates_is_the_models_and_a_graph_with_other_numbers_is_removed(tmp_path, monkeypatch):
    covariates = forecaster("gru", known_size=2, past_size=1, static_size=1)
    assert all(error <= ALLOWED for error in export_forecast(covariates, tmp_path / "right").values())
    graph_of, other = series.graph_of, forecaster(hidden_size=8, quantiles=[0.2, 0.5, 0.8])
    model = forecaster()
    torch.nn.init.normal_(model.head.quantiles.bias)
    monkeypatch.setattr(series, "graph_of", lambda module, *rest: graph_of(type(module)(other), *rest))
    with pytest.raises(ExportWrong, match="differs from the model by"):
        export_forecast(model, tmp_path)
    assert list(tmp_path.glob("*.onnx")) == []
