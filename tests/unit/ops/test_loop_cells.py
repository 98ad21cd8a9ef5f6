"""All steps of a loop cell, dense or elementwise, in one kernel: what the step loop gives, by registered ops."""

import layer_laws as laws
import pytest
import torch
from covering import Axis, over
from kernel_cells import FLAGS, LOOP_KERNEL, LOOP_KERNELS, flags_of, forget, results
from paths import axis
from tolerances import assert_equal_within
from torch.nn.functional import softplus

from gatedrnn import RecurrentLayer, register
from gatedrnn.cells.mgu import MGUEquations
from gatedrnn.cells.mingru import MinGRUEquations
from gatedrnn.equations import Diagonal, ElementwiseLoopEquations
from gatedrnn.kinds import kernel_of, programs
from gatedrnn.kinds.loop.op import loop_cell
from gatedrnn.kinds.scan import step
from gatedrnn.kinds.scan.op import scan, scan_gradient
from gatedrnn.registry import CELLS

NAMES = (*laws.KERNEL_LOOP_CELLS, *laws.DIAGONAL_CELLS)
SEPARATE = next(name for name in laws.KERNEL_LOOP_CELLS if kernel_of(laws.EQUATIONS[name]).program.separate)
"""Whose recurrent products have gradients of their own, which no layer asks."""
CELL = Axis(fast=(*axis(laws.EQUATIONS, NAMES).fast, SEPARATE), every=NAMES)


def arguments_of(kernel, names, batch=2, steps=5, size=3):
    """The arguments of the op: all that the cell has, h projected where that belongs to it."""
    cell = LOOP_KERNELS[kernel]
    size = size if size % cell.block_size == 0 else 2 * size
    carried = len(kernel_of(cell).program.carried)
    gates, width = len(cell.projections), 2 if cell.projects_state else size
    new = lambda *shape: torch.randn(*shape, dtype=torch.float64, requires_grad=True)  # noqa: E731
    flags = flags_of(names, batch, steps)
    return (
        new(batch, steps, gates * size), new(batch, width),
        new(batch, carried * size) if carried else None, flags.get("mask"), flags.get("resets"),
        new(gates * size, width), new(gates * size) if cell.recurrent_bias else None,
        new(len(cell.diagonals) * size) if cell.diagonals else None,
        new(width, size) if cell.projects_state else None, None, kernel, "resets" in names,
    )  # fmt: skip


@pytest.mark.usefixtures("torchs_compiler")
@over(kernel=LOOP_KERNEL)
def test_the_op_is_registered_as_torch_wants_it_and_series_lie_in_memory_as_the_projections_do(kernel):
    """Step after step where the caller's input does: then nothing is copied."""
    projected, *others = arguments_of(kernel, ("mask", "resets"))
    weights = [v for v in others if isinstance(v, torch.Tensor) and v.requires_grad]
    turned = projected.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
    torch.library.opcheck(loop_cell, (turned, *others))
    torch.library.opcheck(loop_cell, (projected, *others), test_utils="test_faketensor")
    found = []
    for given in (projected, turned):
        h, last_h, *_ = loop_cell(given, *others)
        assert (h.transpose(0, 1) if given is turned else h).is_contiguous()
        grads = torch.autograd.grad((h**2).sum() + last_h.sum(), [given, *weights], materialize_grads=True)
        found.append([h, last_h, *grads])
    for got, want in zip(*found, strict=True):
        assert_equal_within(got, want, torch.float64, kernel, gradient=True)
    for names in FLAGS[:-1] if kernel == "gru" else ():
        torch.library.opcheck(loop_cell, arguments_of(kernel, names), test_utils=("test_schema", "test_faketensor"))


SIZES = {"1x1": (1, 1, True), "3x5": (3, 5, False), "19x37": (19, 37, True), "70x33": (70, 33, False)}
"""Sequences, channels, and whether time is first: odd ones that fill no tile, and sequences for several work items."""


@over(name=CELL, names=FLAGS, size=SIZES)
def test_the_kernel_gives_the_numbers_and_gradients_of_the_step_loop(name, names, size):
    batch, hidden, time_first = size
    flags = {key: v.T if time_first else v for key, v in flags_of(names, batch, 6).items()}
    layer = laws.layer_of(name, 3, hidden, bidirectional=True, batch_first=not time_first)
    with torch.no_grad():
        for weight in layer.parameters():
            weight /= hidden**0.5
    x, states = laws.series(batch, 6, 3), laws.states_of(layer, batch)
    x = x.transpose(0, 1).contiguous() if time_first else x
    grads = laws.series(*x.shape[:2], 2 * hidden), tuple(torch.randn_like(s) for s in states)
    found = []
    for backend in ("reference", "native"):
        layer.backend = backend
        found.append(laws.run(layer, x, states, grads, **flags))
    laws.assert_same(*found[::-1])
    assert not time_first or layer(x, **flags)[0].is_contiguous()


def test_a_state_that_no_equation_reads_has_a_gradient_of_zero_in_the_kernel():
    layer, (h, c) = laws.layer_of("sru"), (s.requires_grad_() for s in laws.states_of(laws.layer_of("sru")))
    output, _ = layer(laws.series(), (h, c))
    of_h, of_c = torch.autograd.grad(output.square().sum(), (h, c), create_graph=True)
    assert layer.runs_on().name.startswith("one kernel") and not of_h.any() and of_c.all()
    assert not torch.autograd.grad(of_c.square().sum(), h, materialize_grads=True)[0].any()


@over(name=CELL)
def test_a_gradient_that_is_not_asked_for_may_be_missing(name):
    """Gradients of the last states, of the input, of a frozen weight."""
    layer, x = laws.layer_of(name), laws.series()
    frozen = next(k for k, _ in layer.named_parameters() if not k.startswith(("weight_ih", "bias")))
    layer.get_parameter(frozen).requires_grad_(False)
    learned, found = {f"gradient of {k}": p for k, p in layer.named_parameters() if p.requires_grad}, []
    for backend in ("native", "reference"):
        layer.backend = backend
        gradients = torch.autograd.grad(layer(x)[0].sum(), learned.values())
        found.append(dict(zip(learned, gradients, strict=True)))
    laws.assert_same(*found)


def test_narrow_weights_and_zoneout_take_the_kernel_away_and_runs_on_says_so():
    layer = laws.layer_of("mgu", dtype=torch.bfloat16)
    assert layer.backends == ("reference",) and "narrow" in layer.runs_on().reason
    assert layer.float().backends == ("reference", "native")
    assert "zoneout" in laws.layer_of("mgu", zoneout=0.1).runs_on().reason


class ThreeStatesEquations(ElementwiseLoopEquations):
    name, projections = "three-states", ("forget", "value", "show")
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
    name, projections, diagonals = "mixing", ("value",), {"h": None}

    def step(self, projected, state, recurrent):
        return (torch.tanh(projected[0] + recurrent.diagonal("h") * state[0].roll(1, -1)),)


@pytest.fixture(autouse=True, scope="module")
def registered():
    for equations in (ThreeStatesEquations, MixingEquations):
        register(type(equations.__name__, (RecurrentLayer,), {"cell_class": equations}))
    yield
    forget("three-states", "mixing")


DTYPES = (torch.float64, torch.float32)


@over(dtype=DTYPES, bias=(True, False), flags=FLAGS, bidirectional=(False, True))
def test_three_states_with_an_output_of_their_own(dtype, bias, flags, bidirectional):
    kind = CELLS["three-states"].layer
    layer = kind(3, 37, batch_first=True, bias=bias, bidirectional=bidirectional, dtype=dtype)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.7)
    assert layer.runs_on().name.startswith("one kernel for all steps")
    x = torch.randn(3, 11, 3, dtype=dtype)
    hx = tuple(torch.randn(1 + bidirectional, 3, 37, dtype=dtype) for _ in range(3))
    given, twice = flags_of(flags, 3, 11), dtype == torch.float64
    both = (results(layer, backend, x, hx, given, twice) for backend in ("native", "reference"))
    for place, (found, right) in enumerate(zip(*both, strict=True)):
        assert_equal_within(found, right, dtype, f"value {place}", gradient=place > 3)


@pytest.mark.usefixtures("torchs_compiler")
@pytest.mark.parametrize("cell, names", [("three-states", ()), ("para-gru", FLAGS[-1])])
def test_the_op_is_registered_as_torch_wants_it(cell, names):
    equations, flags = CELLS[cell].equations(), flags_of(names, 2, 4)
    programs.register(equations)
    joined = torch.randn((len(equations.diagonals) + 3 * bool(names)) * 5)
    x, by_channel, starts = (
        t.requires_grad_() for t in (torch.randn(2, 4, 15), joined, torch.randn(2, 5 * len(equations.states)))
    )
    given = x, None, None, by_channel, starts, flags.get("mask"), flags.get("resets"), None
    torch.library.opcheck(scan, (*given, cell, bool(names), True))
    upstream = torch.randn(2, 4, 5), torch.randn_like(starts), torch.empty(0), None, True
    detached = [t.detach() if isinstance(t, torch.Tensor) else t for t in given]
    torch.library.opcheck(scan_gradient, (*upstream, *detached, cell, bool(names), True))


@over(cell=("three-states", "para-gru"), bias=(True, False), dtype=DTYPES)
def test_a_stream_is_one_call_a_step_and_gives_the_numbers_of_the_whole_sequence(cell, bias, dtype, monkeypatch):
    layer = CELLS[cell].layer(3, 37, num_layers=2, batch_first=True, bias=bias, dtype=dtype).eval()
    x, calls, stack_step = torch.randn(2, 9, 3, dtype=dtype), [], step.stack_step
    monkeypatch.setattr(step, "stack_step", lambda *given: (calls.append(1), stack_step(*given))[1])
    with torch.no_grad():
        laws.assert_same_run(laws.iterated(layer, x, None), layer(x), dtype)
    assert len(calls) == 9


@pytest.mark.parametrize("cell", ["three-states", "para-gru", "sru", "indrnn"])
def test_a_long_sequence_runs_on_many_threads_as_on_one(cell, set_threads):
    """Its time cannot be divided among them."""
    layer, x = CELLS[cell].layer(3, 20, batch_first=True, dtype=torch.float64), laws.series(1, 1700, 3)
    hx, found = tuple(laws.series(1, 1, 20) for _ in layer.cell.states), []
    for threads in (1, 8):
        set_threads(threads)
        found.append(results(layer, "native", x, hx, {}, twice=False))
    for place, (got, want) in enumerate(zip(*found, strict=True)):
        assert_equal_within(got, want, torch.float64, f"value {place}", gradient=place > len(hx))


def test_a_step_that_mixes_channels_iterates_in_torch_and_says_so_and_an_empty_batch_is_no_error():
    layer = CELLS["mixing"].layer(3, 5, batch_first=True)
    path = layer.runs_on()
    assert path.name == "the step loop in torch" and "mixes or picks channels (roll)" in path.reason
    assert layer(torch.randn(2, 4, 3))[0].shape == (2, 4, 5)
    layer = CELLS["three-states"].layer(3, 5, batch_first=True)
    output, last = layer(torch.randn(0, 4, 3), tuple(torch.randn(1, 0, 5) for _ in range(3)))
    assert output.shape == (0, 4, 5) and all(s.shape == (1, 0, 5) for s in last)


class Inverted(MinGRUEquations):
    name = "inverted"

    def coefficients(self, *projected):
        decay, drive = super().coefficients(*projected)
        return 1 - decay, drive


class Doubled(MGUEquations):
    name = "doubled"

    def output(self, state, projected):
        return 2 * state[0]


@pytest.mark.parametrize("equations", [Inverted, Doubled])
def test_a_derived_cell_does_not_run_on_the_kernel_of_the_cell_it_derives_from(equations):
    """Other coefficients of a scan, another output of a loop."""
    layer = type("Derived", (RecurrentLayer,), {"cell_class": equations})(3, 4, batch_first=True, dtype=torch.float64)
    assert "no kernel" in layer.runs_on().reason
    x = laws.series()
    whole, last = layer(x)
    assert_equal_within(laws.iterated(layer, x, None)[0], whole, torch.float64, "output")
    assert_equal_within(whole[:, -1], (1 + (equations is Doubled)) * last[0], torch.float64, "last output")
