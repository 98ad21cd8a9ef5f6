"""All steps of a loop cell in one kernel: a registered op with the gradients of the step loop in torch."""

import pytest
import torch
from covering import Axis, over
from kernel_cells import FLAGS, LOOP_KERNEL, flags_of
from kernel_cells import LOOP_KERNELS as CELLS
from layer_laws import DIAGONAL_CELLS, EQUATIONS, KERNEL_LOOP_CELLS, assert_same, layer_of, run, series, states_of
from paths import axis
from tolerances import assert_equal_within

from gatedrnn.ops.cells import known, loop_program
from gatedrnn.ops.loop import loop_cell

NAMES = (*KERNEL_LOOP_CELLS, *DIAGONAL_CELLS)
SEPARATE = next(name for name in KERNEL_LOOP_CELLS if loop_program(known(EQUATIONS[name])).separate)
"""Whose recurrent products have gradients of their own, which no layer asks."""
CELL = Axis(fast=(*axis(EQUATIONS, NAMES).fast, SEPARATE), every=NAMES)


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


@pytest.mark.usefixtures("torchs_compiler")
@over(kernel=LOOP_KERNEL)
def test_the_op_is_registered_as_torch_wants_it_and_series_lie_in_memory_as_the_projections_do(kernel):
    """Step after step where the caller's input does: then nothing is copied."""
    projected, *others = arguments_of(kernel, ("mask", "resets"))
    turned = projected.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
    torch.library.opcheck(loop_cell, (turned, *others))
    torch.library.opcheck(loop_cell, (projected, *others), test_utils="test_faketensor")
    found = {}
    for order, given in (("sequences first", projected), ("steps first", turned)):
        h, last_h, *_ = loop_cell(given, *others)
        assert (h if order == "sequences first" else h.transpose(0, 1)).is_contiguous()
        weights = [v for v in others if isinstance(v, torch.Tensor) and v.requires_grad]
        grads = torch.autograd.grad((h**2).sum() + last_h.sum(), [given, *weights], materialize_grads=True)
        found[order] = [h, last_h, *grads]
    for got, want in zip(*found.values(), strict=True):
        assert_equal_within(got, want, torch.float64, kernel, gradient=True)


def test_the_op_takes_flags_or_none():
    for names in FLAGS[:-1]:
        torch.library.opcheck(loop_cell, arguments_of("gru", names), test_utils=("test_schema", "test_faketensor"))


@over(name=CELL)
def test_the_output_is_contiguous_with_time_first(name):
    for bidirectional in (False, True):
        layer = layer_of(name, bidirectional=bidirectional, num_layers=2, batch_first=False)
        layer.backend = "native"
        output, _ = layer(series().transpose(0, 1).contiguous())
        assert output.is_contiguous()


SIZES = {"1x1": (1, 1, True), "3x5": (3, 5, False), "19x37": (19, 37, True), "70x33": (70, 33, False)}
"""Sequences, channels, and whether time is first: odd ones that fill no tile, and sequences for several work items."""


@over(name=CELL, names=FLAGS, size=SIZES)
def test_the_kernel_gives_the_numbers_and_gradients_of_the_step_loop(name, names, size):
    batch, hidden, time_first = size
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


def test_a_state_that_no_equation_reads_has_a_gradient_of_zero_in_the_kernel():
    layer, (h, c) = layer_of("sru"), (s.requires_grad_() for s in states_of(layer_of("sru")))
    output, _ = layer(series(), (h, c))
    of_h, of_c = torch.autograd.grad(output.square().sum(), (h, c), create_graph=True)
    assert layer.runs_on().name.startswith("one kernel") and not of_h.any() and of_c.all()
    assert not torch.autograd.grad(of_c.square().sum(), h, materialize_grads=True)[0].any()


@over(name=CELL)
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


def test_narrow_weights_and_zoneout_take_the_kernel_away_and_runs_on_says_so():
    layer = layer_of("mgu", dtype=torch.bfloat16)
    assert layer.backends == ("reference",) and "narrow" in layer.runs_on().reason
    assert layer.float().backends == ("reference", "native")
    assert "zoneout" in layer_of("mgu", zoneout=0.1).runs_on().reason
