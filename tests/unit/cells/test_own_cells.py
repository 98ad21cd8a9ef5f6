"""A cell is one file: moved out of the package it leaves no trace, and is a user's cell, whose mistakes are told."""

import importlib.util
from pathlib import Path

import pytest

from gatedrnn import RecurrentLayer, cells
from gatedrnn.cells import mingru
from gatedrnn.equations import ScanEquations
from gatedrnn.kinds.programs import CLASSES, EQUATIONS
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
    ],
)
def test_a_mistake_is_told_when_the_first_layer_is_made(members, words):
    with pytest.raises(TypeError, match=words):
        layer_of(**members)(3, 4)
