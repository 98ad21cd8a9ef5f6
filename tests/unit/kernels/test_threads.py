"""Work is shared out so that every item is done once, on torch's own threads or on a pool."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
import torch

from gatedrnn.kernels.cpu import threads
from gatedrnn.kinds.scan.cpu import scan, scan_gradient
from gatedrnn.kinds.scan.definition import ScanInputs, ScanUpstream
from gatedrnn.kinds.scan.rows import bare_scan


def test_every_item_is_done_once_in_the_pool(monkeypatch):
    monkeypatch.setattr(threads, "team", lambda process: None)
    for items, count in product((1, 2, 7, 100), (1, 2, 3, 16)):
        parts = []
        kernel = threads.Kernel(*[lambda first, last, step, parts=parts: parts.append(range(first, last, step))] * 2)
        threads.parallel_for(kernel, items, count, 1)
        assert sorted(item for part in parts for item in part) == list(range(items)), (items, count)
        assert len(parts) == min(items, count)


@pytest.mark.parametrize("where", ["team", "pool"])
def test_a_kernel_gives_the_same_bits_on_any_number_of_threads(where, monkeypatch):
    if where == "pool":
        monkeypatch.setattr(threads, "team", lambda process: None)
    elif threads.team(threads._FIRST_PROCESS) is None:
        pytest.skip("this torch has no libgomp")
    decay, drive = torch.rand(5, 50, 300), torch.randn(5, 50, 300)
    assert decay.numel() > threads.WORTH_A_THREAD
    before = torch.get_num_threads()

    def scanned(_=None):
        given = ScanInputs(decay, drive)
        h, last, _ = scan(bare_scan(), given)
        found = scan_gradient(bare_scan(), ScanUpstream(drive, last, drive, h, True), given)
        return h, last, found.x, found.drive, found.starts, found.reset_state

    try:
        torch.set_num_threads(1)
        alone = scanned()
        for count in 3 * (2, 3, 16):
            torch.set_num_threads(count)
            assert all(map(torch.equal, scanned(), alone)), count
        with ThreadPoolExecutor(4) as callers:  # each with threads of its own
            assert all(all(map(torch.equal, found, alone)) for found in callers.map(scanned, range(12)))
    finally:
        torch.set_num_threads(before)


FIRST_TEAM = """
import torch, gatedrnn
torch.set_num_threads(4)
layer = gatedrnn.MGU(300, 300)
with torch.no_grad():
    layer.step(torch.randn(1, 300))
small = torch.full((1 << 18,), 1e-40)
print(bool(((small + small) > 0).all()))
"""


@pytest.mark.slow
def test_threads_that_start_in_a_kernel_keep_denormal_numbers():
    run = subprocess.run([sys.executable, "-c", FIRST_TEAM], capture_output=True, text=True, check=True)
    assert run.stdout == "True\n"
