"""Wrong contenders get no time and no ratio; the others get both."""

import pytest
from small_bench import SHAPE, double

from gatedrnn.bench import measure
from gatedrnn.bench.measure import BOTH, FORWARD, Bench
from gatedrnn.timing import Samples


@pytest.fixture
def known_times(monkeypatch):
    """Every contender takes as many seconds as its name says, and half of that in the second of two rounds."""
    asked = []

    def interleave(actions, seconds, synchronize):
        asked.append((list(actions), seconds))
        return {key: Samples({0: float(key[0]), 1: float(key[0]) / 2}, 1) for key in actions}

    monkeypatch.setattr(measure, "interleave", interleave)
    return asked


def test_a_wrong_contender_gets_no_time_and_no_ratio(known_times):
    bench = Bench()
    contenders = [double("4"), double("2"), double("3", factor=2.1), double("5", slope=2.1)]
    bench.compare("section", contenders, [("4", "2"), ("4", "3"), ("5", "2")], [BOTH], 1.0)
    found = bench.findings
    assert [row.contender for row in found.timings] == ["4", "2"]
    assert [(row.numerator, row.denominator) for row in found.ratios] == [("4", "2")]
    assert [(row.contender, row.what) for row in found.wrong] == [("3", "output 0"), ("5", "gradient of x")]
    assert found.wrong[0].error > found.wrong[0].allowed
    assert known_times == [([("4", SHAPE), ("2", SHAPE)], 1.0)]


def test_rows_hold_medians_and_quartiles_in_milliseconds(known_times):
    bench = Bench()
    bench.compare("section", [double("4", work=(6.0, "tokens/s")), double("2", times=8.0)], [("4", "2")], [BOTH], 1.0)
    four, two = bench.findings.timings
    assert (four.low_ms, four.median_ms, four.high_ms) == (2500.0, 3000.0, 3500.0)
    assert (four.runs, four.calls, four.times, four.rate, four.unit) == (2, 1, 1.0, 2.0, "tokens/s")
    assert (two.median_ms, two.times, two.rate) == (8 * 1500.0, 8.0, None)
    (ratio,) = bench.findings.ratios
    assert (ratio.ratio, ratio.low, ratio.high, ratio.rounds) == (0.25, 0.25, 0.25, 2)


def test_sections_share_the_time_and_ratios_may_cross_shapes(known_times):
    bench = Bench()
    across = [(("4", SHAPE), ("2", SHAPE))]
    bench.compare("section", [double("4"), double("2")], (), [FORWARD, BOTH], 6.0, across=across)
    assert [seconds for _, seconds in known_times] == [1.0, 5.0]
    assert [row.mode for row in bench.findings.ratios] == [FORWARD.name, BOTH.name]
    assert bench.findings.ratio("section", BOTH.name, "4", "2", SHAPE) == 2.0
    assert bench.findings.ratio("section", BOTH.name, "2", "4", SHAPE) is None


def test_a_way_that_is_only_forward_asks_for_no_gradient(known_times):
    bench = Bench()
    bench.compare("section", [double("4", slope=3.0)], (), [FORWARD], 1.0)
    assert not bench.findings.wrong and bench.findings.timings
