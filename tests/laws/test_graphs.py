"""Layers in `torch.fx`, `torch.jit.script` and quantisation: they work, or one sentence says what does."""

import copy

import pytest
import torch
from layer_laws import BATCH, CELLS, FEATURES, HIDDEN, STEPS, TORCH, as_tuple, every_cell, layer_of, series
from torch import fx, nn
from torch.nn.utils.parametrizations import weight_norm

import gatedrnn
from gatedrnn import registry
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


@pytest.mark.parametrize("name", registry.CELLS)
def test_fx_keeps_a_single_step_whole(name):
    cell = registry.CELLS[name].single_step(FEATURES, HIDDEN)
    traced = fx.symbolic_trace(nn.Sequential(cell))
    x = series(BATCH, FEATURES, dtype=torch.float32)
    for ours, whole in zip(as_tuple(traced(x)), as_tuple(cell(x)), strict=True):
        torch.testing.assert_close(ours, whole, rtol=0, atol=0)


def test_fx_hands_on_a_state_and_a_scan_over_logarithms():
    class Stateful(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = gatedrnn.MinGRU(FEATURES, HIDDEN, batch_first=True, log_space=True)

        def forward(self, x, hx):
            output, last = self.rnn(x, hx)
            return output[:, -1], last

    model, x, hx = Stateful(), torch.randn(BATCH, STEPS, FEATURES), torch.rand(1, BATCH, HIDDEN)
    for traced, called in zip(fx.symbolic_trace(model)(x, hx), model(x, hx), strict=True):
        torch.testing.assert_close(traced, called, rtol=0, atol=0)


@pytest.mark.parametrize("layer", [gatedrnn.MinGRU(FEATURES, HIDDEN), gatedrnn.LSTMCell(FEATURES, HIDDEN)])
def test_fx_of_the_layer_alone_says_what_to_trace(layer):
    with pytest.raises(TypeError, match=rf"keeps {type(layer).__name__} whole, as one node; trace a module that holds"):
        fx.symbolic_trace(layer)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True, "bias": False, "dropout": 0.3}])
def test_script_compiles_what_torch_has_on_the_same_parameters(kind, options):
    model = InTorchsWords(getattr(gatedrnn, kind)(FEATURES, HIDDEN, batch_first=True, **options)).eval()
    weights, kept = list(model.parameters()), copy.deepcopy(model)
    scripted = torch.jit.script(model)
    assert [p.data_ptr() for p in scripted.parameters()] == [p.data_ptr() for p in weights]
    assert scripted.state_dict().keys() == kept.state_dict().keys() and not scripted.rnn.training
    x = series(BATCH, STEPS, FEATURES, dtype=torch.float32)
    (output, last), (expected, expected_last) = scripted(x), kept(x)
    torch.testing.assert_close(output, expected, rtol=0, atol=EQUAL_TO_TORCH)
    for ours, theirs in zip(as_tuple(last), as_tuple(expected_last), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=EQUAL_TO_TORCH)


def test_script_compiles_a_projection_and_single_steps():
    model = InTorchsWords(gatedrnn.LSTM(FEATURES, HIDDEN, proj_size=2))
    x = torch.randn(STEPS, BATCH, FEATURES)
    expected, _ = model(x)
    torch.testing.assert_close(torch.jit.script(model)(x)[0], expected, rtol=0, atol=EQUAL_TO_TORCH)
    for cell in (gatedrnn.LSTMCell(FEATURES, HIDDEN), gatedrnn.GRUCell(FEATURES, HIDDEN, bias=False)):
        for ours, theirs in zip(as_tuple(torch.jit.script(cell)(x[0])), as_tuple(cell(x[0])), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=EQUAL_TO_TORCH)


WITHOUT = {name: make for name, make in CELLS.items() if name not in TORCH}


@pytest.mark.parametrize(
    "layer",
    [
        *(make(FEATURES, HIDDEN) for make in WITHOUT.values()),
        gatedrnn.LSTM(FEATURES, HIDDEN, layer_norm=True),
        gatedrnn.GRU(FEATURES, HIDDEN, zoneout=0.1),
        weight_norm(gatedrnn.LSTM(FEATURES, HIDDEN), "weight_hh_l0"),
        gatedrnn.MGUCell(FEATURES, HIDDEN),
        gatedrnn.GRUCell(FEATURES, HIDDEN, reset_after=False),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_script_refuses_by_one_sentence_what_torch_has_not(layer):
    sentence = r"torch\.jit\.script cannot compile \w+: .*; use torch\.jit\.trace, torch\.compile or torch\.export$"
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
    x = torch.randn(BATCH, STEPS, FEATURES)
    # Eight bits a weight: half a unit of 1/127 of the largest, summed over the inputs of a gate.
    error = (quantised(x)[0] - own(x)[0]).abs().max()
    assert error < (FEATURES + HIDDEN) / 127
