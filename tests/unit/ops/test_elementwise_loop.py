"""Cells that read their states through diagonal weights: the kernel of all steps gives what the step loop gives."""

import pytest
import torch
from covering import over
from kernel_cells import FLAGS, flags_of, forget, results
from tolerances import assert_equal_within
from torch.nn.functional import softplus

from gatedrnn import RecurrentLayer, register
from gatedrnn.equations import Diagonal, ElementwiseLoopEquations
from gatedrnn.kernels import cpu
from gatedrnn.ops import cells
from gatedrnn.ops.elementwise_loop import elementwise_loop
from gatedrnn.registry import CELLS


class ThreeStatesEquations(ElementwiseLoopEquations):
    """f = sigmoid(W_f x + w_f * c), c = f * c + (1 - f) * W_v x, m = (m + c) / 2, h = tanh(w_h * h + m).

    y = h * softplus(W_s x).
    """

    name = "three-states"
    projections = ("forget", "value", "show")
    decay_gates = {"forget": 1}
    diagonals = {"f": Diagonal("forget", 1), "h": None}
    states = ("h", "c", "m")

    def step(self, projected, state, recurrent):
        (forget, value, _), (h, c, m) = projected, state
        f = torch.sigmoid(forget + recurrent.diagonal("f") * c)
        c = f * c + (1 - f) * value
        m = (m + c) / 2
        return torch.tanh(recurrent.diagonal("h") * recurrent.drop(h) + m), c, m

    def output(self, state, projected):
        return state[0] * softplus(projected[2])


class MixingEquations(ElementwiseLoopEquations):
    """h = tanh(W x + w * shifted h), which is not elementwise."""

    name = "mixing"
    projections = ("value",)
    diagonals = {"h": None}

    def step(self, projected, state, recurrent):
        return (torch.tanh(projected[0] + recurrent.diagonal("h") * state[0].roll(1, -1)),)


@pytest.fixture(autouse=True)
def registered():
    for equations in (ThreeStatesEquations, MixingEquations):
        register(type(equations.__name__, (RecurrentLayer,), {"cell_class": equations}))
    yield
    forget("three-states", "mixing")


DTYPES = (torch.float64, torch.float32)


@over(dtype=DTYPES, bias=(True, False), flags=FLAGS, bidirectional=(False, True))
def test_three_states_with_an_output_of_their_own(dtype, bias, flags, bidirectional):
    torch.manual_seed(0)
    kind = CELLS["three-states"].layer
    layer = kind(3, 37, batch_first=True, bias=bias, bidirectional=bidirectional, dtype=dtype)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.7)
    assert layer.runs_on().name.startswith("one kernel for all steps")
    x = torch.randn(3, 11, 3, dtype=dtype)
    hx = tuple(torch.randn(1 + bidirectional, 3, 37, dtype=dtype) for _ in range(3))
    given = flags_of(flags, 3, 11)
    twice = dtype == torch.float64
    for place, (found, right) in enumerate(
        zip(*(results(layer, backend, x, hx, given, twice) for backend in ("native", "reference")), strict=True)
    ):
        assert_equal_within(found, right, dtype, f"value {place}", gradient=place > 3)


@pytest.mark.usefixtures("torchs_compiler")
@pytest.mark.parametrize("cell, names", [("three-states", ()), ("para-gru", FLAGS[-1])])
def test_the_op_is_registered_as_torch_wants_it(cell, names):
    torch.manual_seed(0)
    equations = CELLS[cell].equations()
    cells.known(equations)
    own = len(equations.diagonals)
    flags = flags_of(names, 2, 4)
    joined = torch.randn((own + 3 * bool(names)) * 5)
    others = len(equations.states) - 1
    c0 = torch.randn(2, 5 * others) if others else None
    tensors = [torch.randn(2, 4, 15), joined, torch.randn(2, 5), c0]
    tensors = [None if t is None else t.requires_grad_() for t in tensors]
    torch.library.opcheck(elementwise_loop, (*tensors, flags.get("mask"), flags.get("resets"), cell, bool(names)))


@over(cell=("three-states", "para-gru"), bias=(True, False), dtype=DTYPES)
def test_a_stream_is_one_call_a_step_and_gives_the_numbers_of_the_whole_sequence(cell, bias, dtype, monkeypatch):
    torch.manual_seed(0)
    layer = CELLS[cell].layer(3, 37, num_layers=2, batch_first=True, bias=bias, dtype=dtype).eval()
    x, calls, step = torch.randn(2, 9, 3, dtype=dtype), [], cpu.stack_step
    monkeypatch.setattr(cpu, "stack_step", lambda *given: (calls.append(1), step(*given))[1])
    with torch.no_grad():
        whole, last = layer(x)
        state, outputs = None, []
        for t in range(9):
            output, state = layer.step(x[:, t], state)
            outputs.append(output)
    assert len(calls) == 9
    assert_equal_within(torch.stack(outputs, 1), whole, dtype, "outputs")
    for found, right in zip(*(s if isinstance(s, tuple) else (s,) for s in (state, last)), strict=True):
        assert_equal_within(found, right, dtype, "last state")


@pytest.mark.parametrize("cell", ["three-states", "para-gru", "sru", "indrnn"])
def test_a_long_sequence_runs_on_many_threads_as_on_one(cell):
    """Its time cannot be divided among them."""
    layer, before = CELLS[cell].layer(3, 20, batch_first=True, dtype=torch.float64), torch.get_num_threads()
    x = torch.randn(1, 1700, 3, dtype=torch.float64)
    hx = tuple(torch.randn(1, 1, 20, dtype=torch.float64) for _ in layer.cell.states)
    try:
        found = []
        for threads in (1, 8):
            torch.set_num_threads(threads)
            found.append(results(layer, "native", x, hx, {}, twice=False))
    finally:
        torch.set_num_threads(before)
    for place, (got, want) in enumerate(zip(*found, strict=True)):
        assert_equal_within(got, want, torch.float64, f"value {place}", gradient=place > len(hx))


def test_a_step_that_mixes_channels_iterates_in_torch_and_says_so():
    layer = CELLS["mixing"].layer(3, 5, batch_first=True)
    path = layer.runs_on()
    assert path.name == "the step loop in torch" and "mixes or picks channels (roll)" in path.reason
    output, _ = layer(torch.randn(2, 4, 3))
    assert output.shape == (2, 4, 5)


def test_an_empty_batch_is_no_error():
    layer = CELLS["three-states"].layer(3, 5, batch_first=True)
    output, last = layer(torch.randn(0, 4, 3), tuple(torch.randn(1, 0, 5) for _ in range(3)))
    assert output.shape == (0, 4, 5) and all(s.shape == (1, 0, 5) for s in last)
