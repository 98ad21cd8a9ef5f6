"""A cell is one file: moved out of the package it leaves no trace, and is a user's cell, whose mistakes are told."""

import importlib.util
from pathlib import Path

import pytest
import torch

from gatedrnn import RecurrentLayer, cells, register
from gatedrnn.cells import mingru
from gatedrnn.equations import Diagonal, ElementwiseLoopEquations, GappedLoopEquations, LoopEquations, ScanEquations
from gatedrnn.kinds.programs import CLASSES, EQUATIONS
from gatedrnn.layers.check_cell import _unread_weights
from gatedrnn.registry import CELLS, CellChoice
from gatedrnn.verify.contract import check_choice


@pytest.fixture
def moved(tmp_path, monkeypatch):
    """The file of minGRU outside of the package, which has forgotten its own."""
    words = [word for word in EQUATIONS if word.split(":")[0] == "mingru"]
    for table, keys in ((CELLS, ["mingru"]), (CLASSES, ["mingru"]), (EQUATIONS, words)):
        for key in keys:
            monkeypatch.delitem(table, key)
    file = tmp_path / "own_mingru.py"
    file.write_text(Path(mingru.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    return file


def test_a_cell_that_is_moved_out_is_unknown_and_comes_back_as_a_users_with_the_packages_kernel_and_laws(moved):
    with pytest.raises(ValueError, match="there is no cell 'mingru'; did you mean 'mgu'"):
        CellChoice.parse("mingru")
    layer = cells.MinGRU(3, 4)
    assert layer.runs_on().name.startswith("one linear_scan") and "no kernel" in layer.runs_on().reason
    spec = importlib.util.spec_from_file_location("own_mingru", moved)
    own = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(own)
    assert CELLS["mingru"].layer is own.MinGRU and CELLS["mingru"].single_step is own.MinGRUCell
    layer = CELLS["mingru"].layer(3, 8, batch_first=True)
    assert layer.runs_on().name.startswith("one kernel for gates and scan")
    rows = list(check_choice(CellChoice.parse("mingru"), ("float64",)))
    assert rows and all(row.holds for row in rows)


def layer_of(**members):
    good = {"name": "own", "projections": ("candidate", "gate"), "coefficients": lambda self, v, z: (z.sigmoid(), v)}
    equations = type("Own", (ScanEquations,), good | members)
    return type("OwnLayer", (RecurrentLayer,), {"cell_class": equations})


@pytest.mark.parametrize(
    "members, words",
    [
        ({"projections": "gate"}, r"Own.projections must be a tuple of names"),
        ({"coefficients": lambda self, v: (v, v)}, r"Own.coefficients cannot take its 2 projections \(candidate, "),
        ({"coefficients": lambda self, v, z: v}, r"must return \(decay, drive\) of shapes"),
        ({"coefficients": lambda self, v, z: (z, v[..., :1])}, r"got \[\(2, 3, 5\), \(2, 3, 1\)\]"),
        ({"output": lambda self, state, projected: state[0].sum(-1)}, r"Own.output must return one tensor"),
        ({"states": ("h", "s")}, r"Own: a scan cell has one state, .* take ElementwiseLoopEquations for more"),
    ],
)
def test_a_mistake_is_told_when_the_first_layer_is_made(members, words):
    with pytest.raises((TypeError, ValueError), match=words):
        layer_of(**members)(3, 4)


def test_every_cell_of_the_package_reads_all_its_weights():
    cells_and_variants = [(cell, options) for cell in CELLS.values() for options in ({}, *cell.variants)]
    assert {cell.name: _unread_weights(cell.equations(**options)) for cell, options in cells_and_variants} == {
        name: {} for name in CELLS
    }


def loop(kind, step, **members):
    return type("Own", (kind,), {"name": "own-loop", "projections": ("candidate", "gate"), "step": step} | members)


def some_of(projected, size=4):
    return [x.unflatten(-1, (-1, size))[..., :1].expand(*x.shape[:-1], -1, size).flatten(-2) for x in projected]


UNREAD = {
    "the projection 'gate'": type("Own", (ScanEquations,), {
        "name": "own-scan", "projections": ("candidate", "gate"), "coefficients": lambda self, v, z: (v.sigmoid(), v),
    }),
    "weight_hh": loop(LoopEquations, lambda self, p, s, r: (p[0] + p[1] * s[0],)),
    "weight_hh and bias_hh": loop(LoopEquations, lambda self, p, s, r: (p[0] + p[1] * s[0],), recurrent_bias=True),
    "the rows of weight_hh for 'gate'": loop(
        LoopEquations, lambda self, p, s, r: (p[0] + p[1] + r(s[0], "candidate")[0],)
    ),
    "weight_f": loop(
        ElementwiseLoopEquations, lambda self, p, s, r: (p[0] + p[1] * s[0],), diagonals={"f": Diagonal("gate")}
    ),
    "some rows of the projection 'candidate' and some rows of the projection 'gate'": loop(
        ElementwiseLoopEquations, lambda self, p, s, r: (some_of(p)[0] + some_of(p)[1] * s[0],), block_size=4
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", UNREAD)
def test_a_weight_that_no_equation_reads_is_refused_by_name(what):
    layer = type("OwnLayer", (RecurrentLayer,), {"cell_class": UNREAD[what]})
    with pytest.raises(ValueError, match=f"Own: no equation reads {what}, which would get no gradient"):
        layer(3, 8)


@pytest.mark.parametrize("step", [
    lambda self, p, s, r: (torch.where(p[1] > 1.5, p[0], s[0]),),  # by a comparison alone
    lambda self, p, s, r: (torch.relu(p[0] - 2 + p[1] * s[0]),),  # shut nearly always
    lambda self, p, s, r: (torch.sign(p[0]) * torch.floor(p[1]),),
])  # fmt: skip
def test_a_weight_that_is_read_seldom_or_without_a_gradient_is_read(step):
    type("OwnLayer", (RecurrentLayer,), {"cell_class": loop(ElementwiseLoopEquations, step)})(3, 8)


@pytest.fixture
def registered():
    """Registers a layer of equations for one test."""
    names = []

    def make(equations):
        names.append(equations.name)
        return register(type("OwnLayer", (RecurrentLayer,), {"cell_class": equations}))

    yield make
    for name in names:
        for table in (CELLS, CLASSES, EQUATIONS):
            table.pop(name, None)


def test_channels_that_act_in_blocks_are_the_reason_why_no_kernel_is_generated(registered):
    layer = registered(loop(
        ElementwiseLoopEquations, lambda self, p, s, r: (p[0].unflatten(-1, (-1, 4)).cumsum(-1).flatten(-2) + p[1],),
        block_size=4, name="own-blocks",
    ))  # fmt: skip
    assert layer(3, 8).runs_on()[:2] == (
        "the step loop in torch", "channels act in blocks of 4, and a generated kernel runs each by itself",
    )  # fmt: skip


@pytest.mark.parametrize("second", ["i", "table", "v0", "exp"])
def test_a_rotation_by_an_angle_of_the_input_has_a_kernel_whatever_its_states_are_called(registered, second):
    def step(self, projected, state, recurrent):
        (value, angle), (h, turned) = projected, state
        c, s = torch.cos(angle), torch.sin(angle)
        return 0.9 * (c * h - s * turned) + value, 0.9 * (s * h + c * turned)

    cell = loop(ElementwiseLoopEquations, step, states=("h", second), name=f"own-turn-{second}")
    torch.manual_seed(0)
    layer, x = registered(cell)(3, 8).double(), torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
    assert layer.runs_on().name == "one kernel for all steps, backend native"
    results = []
    for layer.backend in ("auto", "reference"):
        output, last = layer(x)
        gradients = torch.autograd.grad(output.sum() + last[1].sum(), [x, *layer.parameters()])
        results.append([output, *last, *gradients])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_a_variant_that_its_cell_refuses_leaves_the_registry_as_it_was():
    cell = loop(LoopEquations, lambda self, p, s, r: (p[0] + p[1] * r(s[0], "gate")[0],), name="own-variant")
    with pytest.raises(TypeError, match="no_such_option"):
        register(type("OwnLayer", (RecurrentLayer,), {"cell_class": cell}), variants=[{"no_such_option": True}])
    assert not {"own-variant"} & {*CELLS, *CLASSES} and all(not word.startswith("own-variant") for word in EQUATIONS)


def test_a_step_over_gaps_that_fails_is_told_with_the_shapes_of_one_step():
    def step_over(self, gaps, projected, state, recurrent):
        raise RuntimeError("no such state")

    cell = type(
        "Own",
        (GappedLoopEquations,),
        {"name": "own-gaps", "projections": ("candidate", "gate"), "step_over": step_over},
    )
    with pytest.raises(TypeError, match=r"Own.step_over cannot take .* each of shape \(2, 5\): no such state"):
        type("OwnLayer", (RecurrentLayer,), {"cell_class": cell})(3, 4)
