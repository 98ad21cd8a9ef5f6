"""What onnxruntime computes is what the model computes, and a graph that is wrong is not kept."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from gatedrnn.errors import ExportWrong
from gatedrnn.export import onnx as exporting
from gatedrnn.export.onnx import ALLOWED, export_onnx
from gatedrnn.models import GatedRNNConfig, GatedRNNForCausalLM

MODELS = {
    "plain scan": {"cell": "mingru", "num_hidden_layers": 1},
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
def exported(tmp_path_factory):
    """A model, its folder, and how far what was exported differs from it; once for each kind."""
    made = {}

    def once(kind):
        if kind not in made:
            model, folder = model_of(**MODELS[kind]), tmp_path_factory.mktemp("exported")
            made[kind] = model, folder, export_onnx(model, folder)
        return made[kind]

    once("plain scan")
    return once


@pytest.mark.parametrize("kind", ["plain scan", *(pytest.param(k, marks=pytest.mark.slow) for k in list(MODELS)[1:])])
def test_a_stream_and_a_whole_sequence_give_the_models_logits(kind, exported):
    model, folder, differences = exported(kind)
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


def test_a_graph_with_other_numbers_is_refused_and_removed(exported, tmp_path, monkeypatch):
    _, folder, _ = exported("plain scan")
    torch.manual_seed(1)  # other weights than those
    monkeypatch.setattr(exporting, "_exported", lambda given: onnx.load(folder / "step.onnx"))
    with pytest.raises(ExportWrong, match="differs from the model by"):
        export_onnx(model_of(**MODELS["plain scan"]), tmp_path)
    assert list(tmp_path.glob("*.onnx")) == []
