"""Nothing wrong goes through the gate, and it says what was wrong."""

import dataclasses

import pytest
import torch
from covering import Axis, over
from layer_laws import CELL
from small_bench import SHAPE, double
from tolerances import assert_equal_within

from gatedrnn.bench.contenders import Setting
from gatedrnn.bench.layers import (
    VARIANTS,
    PlainScan,
    by_loop,
    looped,
    our_layer,
    ours,
    products_alone,
    python_loop_lstm,
    run_equations,
)
from gatedrnn.bench.layers import torch_layer as torchs_layer
from gatedrnn.bench.measure import disagreement
from gatedrnn.bench.peers import peer_layers
from gatedrnn.registry import CELLS
from gatedrnn.verify.definition import Sequences, initial_states, run_by_definition
from gatedrnn.verify.tolerances import ROUNDED, Tolerance

EVERY = [*CELLS, *VARIANTS]
NAME = Axis(fast=[name for name in EVERY if name in CELL.fast or name in VARIANTS], every=EVERY)


def test_what_is_right_passes_and_what_is_wrong_is_named():
    assert disagreement(double()) is None
    for wrong, what in (
        (double(factor=2.001), "output 0"),
        (double(slope=2.001), "gradient of x"),
        (double(factor=float("nan")), "output 0"),
        (double(run=lambda: torch.zeros(3)), "raised RuntimeError"),
        (double(run=lambda: 1 // 0), "raised ZeroDivisionError: integer division or modulo by zero"),
    ):
        assert disagreement(wrong).what.startswith(what)
    # Another shape is wrong even if its numbers would fit.
    x = torch.randn(*SHAPE, requires_grad=True)
    found = disagreement(double(run=lambda: (2 * x).flatten()), backward=False)
    assert found.what == "output 0 has shape (48,), expected (2, 6, 4)" and found.error is None


def test_the_way_without_a_graph_is_looked_at_too():
    right = double()
    off = dataclasses.replace(right, run=lambda: right.run() + 0.01 * torch.is_inference_mode_enabled())
    assert disagreement(off, forward=False) is None
    assert disagreement(off).what == "output 0"


def test_an_error_is_judged_by_the_table_or_by_the_slack_of_its_own():
    off = double(factor=2 + 1e-5)
    assert disagreement(off).error > disagreement(off).allowed
    assert disagreement(dataclasses.replace(off, precision=ROUNDED)) is None
    assert disagreement(dataclasses.replace(off, slack=Tolerance(1e-4, 0.0))) is None
    assert disagreement(dataclasses.replace(off, slack=Tolerance(0.0, 1e-4))) is not None


def test_slack_hides_nothing_that_float64_shows():
    loose = double(slack=Tolerance(1.0, 1.0))
    wrong = dataclasses.replace(loose, in_float64=double(slope=2.001))
    assert disagreement(loose) is None
    assert disagreement(wrong).what == "in float64, gradient of x"


def test_a_plain_loop_has_the_gradients_of_its_slopes():
    inputs = [torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    h0 = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(PlainScan.apply, (*inputs, h0))


@over(name=NAME)
def test_every_layer_passes_and_so_does_its_loop_and_the_definition_is_that_of_verify(name):
    own = ours(name, Setting(SHAPE))
    assert disagreement(own.contender) is None
    assert disagreement(looped(own)) is None and looped(own).name == by_loop(name)
    layer, x = our_layer(name, 4, "cpu").double(), torch.randn(*SHAPE, dtype=torch.float64)
    flags = torch.zeros(2, 6, dtype=torch.bool)
    output, *states = run_equations(layer, dict(layer.named_parameters()), x)
    wanted, lasts = run_by_definition(layer, Sequences(x, initial_states(layer, 2), ~flags, flags))
    assert_equal_within(output, wanted, torch.float64, f"{name}, output")
    for state, last in zip(states, lasts, strict=True):
        assert_equal_within(state, last[0], torch.float64, f"{name}, state")


@pytest.mark.parametrize("autocast", [False, True])
def test_products_alone_pass_under_autocast_too(autocast):
    for cell in ("minlstm", "gru-input-gated"):
        own = ours(cell, Setting((4, 16, 8)), autocast)
        assert disagreement(own.contender) is None and disagreement(products_alone(own)) is None


def test_torchs_layers_and_the_python_loop_pass():
    for shape in (SHAPE, (1, 520, 4)):
        lstm, gru = (ours(cell, Setting(shape)) for cell in ("lstm", "gru"))
        loop = python_loop_lstm(lstm)
        for contender in (torchs_layer(lstm), torchs_layer(gru), loop):
            assert disagreement(contender) is None
        assert loop.times == max(1.0, shape[1] / 512) and loop.run().shape[1] == min(shape[1], 512)


def test_peers_pass_where_they_are_installed_and_a_changed_weight_does_not():
    pytest.importorskip("minGRU_pytorch")
    for cell in ("mingru", "minlstm"):
        for peer in peer_layers(ours(cell, Setting((2, 40, 8)))):
            assert disagreement(peer) is None, peer.name
            weight = next(leaf for name, leaf in peer.leaves.items() if name != "input")
            with torch.no_grad():
                weight[0, 0] += 0.5
            assert disagreement(peer).what.startswith(("output", "gradient"))
