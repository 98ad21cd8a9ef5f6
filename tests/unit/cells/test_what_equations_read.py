"""A cell runs by what its equations read: a kernel holds while that is as it was, or there is none."""

import functools
import os
import re
import sys
import time
from types import ModuleType, SimpleNamespace

import pytest
import torch
from kernel_cells import forget
from tolerances import assert_equal_within

from gatedrnn import RecurrentLayer, register
from gatedrnn.cells.block_orthogonal import BlockOrthogonalEquations
from gatedrnn.cells.lstm import LSTMEquations
from gatedrnn.equations import ScanEquations

HERE = sys.modules[__name__]
SCALE, LEVELS, LEARNED, OBJECT = 1.0, [1.0], torch.nn.Parameter(torch.tensor(0.5)), SimpleNamespace(scale=0.5)
PACKAGE = ModuleType("package")
PACKAGE.inner = HERE


class Settings:
    scale = 1.0

    def __init__(self):
        self.own = SCALE


Derived = type("Derived", (Settings,), {})


def importing(f, v, own):
    import kernel_cells

    return v * len(kernel_cells.__name__)


def squash(x):
    return torch.tanh(x)


def enclosing(scale):
    def put(new):
        nonlocal scale
        scale = new

    return (lambda f, v, own: v * scale), put


def default(f, v, own, *, scale=1.0):
    return v * scale


@pytest.fixture
def layer_of():
    """A layer of a cell with this drive, registered."""

    def make(drive, base=ScanEquations, **members):
        def coefficients(self, f, v):
            return f.sigmoid(), drive(f, v, self)

        members = members or {"projections": ("f", "v"), "coefficients": coefficients, "scale": 1.0, "the_scale": 1.0}
        equations = type("OwnEquations", (base,), members | {"name": "own"})
        return register(type("Own", (RecurrentLayer,), {"cell_class": equations}))(4, 6, batch_first=True)

    yield make
    forget("own")


def assert_runs_its_equations(layer):
    x = torch.randn(2, 5, 4)

    def run(backend):
        layer.backend = backend
        with torch.no_grad():
            step, _ = layer.step(x[:, 0])
        return layer(x)[0], step

    for right, found in zip(run("reference"), run("auto"), strict=True):
        assert_equal_within(found, right, torch.float32, layer.runs_on().name)
    return layer(x)[0]


CLOSED, put = enclosing(1.0)
CHANGES = {
    "attribute of a class": (lambda f, v, own: v * own.scale, lambda patch, cell: patch(type(cell), "scale", 3.0)),
    "attribute": (lambda f, v, own: v * own.scale, lambda patch, cell: patch(cell, "scale", 3.0)),
    "attribute by its name": (lambda f, v, own: v * getattr(own, "scale"), lambda patch, cell: patch(cell, "scale", 3)),  # noqa: B009
    "number of a module": (lambda f, v, own: v * SCALE, lambda patch, cell: patch(HERE, "SCALE", 3.0)),
    "function": (lambda f, v, own: squash(v), lambda patch, cell: patch(HERE, "squash", torch.sigmoid)),
    "element": (lambda f, v, own: v * LEVELS[0], lambda patch, cell: LEVELS.append(LEVELS.pop() + 1)),
    "class of settings": (lambda f, v, own: v * Settings.scale, lambda patch, cell: patch(Settings, "scale", 3.0)),
    "attribute by a name put together": (
        lambda f, v, own: v * getattr(own, "_".join(("the", "scale"))),
        lambda patch, cell: patch(type(cell), "the_scale", 3.0),
    ),
    "base of a class": (lambda f, v, own: v * Derived.scale, lambda patch, cell: patch(Settings, "scale", 3.0)),
    "object made of it": (lambda f, v, own: v * Derived().own, lambda patch, cell: patch(HERE, "SCALE", 3.0)),
    "module in a module": (lambda f, v, own: v * PACKAGE.inner.SCALE, lambda patch, cell: patch(HERE, "SCALE", 3.0)),
    "enclosing function": (CLOSED, lambda patch, cell: put(3.0)),
    "default": (default, lambda patch, cell: patch(default, "__kwdefaults__", {"scale": 3.0})),
    "method": (
        lambda f, v, own: v,
        lambda patch, cell: patch(type(cell), "coefficients", lambda self, f, v: (f.sigmoid(), 3 * v)),
    ),
}


@pytest.mark.parametrize("drive, change", CHANGES.values(), ids=CHANGES)
def test_equations_run_by_what_they_read_now_and_by_a_new_kernel_when_registered_again(
    drive, change, layer_of, monkeypatch
):
    layer = layer_of(drive)
    assert layer.runs_on().name.startswith("one kernel for gates and scan"), layer.runs_on()
    change(monkeypatch.setattr, layer.cell)
    assert_runs_its_equations(layer)
    assert "which its equations read, has changed since its kernel was made" in layer.runs_on().reason
    if "scale" not in vars(layer.cell):  # which is that layer's alone
        register(type(layer))
        assert layer.runs_on().name.startswith("one kernel for gates and scan"), layer.runs_on()


UNSEEN = {
    "asks for dtype": lambda f, v, own: v if v.dtype == torch.float64 else 2 * v,
    "asks for dim": lambda f, v, own: v if v.dim() == 1 else 2 * v,
    "asks for shape": lambda f, v, own: v / v.shape[-1],
    "asks for requires_grad": lambda f, v, own: v if v.requires_grad else 2 * v,
    "ask torch's is_grad_enabled": lambda f, v, own: v if torch.is_grad_enabled() else 2 * v,
    "ask torch's get_num_threads": lambda f, v, own: v * torch.get_num_threads(),
    "read environ, and no change of a _Environ is seen": lambda f, v, own: v * len(os.environ["PATH"]),
    "importing imports kernel_cells": importing,
    "call globals": lambda f, v, own: v * globals()["SCALE"],
    "call eval": lambda f, v, own: v * eval("SCALE"),
    "call open": lambda f, v, own: v * len(open.__name__),
    "call time, which answers by more than its arguments": lambda f, v, own: v + 0 * time.time(),
    "read OBJECT, and no change of a SimpleNamespace is seen": lambda f, v, own: v * OBJECT.scale,
    "read LEARNED, a tensor that is none of their arguments": lambda f, v, own: v * LEARNED,
    "read a default of <lambda>, a tensor": lambda f, v, own, learned=(LEARNED,): v * learned[0],
    "read scale, a tensor": enclosing(LEARNED)[0],
}


@pytest.mark.parametrize("reason, drive", UNSEEN.items(), ids=UNSEEN)
def test_what_no_kernel_can_follow_runs_by_the_equations_and_is_learned(reason, drive, layer_of):
    layer = layer_of(drive)
    found = assert_runs_its_equations(layer)
    path = layer.runs_on()
    assert path.name.startswith("one linear_scan") and re.search(reason, path.reason), path
    if "tensor" in reason:
        assert torch.autograd.grad(found.sum(), LEARNED)[0] != 0


def halved(method):
    return lambda *given: next((x * 0.5, *others) for x, *others in [method(*given)])


@pytest.mark.parametrize("base, method", [(LSTMEquations, "step"), (BlockOrthogonalEquations, "coefficients")])
def test_a_kernel_of_a_base_class_is_none_of_a_class_that_changes_its_equations(base, method, layer_of):
    assert_runs_its_equations(layer_of(None, base, **{method: halved(getattr(base, method))}))


def test_a_part_of_a_method_whose_arguments_may_change_runs_by_its_equations(layer_of):
    scales = [1.0]
    part = functools.partialmethod(lambda self, f, v, scales: (f.sigmoid(), v * scales[0]), scales=scales)
    layer = layer_of(None, projections=("f", "v"), coefficients=part)
    scales[0] = 3.0
    assert_runs_its_equations(layer)
