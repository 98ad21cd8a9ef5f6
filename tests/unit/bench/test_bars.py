"""Every bar stands for something that a run measures, and is judged by its bound."""

import pytest
from small_bench import SIZES

from gatedrnn.bench import memory
from gatedrnn.bench.bars import Bar, bars, judged
from gatedrnn.bench.record import Findings, Quotient
from gatedrnn.bench.run import Request, bench
from gatedrnn.bench.sizes import SIZES as DEFAULTS


class Asked(Findings):
    """Remembers what it is asked for, and has found nothing."""

    def ratio(self, *key):
        self.left_out.append(key)

    count = ratio

    def largest_ratio(self, section, mode, numerators, denominator):
        self.left_out += [(section, mode, numerator, denominator, None) for numerator in numerators]


def asked_by(bar):
    asked = Asked()
    assert bar.find(asked) is None
    return asked.left_out


def test_a_bar_holds_up_to_its_bound_and_is_judged_where_it_was_measured_by_the_largest_of_several_ratios():
    for bound, holds in {"at_most": [True, True, False], "at_least": [False, True, True]}.items():
        bar = Bar("cpu", "measure", None, lambda found: None, **{bound: 2.0})
        assert [bar.holds(value) for value in (1.99, 2.0, 2.01)] == holds
    row = Quotient("loops", "forward+backward", "nn.GRU", "gru", (8, 512, 256), None, 1.5, 1.4, 1.6, 4)
    found = judged(Findings(ratios=[row]))
    there = [(bar.measure, bar.value, bar.holds) for bar in found if bar.value is not None]
    assert there == [("nn.GRU ÷ gru", 1.5, True)]
    assert all(bar.holds is None for bar in found if bar.value is None)
    mode = "one step, 1 thread"
    rows = [("drop-in", mode, "gru", "nn.GRU", (1, 1, w), None, *[r] * 3, 4) for w, r in ((32, 0.9), (64, 1.2))]
    found = Findings(ratios=[Quotient(*row) for row in rows])
    assert found.largest_ratio("drop-in", mode, ["gru", "mgu"], "nn.GRU") == 1.2
    assert found.largest_ratio("drop-in", mode, ["mgu"], "nn.GRU") is None
    assert [bar.holds for bar in judged(found) if bar.value is not None] == [False]


@pytest.mark.slow
def test_every_bar_of_a_cpu_is_measured(monkeypatch):
    """At small sizes: by section, mode and names."""
    pytest.importorskip("minGRU_pytorch")
    monkeypatch.setattr(memory, "peaks", lambda cells, setting: {})
    sections = ("layers", "scan", "memory", "loops", "language", "drop-in", "training")
    found = bench(Request(only=sections, sizes=SIZES, seconds=0.1))
    assert not found.wrong
    measured = {(row.section, row.mode, row.numerator, row.denominator) for row in found.ratios}
    measured |= {(row.section, row.mode, row.contender) for row in found.counts}
    for bar in bars():
        for key in asked_by(bar):
            if bar.device == "cpu" and key[0] not in ("length", "run"):
                names = key[:4] if len(key) > 4 else key[:3]
                assert names in measured, (bar.measure, key)


def test_every_bar_stands_at_a_size_of_its_device():
    for bar in bars():
        section, sizes = asked_by(bar)[0][0], DEFAULTS[bar.device]
        if section == "length":
            assert bar.shape[1] in sizes.lengths and bar.shape[2] == sizes.length_width and bar.at_most == 18
            assert asked_by(bar)[0][4:] == ((1, 65536, 256), (1, 4096, 256))
        elif section == "language":
            assert bar.shape in (sizes.softmax, (1, 1, sizes.stream[1]))
        elif section in ("drop-in", "training"):
            assert bar.shape is None  # all of them, or the model's
        elif section != "run":
            assert bar.shape in getattr(sizes, section), bar.measure
