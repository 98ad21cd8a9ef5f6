"""A torch that lacks a private name: a line says so, and layers run in plain torch, with the same results."""

import re
from pathlib import Path

import pytest
import torch

from gatedrnn import MinGRU
from gatedrnn.errors import BackendUnavailable
from gatedrnn.kernels import backends, private


def test_a_name_that_torch_lacks_is_said_and_replaced(caplog):
    assert private._of_torch("_C._no_such_name", "unknown") == "unknown"
    assert "has no torch._C._no_such_name" in caplog.text and "they run in plain torch, slower" in caplog.text
    names = re.findall(r'of_torch\("(.*?)"', Path(private.__file__).read_text("utf-8"))
    caplog.clear()
    assert (
        len(names) == 3 and [name for name in names if private._of_torch(name, None) is None] == [] and not caplog.text
    )


def test_a_layer_runs_in_plain_torch_where_torch_cannot_say_who_follows_it(monkeypatch):
    torch.manual_seed(0)
    layer, x = MinGRU(3, 4), torch.randn(5, 2, 3)
    expected = layer(x)
    monkeypatch.setattr(backends, "innermost_transform", lambda: "unknown")
    torch.testing.assert_close(layer(x), expected)


def test_a_kind_without_a_kernel_for_a_gpu_says_so(monkeypatch):
    monkeypatch.setattr(backends, "installed", lambda package: True)
    for kind in ("block", "loop"):
        with pytest.raises(BackendUnavailable, match=f"backend 'native' has no {kind} kernel for a GPU; use 'ref"):
            backends.native_kernels(f"gatedrnn.kinds.{kind}", torch.device("cuda"))
