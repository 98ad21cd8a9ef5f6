"""Nothing wrong goes through the gate, which says what was wrong: no time and no ratio; the others get both."""

import dataclasses

import pytest
import torch
from covering import Axis, over
from layer_laws import CELL
from small_bench import SHAPE, double
from tolerances import assert_equal_within

from benchmarks import layers, measure
from benchmarks.contenders import Setting
from benchmarks.layers import looped, ours
from benchmarks.measure import BOTH, FORWARD, Bench, disagreement
from gatedrnn.registry import CELLS
from gatedrnn.timing import Samples
from gatedrnn.verify.definition import Sequences, initial_states, run_by_definition
from gatedrnn.verify.tolerances import ROUNDED, Tolerance

EVERY = [*CELLS, *layers.VARIANTS]
NAME = Axis(fast=[name for name in EVERY if name in CELL.fast or name in layers.VARIANTS], every=EVERY)


def test_what_is_right_passes_and_what_is_wrong_with_or_without_a_graph_is_named():
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
    right = double()
    off = dataclasses.replace(right, run=lambda: right.run() + 0.01 * torch.is_inference_mode_enabled())
    assert disagreement(off, forward=False) is None
    assert disagreement(off).what == "output 0"


def test_an_error_is_judged_by_the_table_or_by_the_slack_of_its_own_which_hides_nothing_that_float64_shows():
    off = double(factor=2 + 1e-5)
    assert disagreement(off).error > disagreement(off).allowed
    assert disagreement(dataclasses.replace(off, precision=ROUNDED)) is None
    assert disagreement(dataclasses.replace(off, slack=Tolerance(1e-4, 0.0))) is None
    assert disagreement(dataclasses.replace(off, slack=Tolerance(0.0, 1e-4))) is not None
    loose = double(slack=Tolerance(1.0, 1.0))
    wrong = dataclasses.replace(loose, in_float64=double(slope=2.001))
    assert disagreement(loose) is None
    assert disagreement(wrong).what == "in float64, gradient of x"


def test_a_plain_loop_has_the_gradients_of_its_slopes():
    inputs = [torch.randn(*size).double().requires_grad_() for size in ((2, 5, 3), (2, 5, 3), (2, 3))]
    assert torch.autograd.gradcheck(layers.PlainScan.apply, inputs)


@over(name=NAME)
def test_every_layer_passes_and_so_does_its_loop_and_the_definition_is_that_of_verify(name):
    own = ours(name, Setting(SHAPE))
    assert disagreement(own.contender) is None
    assert disagreement(looped(own)) is None and looped(own).name == layers.by_loop(name)
    layer, x = layers.our_layer(name, 4, "cpu").double(), torch.randn(*SHAPE, dtype=torch.float64)
    flags = torch.zeros(2, 6, dtype=torch.bool)
    found = layers.run_equations(layer, dict(layer.named_parameters()), x)
    wanted, lasts = run_by_definition(layer, Sequences(x, initial_states(layer, 2), ~flags, flags))
    for tensor, one in zip(found, (wanted, *lasts), strict=True):
        assert_equal_within(tensor, one, torch.float64, name)


@pytest.mark.parametrize("autocast", [False, True])
def test_products_alone_pass_under_autocast_too(autocast):
    for cell in ("minlstm", "gru-input-gated"):
        own = ours(cell, Setting((4, 16, 8)), autocast)
        assert disagreement(own.contender) is None and disagreement(layers.products_alone(own)) is None


def test_torchs_layers_and_the_python_loop_pass():
    for shape in (SHAPE, (1, 520, 4)):
        lstm, gru = (ours(cell, Setting(shape)) for cell in ("lstm", "gru"))
        loop = layers.python_loop_lstm(lstm)
        for contender in (layers.torch_layer(lstm), layers.torch_layer(gru), loop):
            assert disagreement(contender) is None
        assert loop.times == max(1.0, shape[1] / 512) and loop.run().shape[1] == min(shape[1], 512)


@pytest.fixture
def known_times(monkeypatch):
    """Every contender takes as many seconds as its name says, and half of that in the second of two rounds."""
    asked = []

    def interleave(actions, seconds, synchronize):
        asked.append((list(actions), seconds))
        return {key: Samples({0: float(key[0]), 1: float(key[0]) / 2}, 1) for key in actions}

    monkeypatch.setattr(measure, "interleave", interleave)
    return asked


def compared(contenders, pairs, modes, seconds, **across):
    bench = Bench()
    bench.compare("section", contenders, pairs, modes, seconds, **across)
    return bench.findings


def test_a_wrong_contender_gets_no_time_and_no_ratio_and_forward_alone_is_not_asked_for_gradients(known_times):
    contenders = [double("4"), double("2"), double("3", factor=2.1), double("5", slope=2.1)]
    found = compared(contenders, [("4", "2"), ("4", "3"), ("5", "2")], [BOTH], 1.0)
    assert [row.contender for row in found.timings] == ["4", "2"]
    assert [(row.numerator, row.denominator) for row in found.ratios] == [("4", "2")]
    assert [(row.contender, row.what) for row in found.wrong] == [("3", "output 0"), ("5", "gradient of x")]
    assert found.wrong[0].error > found.wrong[0].allowed
    assert known_times == [([("4", SHAPE), ("2", SHAPE)], 1.0)]
    forward = compared([double("4", slope=3.0)], (), [FORWARD], 1.0)
    assert not forward.wrong and forward.timings, "no gradient is asked for"


def test_rows_hold_medians_and_quartiles_in_milliseconds(known_times):
    found = compared([double("4", work=(6.0, "tokens/s")), double("2", times=8.0)], [("4", "2")], [BOTH], 1.0)
    four, two = found.timings
    assert (four.low_ms, four.median_ms, four.high_ms) == (2500.0, 3000.0, 3500.0)
    assert (four.runs, four.calls, four.times, four.rate, four.unit) == (2, 1, 1.0, 2.0, "tokens/s")
    assert (two.median_ms, two.times, two.rate) == (8 * 1500.0, 8.0, None)
    (ratio,) = found.ratios
    assert (ratio.ratio, ratio.low, ratio.high, ratio.rounds) == (0.25, 0.25, 0.25, 2)


def test_sections_share_the_time_and_ratios_may_cross_shapes(known_times):
    across = [(("4", SHAPE), ("2", SHAPE))]
    found = compared([double("4"), double("2")], (), [FORWARD, BOTH], 6.0, across=across)
    assert [seconds for _, seconds in known_times] == [1.0, 5.0]
    assert [row.mode for row in found.ratios] == [FORWARD.name, BOTH.name]
    assert found.ratio("section", BOTH.name, "4", "2", SHAPE) == 2.0
    assert found.ratio("section", BOTH.name, "2", "4", SHAPE) is None
