"""Other libraries are held to their formulas where they are installed, and said to be missing where they are not."""

import pytest
import torch
from small_bench import SHAPE, SIZES, found_by

from benchmarks import memory, peers
from benchmarks.contenders import Setting
from benchmarks.layers import ours
from benchmarks.measure import disagreement
from benchmarks.peers import PEER_LAYERS, PEER_SCANS, PEERS, peer_layers, peer_scans, with_peers
from benchmarks.sections import bare_scan


@pytest.fixture
def no_processes(monkeypatch):
    monkeypatch.setattr(memory, "peaks", lambda cells, setting, members: dict.fromkeys(cells, 2.0**20))


def test_peers_pass_where_they_are_installed_and_a_changed_weight_does_not():
    pytest.importorskip("minGRU_pytorch")
    for cell in ("mingru", "minlstm"):
        for peer in peer_layers(ours(cell, Setting((2, 40, 8)))):
            assert disagreement(peer) is None, peer.name
            weight = next(leaf for name, leaf in peer.leaves.items() if name != "input")
            weight.data[0, 0] += 0.5
            assert disagreement(peer).what.startswith(("output", "gradient"))


def test_peers_are_named_as_they_are_held_against_and_missing_ones_are_said_with_how_to_install(
    timed_once, no_processes, monkeypatch
):
    for cell in PEER_LAYERS:
        own, *others = with_peers(cell, Setting(SHAPE))
        assert own.name == cell and {peer.name for peer in others} <= set(PEER_LAYERS[cell])
    assert {c.name for c in peer_scans(bare_scan(Setting(SHAPE), torch.float32))} <= set(PEER_SCANS)
    found = found_by(peers.peers, SIZES, ("mingru", "lstm"), 0.05)
    missing = [(peer.package, peer.missing("cpu")) for peer in PEERS if peer.missing("cpu")]
    assert [(row.what, row.why) for row in found.left_out] == missing and not found.wrong
    assert "accelerated-scan" in dict(missing)
    assert [(row.section, row.contender, row.value) for row in found.counts] == [("peers", "mingru", 1.0)]
    monkeypatch.setattr("benchmarks.peers.find_spec", lambda name: None)
    assert PEERS[0].missing("cpu") == "is not installed (pip install minGRU-pytorch)"
    assert PEERS[-1].missing("cpu") == "has kernels for CUDA alone"
    without = found_by(peers.peers, SIZES, ("mingru",), 0.05)
    assert {row.contender for row in without.timings} == {"mingru", "linear_scan"} and not without.ratios
