"""Memory that is kept for the backward pass is counted rightly, and a peak is at least what must be held."""

import json
import subprocess
import sys

import pytest
import torch
from small_bench import SHAPE

from benchmarks import memory
from benchmarks.contenders import Setting
from benchmarks.memory import kept_for_backward
from gatedrnn import MinGRU

NUMBERS = 12


class Keeps(torch.autograd.Function):
    """Hands x on, and keeps what it is told to."""

    @staticmethod
    def forward(ctx, x, weight, choose):
        y = x.clone()
        ctx.save_for_backward(*choose(x, weight, y))
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None


def kept(choose, projection=0):
    x, weight = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    return kept_for_backward(lambda: (Keeps.apply(x, weight, choose),), NUMBERS, (x, weight), projection)


COUNTS = {
    "nothing": (lambda x, weight, y: (), 0),
    "what is there anyway": (lambda x, weight, y: (x, weight, y), 0),
    "two": (lambda x, weight, y: (2 * x, 3 * x), 2),
    "views of what is there": (lambda x, weight, y: (x.view(4, 3), y[:1]), 0),
    "one in views": (lambda x, weight, y: tuple((2 * x).unbind(0)), 1),
    "a small one": (lambda x, weight, y: (x.new_zeros(NUMBERS - 1), x.new_zeros(NUMBERS)), 1),
    "bytes": (lambda x, weight, y: (x.new_zeros(NUMBERS, dtype=torch.uint8),), 1),
}


def test_each_tensor_of_the_size_counts_once_and_one_projection_is_free():
    assert {name: kept(choose) for name, (choose, _) in COUNTS.items()} == {name: n for name, (_, n) in COUNTS.items()}
    for projection, count in ((0, 2), (2 * NUMBERS, 1)):
        assert kept(lambda x, *_: (x.new_zeros(2 * NUMBERS), x.new_zeros(2, NUMBERS)), projection) == count
    x = torch.randn(3, 4, requires_grad=True)  # an exponential keeps its output alone, and a square of it one more
    assert kept_for_backward(lambda: (x.exp(),), NUMBERS, (x,), 0) == 0
    assert kept_for_backward(lambda: (x.exp() ** 2,), NUMBERS, (x,), 0) == 1


def test_what_a_layer_does_to_its_input_is_counted(monkeypatch):
    before, forward = memory.kept_by("mingru", Setting(SHAPE)), MinGRU.forward
    # Two more: the factor, and the product, which is what the projection reads.
    monkeypatch.setattr(MinGRU, "forward", lambda layer, x: forward(layer, x * x.detach().exp()))
    assert memory.kept_by("mingru", Setting(SHAPE)) == before + 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
def test_a_peak_is_seen_after_its_memory_was_freed_and_holds_at_least_output_and_gradients():
    # In a process of its own, as it is used: what an earlier test gave back would be taken again without a gain.
    script = (
        "import torch; from benchmarks import memory; size = 2**26\n"
        "print([memory.gained(lambda: torch.ones(size // 4).sum()) / size, memory.gained(lambda: None) / size])"
    )
    whole, nothing = json.loads(subprocess.check_output([sys.executable, "-c", script]))
    assert 0.95 < whole < 1.2 and nothing < 0.2
    found = memory.peaks(["lstm", "gru"], Setting((4, 256, 64)))
    output_and_input_gradient = 2 * 4 * 4 * 256 * 64
    assert list(found) == ["nn.LSTM", "nn.GRU"]
    assert all(output_and_input_gradient < peak < 200 * output_and_input_gradient for peak in found.values())
