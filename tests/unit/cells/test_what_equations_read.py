"""A cell runs by what its equations read when it is registered, and the equations themselves do not change."""

import copy
import pickle
import re
import sys
from dataclasses import dataclass, replace
from functools import cached_property, partialmethod

import pytest
import torch
from kernel_cells import forget
from tolerances import assert_equal_within

from gatedrnn import RecurrentLayer, register
from gatedrnn.cells.block_orthogonal import BlockOrthogonalEquations
from gatedrnn.cells.lstm import LSTMEquations
from gatedrnn.equations import ScanEquations, options_of
from gatedrnn.registry import CELLS

HERE = sys.modules[__name__]
SCALE, LEVELS, LEARNED = 1.0, [1.0], torch.nn.Parameter(torch.tensor(0.5))


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

        members = members or {"projections": ("f", "v"), "coefficients": coefficients, "scale": 1.0}
        equations = type("OwnEquations", (base,), members | {"name": "own"})
        return register(type("Own", (RecurrentLayer,), {"cell_class": equations}))(4, 6, batch_first=True)

    yield make
    forget("own")


def by_backend(layer, backend):
    """Output and a step."""
    x = torch.ones(2, 5, 4)
    layer.backend = backend
    with torch.no_grad():
        step, _ = layer.step(x[:, 0])
    return layer(x)[0], step


def assert_runs_its_equations(layer):
    for right, found in zip(by_backend(layer, "reference"), by_backend(layer, "auto"), strict=True):
        assert_equal_within(found, right, torch.float32, layer.runs_on().name)
    return found


CLOSED, put = enclosing(1.0)
CHANGES = {
    "attribute of a class": (lambda f, v, own: v * own.scale, lambda patch, cell: patch(type(cell), "scale", 3.0)),
    "number of a module": (lambda f, v, own: v * SCALE, lambda patch, cell: patch(HERE, "SCALE", 3.0)),
    "function": (lambda f, v, own: squash(v), lambda patch, cell: patch(HERE, "squash", torch.sigmoid)),
    "element": (lambda f, v, own: v * LEVELS[0], lambda patch, cell: LEVELS.append(LEVELS.pop() + 1)),
    "enclosing function": (CLOSED, lambda patch, cell: put(3.0)),
    "default": (default, lambda patch, cell: patch(default, "__kwdefaults__", {"scale": 3.0})),
    "method": (
        lambda f, v, own: v,
        lambda patch, cell: patch(type(cell), "coefficients", lambda self, f, v: (f.sigmoid(), 3 * v)),
    ),
}


@pytest.mark.parametrize("drive, change", CHANGES.values(), ids=CHANGES)
def test_what_equations_read_beside_their_arguments_is_read_once_until_registered_again(
    drive, change, layer_of, monkeypatch
):
    layer = layer_of(drive)
    before = assert_runs_its_equations(layer), by_backend(layer, "auto")
    change(monkeypatch.setattr, layer.cell)
    for found, was in zip(by_backend(layer, "auto"), before[1], strict=True):
        assert torch.equal(found, was)
    assert layer.runs_on().name.startswith("one kernel for gates and scan"), layer.runs_on()
    register(type(layer))
    again = type(layer)(4, 6, batch_first=True)
    again.load_state_dict(layer.state_dict())
    assert_runs_its_equations(again)
    assert not torch.equal(by_backend(again, "auto")[0], before[1][0])


UNSEEN = {
    "asks for dtype": lambda f, v, own: v if v.dtype == torch.float64 else 2 * v,
    "asks for dim": lambda f, v, own: v if v.dim() == 1 else 2 * v,
    "asks for shape": lambda f, v, own: v / v.shape[-1],
    "asks for requires_grad": lambda f, v, own: v if v.requires_grad else 2 * v,
    "a variable's tensor": lambda f, v, own: v * LEARNED,
    "a default's tensor": lambda f, v, own, learned=(LEARNED,): v * learned[0],
    "an enclosing function's tensor": enclosing(LEARNED)[0],
}


@pytest.mark.parametrize("reason, drive", UNSEEN.items(), ids=UNSEEN)
def test_what_no_kernel_can_follow_runs_by_the_equations_and_is_learned(reason, drive, layer_of):
    layer = layer_of(drive)
    by_backend(layer, "auto")
    assert_runs_its_equations(layer)
    path, of_tensor = layer.runs_on(), "tensor" in reason
    reason = "reads a tensor that is no argument of it" if of_tensor else reason
    assert path.name.startswith("one linear_scan") and re.search(reason, path.reason), path
    if of_tensor:
        assert torch.autograd.grad(layer(torch.ones(2, 5, 4))[0].sum(), LEARNED)[0] != 0


def halved(method):
    return lambda *given: next((x * 0.5, *others) for x, *others in [method(*given)])


@pytest.mark.parametrize("base, method", [(LSTMEquations, "step"), (BlockOrthogonalEquations, "coefficients")])
def test_a_kernel_of_a_base_class_is_none_of_a_class_that_changes_its_equations(base, method, layer_of):
    assert_runs_its_equations(layer_of(None, base, **{method: halved(getattr(base, method))}))


def test_a_part_of_a_method_is_a_method(layer_of):
    part = partialmethod(lambda self, f, v, scale: (f.sigmoid(), v * scale), scale=3.0)
    layer = layer_of(None, projections=("f", "v"), coefficients=part)
    assert_runs_its_equations(layer)
    assert layer.runs_on().name.startswith("one kernel for gates and scan"), layer.runs_on()


class Scaled(ScanEquations):
    name, projections = "scaled", ("f", "v")

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    @cached_property
    def twice(self):
        return 2 * self.scale

    def coefficients(self, f, v):
        return f.sigmoid(), self.twice * v


class Above(Scaled):
    def __init__(self, shift: float = 0.5) -> None:
        super().__init__(2.0)
        self.shift = shift


class Below(Scaled):
    def __init__(self, shift: float = 0.5) -> None:
        self.shift = shift
        super().__init__(2.0)


@dataclass
class AsData(Scaled):
    scale: float = 1.0
    shift: float = 0.5


@pytest.mark.parametrize("made", [Scaled, Above, Below, AsData])
def test_an_attribute_of_equations_is_set_by_their_constructor_alone(made):
    cell = made(3.0)
    name = next(iter(options_of(made)))
    assert (getattr(cell, name), cell.twice, cell.options[name]) == (3.0, 2 * cell.scale, 3.0)
    for same in (cell, copy.copy(cell), copy.deepcopy(cell), pickle.loads(pickle.dumps(cell))):
        with pytest.raises(AttributeError, match=rf"{made.__name__}\.{name} cannot be changed .* make a new layer"):
            setattr(same, name, 1.0)
        with pytest.raises(AttributeError, match=rf"{made.__name__}\.other cannot be changed"):
            same.other = 1.0
        with pytest.raises(AttributeError, match=f"{name} cannot be changed"):
            delattr(same, name)
        assert getattr(same, name) == 3.0
    if made is AsData:
        assert replace(cell, shift=2.0).options == {"scale": 3.0, "shift": 2.0}


@pytest.mark.parametrize("name", CELLS)
def test_the_equations_of_a_layer_cannot_be_changed(name):
    layer = CELLS[name].layer(3, 4)
    for cell in (layer.cell, copy.deepcopy(layer).cell, pickle.loads(pickle.dumps(layer)).cell):
        with pytest.raises(AttributeError, match="cannot be changed once the equations are made"):
            cell.projections = ()


class OfTensor(Scaled):
    def __init__(self, scale: float = 1.0, learned: bool = True) -> None:
        super().__init__(scale)
        self.learned = learned
        self.held = [{"scale": torch.ones(1)}] if learned else []


def test_a_tensor_of_the_equations_own_is_refused_when_a_layer_is_made():
    layer = type("OwnLayer", (RecurrentLayer,), {"cell_class": OfTensor})
    layer(3, 4, learned=False)
    of_class = type("OwnLayer", (RecurrentLayer,), {"cell_class": type("OfTensor", (Scaled,), {"held": LEARNED})})
    for own in (layer, of_class):
        with pytest.raises(TypeError, match=r"OfTensor\.held is a tensor or a module, .* name a weight in diagonals"):
            own(3, 4)
