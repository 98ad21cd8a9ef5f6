"""Every section measures what it says, passes its own gate, and leaves out what it has no cells for."""

import pytest
import torch
from small_bench import SHAPE, SIZES

from gatedrnn.bench import sections
from gatedrnn.bench.contenders import Setting
from gatedrnn.bench.layers import NEAR_KINK, ours
from gatedrnn.bench.measure import Bench, disagreement
from gatedrnn.bench.peers import PEER_LAYERS, PEER_SCANS, PEERS
from gatedrnn.bench.run import Request, bench, default_cells
from gatedrnn.registry import CELLS


def test_default_cells_are_known_and_a_section_without_cells_of_its_kind_is_left_out_and_says_so(timed_once):
    for section in ("layers", "scan", "memory", "loops", "step", "length", "model"):
        assert set(default_cells(section)) <= set(CELLS)
    for only, cell in {"layers": "mgu", "loops": "mingru", "length": "mgu", "memory": "mgu"}.items():
        found = bench(Request(only=(only,), cells=(cell,), sizes=SIZES))
        assert [row.what for row in found.left_out if row.what == only] == ([only] if only != "length" else [])


@pytest.mark.slow
def test_every_cell_can_be_measured_in_every_section_that_knows_its_kind():
    found = bench(Request(only=("layers", "loops", "step", "length"), cells=tuple(CELLS), sizes=SIZES, seconds=0.2))
    assert not found.wrong
    ratios = {(row.section, row.numerator) for row in found.ratios}
    scans = {cell for cell in CELLS if sections.is_scan_cell(cell)}
    assert {("layers", cell) for cell in scans} <= ratios
    assert {("loops", cell) for cell in set(CELLS) - scans - {"gru"}} <= ratios
    assert {("step", cell) for cell in CELLS} <= ratios
    lengths = {(row.contender, row.shape[1]) for row in found.timings if row.section == "length"}
    assert lengths == {(cell, 4) for cell in CELLS} | {(cell, 8) for cell in scans}


def test_a_stream_of_forecasts_is_held_against_its_products(timed_once):
    found, cells = bench(Request(only=("forecast",), sizes=SIZES)), ("gru", "mingru")
    ratios = {(row.numerator, row.denominator) for row in found.ratios}
    assert not found.wrong and ratios == {(cell, f"products of {cell}") for cell in cells}
    assert {(row.contender, row.shape) for row in found.timings if row.unit} == {(c, SIZES.series) for c in cells}


def test_a_bare_scan_is_held_against_a_pass_over_the_same_bytes():
    batch, time, width = SHAPE
    contenders = {c.name: c for c in sections._scans(Setting(SHAPE), torch.float32)}
    assert contenders["linear_scan"].work == contenders["torch.add"].work == (3 * 4 * batch * time * width, "B/s")
    assert all(disagreement(c, backward=c.expected.upstream is not None) is None for c in contenders.values())


def test_the_products_of_a_step_are_all_of_its_cell():
    for cell, sizes in {"lstm": [16, 16], "mgu": [8, 8], "mingru": [8]}.items():
        _, products = sections._step(cell, Setting((1, 1, 4)))
        assert [output.shape[1] for output in products.forward()] == sizes


def test_no_candidate_lies_where_rounding_decides_its_side():
    for cell in ("mingru", "minlstm"):
        (own, layer), (again, _) = (ours(cell, Setting((4, 500, 64))) for _ in range(2))
        candidates = torch.nn.functional.linear(own.leaves["input"], layer.weight_ih_l0, layer.bias_ih_l0)[..., :64]
        assert candidates.abs().min() >= NEAR_KINK / 2
        assert torch.equal(own.leaves["input"], again.leaves["input"])


def test_peers_are_named_as_they_are_held_against_and_missing_ones_are_said_with_how_to_install(
    timed_once, monkeypatch
):
    for cell in PEER_LAYERS:
        names = [peer.name for peer in sections.peer_layers(ours(cell, Setting(SHAPE)))]
        assert set(names) <= set(PEER_LAYERS[cell])
    scans = {c.name for c in sections._scans(Setting(SHAPE), torch.float32)}
    assert scans <= {"linear_scan", "torch.add", *PEER_SCANS}
    found = bench(Request(only=("step",), cells=("mingru",), sizes=SIZES))
    missing = [(peer.package, peer.missing("cpu")) for peer in PEERS if peer.missing("cpu")]
    assert [(row.what, row.why) for row in found.left_out] == missing
    assert "accelerated-scan" in dict(missing)
    monkeypatch.setattr("gatedrnn.bench.peers.find_spec", lambda name: None)
    assert PEERS[0].missing("cpu") == "is not installed (pip install minGRU-pytorch)"
    assert PEERS[-1].missing("cpu") == "has kernels for CUDA alone"
    without = Bench()
    sections.layers(without, SIZES, ("mingru",), 0.05)
    assert not [row for row in without.findings.timings if "minGRU-pytorch" in row.contender]
