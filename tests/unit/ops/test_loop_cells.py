"""All steps of a loop cell in one kernel: a registered op with the gradients of the step loop in torch."""

import pytest
import torch
from kernel_cells import LOOP_KERNELS as CELLS
from layer_laws import (
    DIAGONAL_CELLS,
    KERNEL_LOOP_CELLS,
    as_tuple,
    assert_same,
    layer_of,
    packed_up,
    run,
    series,
    states_of,
)
from tolerances import assert_equal_within
from torch import nn

from gatedrnn import RecurrentLayer
from gatedrnn.cells.mgu import MGUEquations
from gatedrnn.ops.cells import known, loop_program
from gatedrnn.ops.loop import loop_cell

FLAGS = [(), ("mask",), ("resets",), ("mask", "resets")]
every_loop_cell = pytest.mark.parametrize("name", (*KERNEL_LOOP_CELLS, *DIAGONAL_CELLS))


def flags_of(names, batch=3, steps=7):
    given = {"mask": torch.rand(batch, steps) < 0.7, "resets": torch.rand(batch, steps) < 0.3}
    return {name: given[name] for name in names}


def arguments_of(kernel, names, batch=2, steps=5, size=3):
    """What the op takes, all that the cell has, h projected where that belongs to it."""
    cell = CELLS[kernel]
    size = size if size % cell.block_size == 0 else 2 * size
    carried = len(loop_program(known(cell)).carried)
    gates, width = len(cell.projections), 2 if cell.projects_state else size
    new = lambda *shape: torch.randn(*shape, dtype=torch.float64, requires_grad=True)  # noqa: E731
    flags = flags_of(names, batch, steps)
    return (
        new(batch, steps, gates * size), new(batch, width),
        new(batch, carried * size) if carried else None, flags.get("mask"), flags.get("resets"),
        new(gates * size, width // cell.heads), new(gates * size) if cell.recurrent_bias else None,
        new(len(cell.diagonals) * size) if cell.diagonals else None,
        new(width, size) if cell.projects_state else None, None, kernel, "resets" in names,
    )  # fmt: skip


@pytest.mark.parametrize(
    "kernel, names", [(kernel, FLAGS[-1]) for kernel in CELLS] + [(next(iter(CELLS)), names) for names in FLAGS[:-1]]
)
def test_the_op_is_registered_as_torch_wants_it(kernel, names):
    torch.library.opcheck(loop_cell, arguments_of(kernel, names))


@pytest.mark.parametrize("kernel", CELLS)
def test_series_lie_in_memory_as_the_projections_do(kernel):
    """Step after step where the caller's input does: then nothing is copied."""
    projected, *others = arguments_of(kernel, ("mask",))
    turned = projected.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
    torch.library.opcheck(loop_cell, (turned, *others))
    found = {}
    for order, given in (("sequences first", projected), ("steps first", turned)):
        h, last_h, *_ = loop_cell(given, *others)
        assert (h if order == "sequences first" else h.transpose(0, 1)).is_contiguous()
        weights = [v for v in others if isinstance(v, torch.Tensor) and v.requires_grad]
        grads = torch.autograd.grad((h**2).sum() + last_h.sum(), [given, *weights], materialize_grads=True)
        found[order] = [h, last_h, *grads]
    for got, want in zip(*found.values(), strict=True):
        assert_equal_within(got, want, torch.float64, kernel, gradient=True)


@pytest.mark.parametrize("directions", [1, 2])
@every_loop_cell
def test_the_output_is_contiguous_with_time_first(name, directions):
    layer = layer_of(name, bidirectional=directions == 2, num_layers=2, batch_first=False)
    layer.backend = "native"
    output, _ = layer(series().transpose(0, 1).contiguous())
    assert output.is_contiguous()


@every_loop_cell
@pytest.mark.parametrize("names", FLAGS, ids=str)
@pytest.mark.parametrize("batch, hidden, time_first", [(1, 1, True), (3, 5, False), (19, 37, True), (70, 33, False)])
def test_the_kernel_gives_the_numbers_and_gradients_of_the_step_loop(name, names, batch, hidden, time_first):
    """Odd sizes: rows and columns that fill no tile, sequences for more than one work item."""
    flags = {key: v.T if time_first else v for key, v in flags_of(names, batch, 6).items()}
    layer = layer_of(name, 3, hidden, bidirectional=True, batch_first=not time_first)
    with torch.no_grad():
        for weight in layer.parameters():
            weight /= hidden**0.5
    x, states = series(batch, 6, 3), states_of(layer, batch)
    x = x.transpose(0, 1).contiguous() if time_first else x
    grads = series(*x.shape[:2], 2 * hidden), tuple(torch.randn_like(s) for s in states)
    found = {}
    for backend in ("reference", "native"):
        layer.backend = backend
        found[backend] = run(layer, x, states, grads, **flags)
    assert_same(found["native"], found["reference"], torch.float64)


@every_loop_cell
@pytest.mark.parametrize("names", FLAGS, ids=str)
def test_the_second_derivative_is_that_of_the_step_loop(name, names):
    layer, x, flags = layer_of(name), series().requires_grad_(), flags_of(names)
    hx = tuple(s.requires_grad_() for s in states_of(layer))
    found = {}
    for backend in ("native", "reference"):
        layer.backend = backend
        output, last = layer(x, packed_up(hx), **flags)
        loss = (output**2).sum() + sum((s**3).sum() for s in as_tuple(last))
        inputs = [x, *hx, *layer.parameters()]
        slopes = torch.autograd.grad(loss, inputs, create_graph=True)
        found[backend] = torch.autograd.grad(sum((s**2).sum() for s in slopes), inputs)
    for got, want in zip(*found.values(), strict=True):
        assert_equal_within(got, want, torch.float64, "second derivative", gradient=True)


@every_loop_cell
def test_a_gradient_that_is_not_asked_for_may_be_missing(name):
    """Of the last states, of the input, of a frozen weight."""
    layer, x = layer_of(name), series()
    frozen = next(k for k, _ in layer.named_parameters() if not k.startswith(("weight_ih", "bias")))
    layer.get_parameter(frozen).requires_grad_(False)
    found = {}
    for backend in ("native", "reference"):
        layer.backend = backend
        layer.zero_grad()
        layer(x)[0].sum().backward()
        found[backend] = {k: p.grad.clone() for k, p in layer.named_parameters() if p.grad is not None}
    assert frozen not in found["native"]
    assert_same(found["native"], found["reference"], torch.float64)


class Renamed(MGUEquations):
    """Equations derived from a cell that has a kernel, which is not theirs."""

    name = "renamed"

    def output(self, state, projected):
        return 2 * state[0]


class RenamedLayer(RecurrentLayer):
    """Its layer."""

    cell_class = Renamed


def test_a_derived_cell_does_not_run_on_the_kernel_of_the_cell_it_derives_from():
    layer = RenamedLayer(3, 4, batch_first=True, dtype=torch.float64)
    assert layer.backends == ("reference",) and "no kernel" in layer.runs_on().reason
    output, state = layer(series())
    assert_equal_within(output[:, -1], 2 * state[0], torch.float64, "output")


def test_narrow_weights_and_zoneout_take_the_kernel_away_and_runs_on_says_so():
    layer = layer_of("mgu", dtype=torch.bfloat16)
    assert layer.backends == ("reference",) and "narrow" in layer.runs_on().reason
    assert layer.float().backends == ("reference", "native")
    assert "zoneout" in layer_of("mgu", zoneout=0.1).runs_on().reason


def test_our_gru_is_torchs_gru_in_training_with_dropout_between_layers():
    chosen = {"num_layers": 2, "dropout": 0.3, "batch_first": True}
    ours, theirs = layer_of("gru", **chosen), nn.GRU(3, 4, dtype=torch.float64, **chosen)
    theirs.load_state_dict(ours.state_dict())
    x, found = series(), []
    for layer in (ours, theirs):
        torch.manual_seed(3)
        layer.zero_grad()
        layer(x)[0].square().sum().backward()
        found.append({k: p.grad for k, p in layer.named_parameters()})
    assert_same(*found, torch.float64)
