"""What a training asks of the system's memory."""

import subprocess
import sys

import pytest

SMALL_BESIDE_LARGE = """
from gatedrnn.cli.arguments import use_large_pages
use_large_pages()
import torch
kept = []
for _ in range(20):
    torch.zeros(1 << 25)  # 128 MiB, gone at once
    kept.append(torch.zeros(1 << 10))
for line in open("/proc/self/status"):
    if line.startswith("VmHWM"):  # of this program alone: getrusage counts that of the process it was forked from
        print(int(line.split()[1]) >> 10)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="as the system counts memory there")
def test_small_tensors_that_outlive_large_ones_cost_no_more_than_themselves():
    """The losses of a long text are kept beside the scores of its pieces, which are not."""
    done = subprocess.run([sys.executable, "-c", SMALL_BESIDE_LARGE], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1000, "MiB at most; two large tensors at once would be half of it"
