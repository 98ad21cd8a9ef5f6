"""Layers in `torch.fx`, `torch.jit.script` and quantisation: they work, or one sentence says what does."""

import copy

import pytest
import torch
from layer_laws import BATCH, FEATURES, HIDDEN, STEPS, as_tuple, every_cell, layer_of, series
from torch import fx, nn
from torch.nn.utils.parametrizations import weight_norm

import gatedrnn
from gatedrnn.verify.tolerances import EQUAL_TO_TORCH

pytestmark = pytest.mark.filterwarnings(
    "ignore:`torch.jit.script` is deprecated",
    "ignore:torch.ao.quantization is deprecated",
    "ignore:torch.quantize_per_tensor",
    "ignore:LSTM with projections is not supported with oneDNN",
)


class Around(nn.Module):
    """A user's own model: a layer between two others."""

    def __init__(self, layer):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(FEATURES, FEATURES, dtype=torch.float64))
        self.rnn = layer

    def forward(self, x, mask=None):
        output, _ = self.rnn(torch.relu(self.inner(x)), mask=mask)
        return output.sum(1)


class InTorchsWords(nn.Module):
    """The same for code that knows `nn.LSTM` alone."""

    def __init__(self, layer):
        super().__init__()
        self.rnn = layer

    def forward(self, x):
        output, last = self.rnn(x)
        return output, last


@every_cell
def test_fx_keeps_a_layer_whole_as_one_node(name):
    model = Around(layer_of(name, num_layers=2, bidirectional=True))
    traced = fx.symbolic_trace(model)
    assert [str(node.target) for node in traced.graph.nodes if node.op == "call_module"] == ["inner.0", "rnn"]
    for steps in (STEPS, 2 * STEPS):
        x, mask = series(BATCH, steps, FEATURES), torch.rand(BATCH, steps) < 0.7
        torch.testing.assert_close(traced(x, mask), model(x, mask), rtol=0, atol=0)


@pytest.mark.parametrize("cell", [gatedrnn.LSTMCell(FEATURES, HIDDEN), gatedrnn.MinGRUCell(FEATURES, HIDDEN)])
def test_fx_keeps_a_single_step_whole(cell):
    traced = fx.symbolic_trace(nn.Sequential(cell))
    x = series(BATCH, FEATURES, dtype=torch.float32)
    for ours, whole in zip(as_tuple(traced(x)), as_tuple(cell(x)), strict=True):
        torch.testing.assert_close(ours, whole, rtol=0, atol=0)


def test_fx_passes_a_state_and_a_scan_over_logarithms():
    class Stateful(InTorchsWords):
        def forward(self, x, hx):
            return self.rnn(x, hx)

    model = Stateful(gatedrnn.MinGRU(FEATURES, HIDDEN, batch_first=True, log_space=True))
    x, hx = torch.randn(BATCH, STEPS, FEATURES), torch.rand(1, BATCH, HIDDEN)
    for traced, called in zip(fx.symbolic_trace(model)(x, hx), model(x, hx), strict=True):
        torch.testing.assert_close(traced, called, rtol=0, atol=0)


@pytest.mark.parametrize("layer", [gatedrnn.MinGRU(FEATURES, HIDDEN), gatedrnn.LSTMCell(FEATURES, HIDDEN)])
def test_fx_of_the_layer_alone_says_what_to_trace(layer):
    with pytest.raises(TypeError, match=rf"keeps {type(layer).__name__} whole, as one node; trace a module that holds"):
        fx.symbolic_trace(layer)


STACK = {"num_layers": 2, "bidirectional": True, "bias": False, "dropout": 0.3}


@pytest.mark.parametrize("kind, options", [("LSTM", STACK), ("GRU", STACK), ("GRU", {}), ("LSTM", {"proj_size": 2})])
def test_script_compiles_what_torch_has_on_the_same_parameters(kind, options):
    model = InTorchsWords(getattr(gatedrnn, kind)(FEATURES, HIDDEN, batch_first=True, **options)).eval()
    weights, kept = list(model.parameters()), copy.deepcopy(model)
    scripted = torch.jit.script(model)
    assert [p.data_ptr() for p in scripted.parameters()] == [p.data_ptr() for p in weights]
    assert scripted.state_dict().keys() == kept.state_dict().keys() and not scripted.rnn.training
    x = series(BATCH, STEPS, FEATURES, dtype=torch.float32)
    (output, last), (expected, expected_last) = scripted(x), kept(x)
    for ours, theirs in zip((output, *as_tuple(last)), (expected, *as_tuple(expected_last)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=EQUAL_TO_TORCH)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_script_compiles_single_steps(kind):
    cell, x = getattr(gatedrnn, f"{kind}Cell")(FEATURES, HIDDEN, bias=kind == "LSTM"), torch.randn(BATCH, FEATURES)
    for ours, theirs in zip(as_tuple(torch.jit.script(cell)(x)), as_tuple(cell(x)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=EQUAL_TO_TORCH)


REFUSED = {
    "has no layer of its kind": gatedrnn.MinGRU(FEATURES, HIDDEN),
    "applies the reset gate after the product": gatedrnn.GRU(FEATURES, HIDDEN, reset_after=False),
    "has no layer_norm": gatedrnn.LSTM(FEATURES, HIDDEN, layer_norm=True),
    "has no zoneout": gatedrnn.GRU(FEATURES, HIDDEN, zoneout=0.1),
    "computed by a parametrisation": weight_norm(gatedrnn.LSTM(FEATURES, HIDDEN), "weight_hh_l0"),
    "has no cell of its kind": gatedrnn.MGUCell(FEATURES, HIDDEN),
    "has no cell": gatedrnn.GRUCell(FEATURES, HIDDEN, reset_after=False),
}


@pytest.mark.parametrize("why, layer", REFUSED.items(), ids=REFUSED)
def test_script_refuses_by_one_sentence_what_torch_has_not(why, layer):
    sentence = (
        rf"torch\.jit\.script cannot compile \w+: .*{why}.*; use torch\.jit\.trace, torch\.compile or torch\.export$"
    )
    for model in (layer, nn.Sequential(layer)):
        with pytest.raises(RuntimeError, match=sentence):
            torch.jit.script(model)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_dynamic_quantisation_takes_torchs_layer_with_the_weights(kind):
    """Our layers stay as they are: it looks for torch's very classes."""
    own = getattr(gatedrnn, kind)(FEATURES, HIDDEN, num_layers=2, batch_first=True)
    left = torch.ao.quantization.quantize_dynamic(nn.Sequential(own))
    assert type(left[0]) is type(own)
    theirs = getattr(nn, kind)(FEATURES, HIDDEN, num_layers=2, batch_first=True)
    theirs.load_state_dict(own.state_dict())
    quantised = torch.ao.quantization.quantize_dynamic(nn.Sequential(theirs))
    assert type(quantised[0]) is getattr(torch.ao.nn.quantized.dynamic, kind)
