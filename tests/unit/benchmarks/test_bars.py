"""Every bar stands for something that a run measures, and is judged by its bound."""

import pytest
from small_bench import AskedBar

from benchmarks import memory
from benchmarks.bars import Bar, bars, judged, largest_bar
from benchmarks.record import Findings, Quotient, Request
from benchmarks.sizes import SIZES
from benchmarks.suite import SECTIONS, bench


def test_a_bar_holds_up_to_its_bound_and_is_judged_where_it_was_measured_by_the_largest_of_several_ratios():
    for bound, holds in {"at_most": [True, True, False], "at_least": [False, True, True]}.items():
        bar = Bar("cpu", "measure", None, lambda found: None, **{bound: 2.0})
        assert [bar.holds(value) for value in (1.99, 2.0, 2.01)] == holds
    row = Quotient("loops", "forward+backward", "nn.GRU", "gru", (8, 512, 256), None, 1.5, 1.4, 1.6, 4)
    found = judged(Findings(ratios=[row]), bars())
    there = [(bar.measure, bar.value, bar.holds) for bar in found if bar.value is not None]
    assert there == [("nn.GRU ÷ gru", 1.5, True)]
    assert all(bar.holds is None for bar in found if bar.value is None)
    rows = [("section", "one step", "gru", "nn.GRU", (1, 1, w), None, *[r] * 3, 4) for w, r in ((32, 0.9), (64, 1.2))]
    found = Findings(ratios=[Quotient(*row) for row in rows])
    of_both, of_another = (
        largest_bar("section", "one step", cells, "cells", "nn.GRU", 1.05) for cells in (["gru", "mgu"], ["mgu"])
    )
    assert of_both.find(found) == 1.2 and of_another.find(found) is None
    assert [bar.holds for bar in judged(found, [of_both, of_another])] == [False, None]


@pytest.mark.slow
def test_every_bar_of_a_cpu_is_measured(monkeypatch, small):
    """Bars at small sizes by section, mode and names."""
    pytest.importorskip("minGRU_pytorch")
    monkeypatch.setattr(memory, "peaks", lambda cells, setting, members: {})
    wanted = [bar for bar in bars() if AskedBar.of(bar)[0][0] not in ("length", "run")]
    sections = {AskedBar.of(bar)[0][0] for bar in wanted}
    found = bench(Request(only=tuple(sections), seconds=0.1))
    assert sections < set(SECTIONS) and not found.wrong
    assert AskedBar.not_in(found, wanted) == []


def test_every_bar_is_at_a_size_of_its_device():
    for bar in bars():
        section, sizes = AskedBar.of(bar)[0][0], SIZES[bar.device]
        if section == "length":
            assert bar.shape[1] in sizes.lengths and bar.shape[2] == sizes.length_width and bar.at_most == 18
            assert AskedBar.of(bar)[0][4:] == ((1, 65536, 256), (1, 4096, 256))
        elif section in ("training", "drop-in", "run"):
            assert bar.shape is None  # the model's, all of them, or none
        elif section == "language":
            assert bar.shape in (sizes.softmax, (1, 1, sizes.stream[1]))
        elif section == "peers":
            assert bar.shape in (sizes.layers if bar.device == "cpu" else sizes.scan), bar.measure
        else:
            assert bar.shape in getattr(sizes, section.replace("-", "_")), bar.measure
