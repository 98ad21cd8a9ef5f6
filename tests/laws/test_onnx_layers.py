"""A user's own model becomes ONNX by both of torch's exporters, and onnxruntime gives its numbers."""

import contextlib
import io
from copy import deepcopy

import onnx
import onnxruntime
import pytest
import torch
from layer_laws import CELLS, FEATURES, as_tuple, every_cell, layer_of, packed_up, states_of
from tolerances import assert_equal_within
from torch import nn
from torch.export import Dim
from torch.onnx.errors import UnsupportedOperatorError

from gatedrnn.errors import BackendUnavailable

BATCH, STEPS = 3, 5
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind}")  # torch's exporters warn of themselves
    for kind in ("DeprecationWarning", "FutureWarning", "UserWarning", "torch.jit.TracerWarning")
]


class Head(nn.Module):
    """A layer and what a user puts behind it."""

    def __init__(self, layer):
        super().__init__()
        self.rnn, self.head = layer, nn.Linear(layer.output_size, 2)

    def forward(self, x, *hx):
        output, last = self.rnn(x, packed_up(hx) if hx else None)
        return self.head(output), *as_tuple(last)


def inputs(layer, with_state, batch, steps):
    states = states_of(layer, batch, torch.float32) if with_state else ()
    return torch.randn(batch, steps, FEATURES), *states


def assert_runs_alike(path, model, given, names=None):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    kept = [i.name for i in session.get_inputs()]
    fed = dict(zip(names or kept, given, strict=True))
    found = session.run(None, {name: fed[name].numpy() for name in kept})  # a state that nothing reads is no input
    with torch.no_grad():
        expected, exact = model(*given), deepcopy(model).double()(*(x.double() for x in given))
    for i, (got, right, truth) in enumerate(zip(found, expected, exact, strict=True)):
        # Two roundings of float32 may be further apart than each is from the exact numbers: the nearer one is judged.
        nearer = min((right, truth), key=lambda wanted: float((torch.tensor(got) - wanted).abs().max()))
        assert_equal_within(torch.tensor(got), nearer, torch.float32, f"output {i}")
    graph = onnx.load(path)
    assert {entry.domain for entry in graph.opset_import} <= {"", "ai.onnx", "pkg.torch.__subgraph__"}
    return {node.op_type for node in graph.graph.node}


def quietly(export):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return export()


def check_unrolled(name, path, with_state, **options):
    """The older exporter: any batch, the example's length."""
    layer = layer_of(name, dtype=torch.float32, **options)
    model, example = Head(layer).eval(), inputs(layer, with_state, BATCH, STEPS)
    names = ["x", *(f"hx{i}" for i in range(len(example) - 1))]
    free = {n: {0 if n == "x" else 1: "batch"} for n in names}
    quietly(lambda: torch.onnx.export(model, example, path, dynamo=False, input_names=names, dynamic_axes=free))
    return assert_runs_alike(path, model, inputs(layer, with_state, BATCH + 1, STEPS), names)


def check_any_length(name, path, with_state, **options):
    """The newer exporter: any batch and any length."""
    layer = layer_of(name, dtype=torch.float32, **options)
    model, example = Head(layer).eval(), inputs(layer, with_state, BATCH, STEPS)
    batch, time = Dim("batch"), Dim("time")
    free = ({0: batch, 1: time}, *([tuple({1: batch} for _ in example[1:])] if with_state else []))
    quietly(lambda: torch.onnx.export(model, example, dynamo=True, dynamic_shapes=free, verbose=False).save(path))
    fixed = name == "block-orthogonal"  # whose batch torch's exporter fixes
    return assert_runs_alike(path, model, inputs(layer, with_state, BATCH if fixed else BATCH + 1, 2 * STEPS))


@pytest.mark.parametrize("name", ["lstm", "gru", "mgu", "mingru"])
def test_the_older_exporter_takes_torchs_operators_or_unrolls(name, tmp_path):
    operators = check_unrolled(name, tmp_path / "model.onnx", with_state=True)
    assert operators & {"LSTM", "GRU"} == {name.upper()} & {"LSTM", "GRU"}


@pytest.mark.slow
def test_the_newer_exporter_makes_one_scan_of_any_length(tmp_path):
    assert "Scan" in check_any_length("mgu", tmp_path / "model.onnx", with_state=False)


@pytest.mark.parametrize("name, backend", [("mgu", "native"), ("mingru", "native"), ("block-orthogonal", "native")])
def test_a_kernel_asked_for_by_name_is_refused(name, backend, tmp_path):
    layer = layer_of(name, dtype=torch.float32)
    layer.backend = backend
    with pytest.raises(BackendUnavailable, match="use 'auto'"):
        torch.onnx.export(Head(layer).eval(), inputs(layer, False, BATCH, STEPS), tmp_path / "no.onnx", dynamo=False)


shapes_of_a_stack = pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}], ids=["plain", "stack", "no bias"]
)
with_and_without_a_state = pytest.mark.parametrize("with_state", [False, True], ids=["zeros", "hx"])


@pytest.mark.slow
@every_cell
@shapes_of_a_stack
@with_and_without_a_state
def test_every_cell_through_the_older_exporter(name, options, with_state, tmp_path):
    if name == "rg-lru":  # its drive needs expm1, which this exporter does not know
        with pytest.raises(UnsupportedOperatorError, match="expm1"):
            check_unrolled(name, tmp_path / "model.onnx", with_state, **options)
        return
    check_unrolled(name, tmp_path / "model.onnx", with_state, **options)


@pytest.mark.slow
@every_cell
@shapes_of_a_stack
@with_and_without_a_state
def test_every_cell_through_the_newer_exporter_at_any_length(name, options, with_state, tmp_path):
    check_any_length(name, tmp_path / "model.onnx", with_state, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CELLS if name != "rg-lru" and ("gru" not in name or "min" in name)])
def test_a_projection_is_exported(name, tmp_path):
    check_unrolled(name, tmp_path / "model.onnx", False, proj_size=2)
