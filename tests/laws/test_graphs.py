"""Layers in `torch.fx`, `torch.jit.script` and quantisation: they work, or one sentence says what does."""

import copy

import pytest
import torch
from covering import over
from layer_laws import BATCH, CELL, FEATURES, HIDDEN, STEPS, as_tuple, assert_same_run, every_cell, layer_of, series
from refusals import refused
from torch import fx, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import gatedrnn
from gatedrnn.registry import CELLS
from gatedrnn.verify.tolerances import EQUAL_TO_TORCH

OF_TORCH = (
    "`torch.jit.script` is deprecated",
    "`torch.jit.trace",
    "torch.ao.quantization is deprecated",
    "torch.quantize_per_tensor",
)
pytestmark = pytest.mark.filterwarnings(*(f"ignore:{words}" for words in OF_TORCH))


def assert_exactly(found, expected, atol=0.0):
    """The results of two modules, an output and states or one of them alone."""
    for one, other in zip(as_tuple(found), as_tuple(expected), strict=True):
        for got, want in zip(as_tuple(one), as_tuple(other), strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=atol)


class Around(nn.Module):
    """A user's own model: a layer between two others."""

    def __init__(self, layer):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(FEATURES, FEATURES, dtype=torch.float64))
        self.rnn = layer

    def forward(self, x, mask=None):
        output, _ = self.rnn(torch.relu(self.inner(x)), mask=mask)
        return output.sum(1)


class Called(nn.Module):
    """A call of a layer or of a single step with flags of some kind, or with a packed sequence."""

    def __init__(self, module, how):
        super().__init__()
        self.module, self.how = module, how

    def forward(self, x, flags):
        if self.how == "packed":
            packed = pack_padded_sequence(x, flags.sum(1), batch_first=True, enforce_sorted=False)
            output, last = self.module(packed)
            return pad_packed_sequence(output, batch_first=True, total_length=x.shape[1])[0], last
        if self.how == "step":
            return x, self.module(x[:, 0])
        return self.module(x, **({} if self.how == "whole" else {self.how: flags}))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@over(name=CELL, how=("whole", "mask", "resets", "packed", "step"))
def test_a_traced_graph_runs_any_batch(name, how):
    single = CELLS[name].single_step if name in CELLS else None
    layer = single(FEATURES, HIDDEN, dtype=torch.float64) if how == "step" and single else layer_of(name)
    model = Called(layer, how if how != "step" or single else "whole")

    def inputs(batch):
        return series(batch, STEPS, FEATURES), torch.arange(STEPS) < STEPS - torch.arange(batch)[:, None] % STEPS

    traced = torch.jit.trace(model, inputs(2), check_trace=False)
    for batch in (1, 5):
        given = inputs(batch)
        assert_same_run(traced(*given), model(*given))


class InTorchsWords(nn.Module):
    """The law for code that knows `nn.LSTM` alone."""

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
        assert_exactly(traced(x, mask), model(x, mask))


def test_fx_keeps_a_single_step_whole_passes_a_state_and_says_of_a_layer_alone_what_to_trace():
    x = series(BATCH, FEATURES, dtype=torch.float32)
    for cell in (gatedrnn.LSTMCell(FEATURES, HIDDEN), gatedrnn.MinGRUCell(FEATURES, HIDDEN)):
        assert_exactly(fx.symbolic_trace(nn.Sequential(cell))(x), cell(x))

    class Stateful(InTorchsWords):
        def forward(self, x, hx):
            return self.rnn(x, hx)

    model = Stateful(gatedrnn.MinGRU(FEATURES, HIDDEN, batch_first=True, log_space=True))
    x, hx = torch.randn(BATCH, STEPS, FEATURES), torch.rand(1, BATCH, HIDDEN)
    assert_exactly(fx.symbolic_trace(model)(x, hx), model(x, hx))
    for alone in (gatedrnn.MinGRU(FEATURES, HIDDEN), gatedrnn.LSTMCell(FEATURES, HIDDEN)):
        said = f"keeps {type(alone).__name__} whole, as one node; trace a module that holds"
        refused(TypeError, said, fx.symbolic_trace, alone)


STACK = {"num_layers": 2, "bidirectional": True, "bias": False, "dropout": 0.3}


@pytest.mark.parametrize("kind, options", [("LSTM", STACK), ("GRU", STACK), ("GRU", {}), ("LSTM", {"proj_size": 2})])
def test_script_compiles_what_torch_has_on_the_same_parameters(kind, options):
    model = InTorchsWords(getattr(gatedrnn, kind)(FEATURES, HIDDEN, batch_first=True, **options)).eval()
    weights, kept = list(model.parameters()), copy.deepcopy(model)
    scripted = torch.jit.script(model)
    assert [p.data_ptr() for p in scripted.parameters()] == [p.data_ptr() for p in weights]
    assert scripted.state_dict().keys() == kept.state_dict().keys() and not scripted.rnn.training
    x = series(BATCH, STEPS, FEATURES, dtype=torch.float32)
    assert_exactly(scripted(x), kept(x), EQUAL_TO_TORCH)
    cell = getattr(gatedrnn, f"{kind}Cell")(FEATURES, HIDDEN, bias=not options)
    assert_exactly(torch.jit.script(cell)(x[:, 0]), cell(x[:, 0]), EQUAL_TO_TORCH)


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
    instead = r"use torch\.jit\.trace, torch\.compile or torch\.export$"
    for model in (layer, nn.Sequential(layer)):
        refused(RuntimeError, rf"torch\.jit\.script cannot compile \w+: .*{why}.*; {instead}", torch.jit.script, model)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_dynamic_quantisation_takes_torchs_layer_with_the_weights(kind):
    """Our layers stay as they are: it looks for torch's very classes."""
    own = getattr(gatedrnn, kind)(FEATURES, HIDDEN, num_layers=2, batch_first=True)
    said = f"{kind} stays in floating point: .* load this state dict into nn.{kind} and quantise that"
    with pytest.warns(UserWarning, match=said) as caught:
        left = torch.ao.quantization.quantize_dynamic(nn.Sequential(own))
    assert type(left[0]) is type(own) and __file__ in {warning.filename for warning in caught}
    theirs = getattr(nn, kind)(FEATURES, HIDDEN, num_layers=2, batch_first=True)
    theirs.load_state_dict(own.state_dict())
    quantised = torch.ao.quantization.quantize_dynamic(nn.Sequential(theirs))
    assert type(quantised[0]) is getattr(torch.ao.nn.quantized.dynamic, kind)
