"""A user's own model becomes ONNX by both of torch's exporters, and onnxruntime gives its numbers.

Graphs are held against the model in float64, where an error is a fault and no rounding; float32 has the same operators.
"""

import contextlib
import io
from copy import deepcopy
from itertools import cycle, product

import onnx
import onnxruntime
import pytest
import torch
from covering import over
from layer_laws import CELLS, FEATURES, TORCH, as_tuple, layer_of, packed_up, projection, states_of
from refusals import refused
from tolerances import assert_equal_within
from torch import nn
from torch.export import Dim
from torch.onnx.errors import UnsupportedOperatorError

from gatedrnn.errors import BackendUnavailable

BATCH, STEPS = 3, 5
SOFTPLUS = ("lstm-normalized", "minlstm")
"""onnxruntime has three of the operators in float32 alone: Softplus, and LSTM and GRU of the older exporter."""
WINDOW = "qrnn of window 2"
SHAPES = {"plain": {}, "stack": {"num_layers": 2, "bidirectional": True}, "no bias": {"bias": False, "proj_size": 2}}
WITH_STATE = {"zeros": False, "hx": True}
FLAGS = {"none": (), "mask": ("mask",), "resets": ("resets",), "both": ("mask", "resets")}
KINDS = ("DeprecationWarning", "FutureWarning", "UserWarning", "torch.jit.TracerWarning")
pytestmark = pytest.mark.filterwarnings(*(f"ignore::{kind}" for kind in KINDS))  # torch's exporters warn of themselves


class Head(nn.Module):
    """A layer and what a user puts behind it."""

    def __init__(self, layer, flags=()):
        super().__init__()
        self.rnn, self.head = layer, nn.Linear(layer.output_size, 2, dtype=layer.weight_ih_l0.dtype)
        self.flags = flags

    def forward(self, x, *others):
        """Flags come as numbers, 1 where they are set, then the state."""
        count = len(self.flags)
        flags, hx = {name: given > 0 for name, given in zip(self.flags, others, strict=False)}, others[count:]
        output, last = self.rnn(x, packed_up(hx) if hx else None, **flags)
        return self.head(output), *as_tuple(last)


def model_of(name, dtype, proj_size=0, flags=(), **options):
    name, _, window = name.partition(" of window ")
    options |= projection(name, proj_size) | ({"window": int(window)} if window else {})
    return Head(layer_of(name, dtype=dtype, **options), flags).eval()


def inputs(model, with_state, batch, steps):
    dtype = model.head.weight.dtype
    states = states_of(model.rnn, batch, dtype) if with_state else ()
    flags = (torch.randint(2, (batch, steps)).to(dtype) for _ in model.flags)
    return torch.randn(batch, steps, FEATURES, dtype=dtype), *flags, *states


def assert_runs_alike(path, model, given, names=None):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    kept = [i.name for i in session.get_inputs()]
    fed = dict(zip(names or kept, given, strict=True))
    found = session.run(None, {name: fed[name].numpy() for name in kept})  # a state that nothing reads is no input
    with torch.no_grad():
        expected = deepcopy(model).double()(*(x.double() for x in given))
    for i, (got, right) in enumerate(zip(found, expected, strict=True)):
        assert_equal_within(torch.tensor(got), right, given[0].dtype, f"output {i}")
    graph = onnx.load(path)
    assert {entry.domain for entry in graph.opset_import} <= {"", "ai.onnx", "pkg.torch.__subgraph__"}
    return {node.op_type for node in graph.graph.node}


def quietly(export):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return export()


def check_unrolled(name, path, with_state, **options):
    """The older exporter: any batch, the example's length."""
    model = model_of(name, torch.float32 if name in (*TORCH, *SOFTPLUS) else torch.float64, **options)
    example = inputs(model, with_state, BATCH, STEPS)
    free = {"x": {0: "batch"}} | {flag: {0: "batch"} for flag in model.flags}
    free |= {f"hx{i}": {1: "batch"} for i in range(len(example) - len(free))}
    asked = {"input_names": list(free), "dynamic_axes": free}
    quietly(lambda: torch.onnx.export(model, example, path, dynamo=False, **asked))
    return assert_runs_alike(path, model, inputs(model, with_state, BATCH + 1, STEPS), list(free))


def check_any_length(name, path, with_state, **options):
    """The newer exporter: any length, and after that any batch too, of an example of one step in one sequence."""
    model = model_of(name, torch.float32 if name in SOFTPLUS else torch.float64, **options)
    for batch, rows, sizes in ((None, BATCH, (BATCH, STEPS)), (Dim("batch"), BATCH + 1, (1, 1))):
        example = inputs(model, with_state, *sizes)
        flags, states = len(model.flags), len(example) - 1 - len(model.flags)
        rest = [{0: batch, 1: Dim("time")}] * flags + [{1: batch}] * states
        free = ({0: batch, 1: Dim("time")}, *([tuple(rest)] if rest else []))
        quietly(lambda: torch.onnx.export(model, example, dynamo=True, dynamic_shapes=free, verbose=False).save(path))  # noqa: B023
        operators = assert_runs_alike(path, model, inputs(model, with_state, rows, 2 * STEPS))
    return operators


@pytest.fixture(scope="module")
def exporter(tmp_path_factory):
    """Load what the first export of a process needs."""
    path = tmp_path_factory.mktemp("onnx") / "linear.onnx"
    quietly(lambda: torch.onnx.export(nn.Linear(2, 2), (torch.ones(1, 2),), path, dynamo=False))


@pytest.mark.usefixtures("exporter")
@pytest.mark.parametrize("name", ["lstm", "gru", "mgu", "mingru", WINDOW])
def test_the_older_exporter_takes_torchs_operators_or_unrolls(name, tmp_path):
    operators = check_unrolled(name, tmp_path / "model.onnx", with_state=True)
    assert operators & {"LSTM", "GRU"} == {name.upper()} & {"LSTM", "GRU"}
    check_unrolled(name, tmp_path / "flags.onnx", with_state=False, flags=FLAGS["both"])


@pytest.mark.usefixtures("exporter")
def test_the_older_exporter_names_the_operator_that_it_lacks_and_a_kernel_asked_for_by_name_is_refused(tmp_path):
    """The drive of rg-lru needs expm1."""
    refused(UnsupportedOperatorError, "expm1", check_unrolled, "rg-lru", tmp_path / "model.onnx", with_state=False)
    for name in ("mgu", "mingru", "block-orthogonal"):
        model = model_of(name, torch.float32)
        model.rnn.backend = "native"
        given = model, inputs(model, False, BATCH, STEPS), tmp_path / "no.onnx"
        refused(BackendUnavailable, "use 'auto'", torch.onnx.export, *given, dynamo=False)


@pytest.mark.slow
@over(name=[name for name in (*CELLS, WINDOW) if name != "rg-lru"], options=SHAPES, with_state=WITH_STATE, flags=FLAGS)
def test_every_cell_through_the_older_exporter(name, options, with_state, flags, tmp_path):
    check_unrolled(name, tmp_path / "model.onnx", with_state, flags=flags, **options)


IN_TURN = list(zip((*CELLS, WINDOW), cycle(product(SHAPES, WITH_STATE)), cycle(reversed(FLAGS))))
"""A combination for each cell: what a stack, a projection or a state adds to a graph is the same in all of them."""


@pytest.mark.slow
@pytest.mark.parametrize("name, chosen, flags", IN_TURN, ids=lambda x: x if isinstance(x, str) else "-".join(x))
def test_every_cell_through_the_newer_exporter_at_any_length(name, chosen, flags, tmp_path):
    shape, state = chosen
    path, with_state = tmp_path / "model.onnx", WITH_STATE[state]
    operators = check_any_length(name, path, with_state, flags=FLAGS[flags], **SHAPES[shape])
    assert "Scan" in operators or name in TORCH
