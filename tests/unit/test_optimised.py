"""`python -OO` leaves out docstrings and assertions, and nothing needs them."""

import subprocess
import sys

import pytest

EVERY_LAYER = """
import torch, gatedrnn
from gatedrnn.inspect.describe import describe
from gatedrnn.registry import CELLS
assert False, "assertions run"
for name in CELLS:
    layer = CELLS[name].layer(4, 8)
    layer(torch.randn(3, 2, 4))[0].sum().backward()
    assert layer.weight_ih_l0.grad is not None
print(gatedrnn.MinGRU.__doc__, len(CELLS))
"""
TRAINS = """
import gatedrnn
run = gatedrnn.train(task="digits", cell="mingru", hidden_size=4, total_steps=2, output="run", progress=False)
print(len(run.predict(__import__("numpy").zeros((3, 8, 8)))))
"""


def optimised(folder, *arguments):
    done = subprocess.run([sys.executable, "-OO", *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_every_layer_runs_without_docstrings_and_assertions(tmp_path):
    assert optimised(tmp_path, "-c", EVERY_LAYER).startswith("None ")


@pytest.mark.slow
def test_commands_run_without_docstrings_and_assertions(tmp_path):
    small = "train --task digits --cell gru --hidden-size 4 --total-steps 2 --output run"
    optimised(tmp_path, "-m", "gatedrnn", *small.split())
    assert (tmp_path / "run" / "report.html").exists()
    assert "Usage: gatedrnn train" in optimised(tmp_path, "-m", "gatedrnn", "train", "--help")
    assert "mingru" in optimised(tmp_path, "-m", "gatedrnn", "describe", "mingru")
