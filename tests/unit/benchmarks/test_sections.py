"""Every section measures what it says, passes its own gate, and leaves out what it has no cells for."""

import dataclasses
import math
from typing import get_args

import pytest
import torch
from small_bench import SHAPE

from benchmarks import memory, sections
from benchmarks.contenders import Setting
from benchmarks.layers import NEAR_KINK, is_scan_cell, ours
from benchmarks.measure import Bench, disagreement
from benchmarks.record import DEFAULT, Request, SectionName
from benchmarks.sizes import Sizes
from benchmarks.suite import SECTIONS, bench
from gatedrnn.registry import CELLS


def test_sections_are_those_that_the_command_line_knows_and_a_default_run_takes_the_time_that_is_asked_for():
    assert tuple(SECTIONS) == get_args(SectionName) and tuple(SECTIONS)[: len(DEFAULT)] == DEFAULT
    assert sum(SECTIONS[name].part for name in DEFAULT) == pytest.approx(1.0)


def test_default_cells_are_known_and_a_section_without_cells_of_its_kind_is_left_out_and_says_so(timed_once, small):
    assert all(set(section.cells) <= set(CELLS) for section in SECTIONS.values())
    assert {"mingru", "minlstm", "qrnn"} < set(memory.SCAN_CELLS) < set(CELLS) - {"lstm", "gru", "lru", "indrnn"}
    for only, cell in {"layers": "mgu", "loops": "mingru", "length": "mgu", "memory": "mgu"}.items():
        found = bench(Request(only=(only,), cells=(cell,)))
        assert [row.what for row in found.left_out if row.what == only] == ([only] if only != "length" else [])


@pytest.mark.slow
def test_every_cell_can_be_measured_in_every_section_that_knows_its_kind(small):
    found = bench(Request(only=("layers", "loops", "step", "length"), cells=tuple(CELLS), seconds=0.2))
    assert not found.wrong
    ratios = {(row.section, row.numerator) for row in found.ratios}
    scans = {cell for cell in CELLS if is_scan_cell(cell)}
    assert {("layers", cell) for cell in scans} <= ratios
    assert {("loops", cell) for cell in set(CELLS) - scans - {"gru"}} <= ratios
    assert {("step", cell) for cell in CELLS} <= ratios
    lengths = {(row.contender, row.shape[1]) for row in found.timings if row.section == "length"}
    assert lengths == {(cell, 4) for cell in CELLS} | {(cell, 8) for cell in scans}


def test_a_bare_scan_is_held_against_a_pass_over_the_same_bytes(timed_once, small):
    batch, time, width = SHAPE
    own = sections.bare_scan(Setting(SHAPE), torch.float32)
    (added,) = sections.roof(own)
    assert own.work == (3 * 4 * batch * time * width, "B/s")
    assert disagreement(own) is None and disagreement(added, backward=False) is None
    found = bench(Request(only=("scan",)))
    assert {row.unit for row in found.timings} == {"B/s"} and {row.numerator for row in found.ratios} == {"torch.add"}


def test_on_a_gpu_a_scan_is_held_against_a_copy_of_the_bytes_of_either_pass(timed_once, monkeypatch):
    """The device is a CPU by another name."""
    drawn = Setting.normal
    monkeypatch.setattr(Setting, "normal", lambda self, *shape: drawn(Setting(self.shape), *shape))
    at_work = Bench("cuda")
    sections.scan(at_work, Sizes(scan=(SHAPE,)), (), 0.1)
    found, states = at_work.findings, math.prod(SHAPE)
    wanted = {
        mode + narrow: elements * width * states
        for mode, elements in (("forward", 3), ("forward+backward", 9))
        for narrow, width in (("", 4), (sections.NARROW, 2))
    }
    assert not found.wrong and {(row.mode, row.numerator, row.denominator) for row in found.ratios} == {
        (mode, "copy", "linear_scan") for mode in wanted
    }
    assert {(row.mode, row.contender): row.rate for row in found.timings} == {
        (mode, name): moved for mode, moved in wanted.items() for name in ("copy", "linear_scan")
    }  # in a second
    for backward, elements in ((False, 3), (True, 9)):
        own = dataclasses.replace(
            sections.bare_scan(Setting(SHAPE), torch.float32, backward), setting=Setting(SHAPE, "cuda")
        )
        (copy,) = sections.roof(own)
        assert 2 * copy.leaves["source"].numel() == elements * states


def test_the_products_of_a_step_are_all_of_its_cell():
    for cell, sizes in {"lstm": [16, 16], "mgu": [8, 8], "mingru": [8], "slstm:heads=2": [16, 16]}.items():
        _, products = sections._step(cell, Setting((1, 1, 4)))
        assert [output.shape[1] for output in products.forward()] == sizes


def test_no_candidate_lies_where_rounding_decides_its_side():
    for cell in ("mingru", "minlstm"):
        (own, layer), (again, _) = (ours(cell, Setting((4, 500, 64))) for _ in range(2))
        candidates = torch.nn.functional.linear(own.leaves["input"], layer.weight_ih_l0, layer.bias_ih_l0)[..., :64]
        assert candidates.abs().min() >= NEAR_KINK / 2
        assert torch.equal(own.leaves["input"], again.leaves["input"])
