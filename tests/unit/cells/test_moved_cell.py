"""A cell is one file: moved out of the package it leaves no trace, and comes back as a user's, its kernel included."""

import importlib.util
from pathlib import Path

import pytest
import torch

from gatedrnn import cells
from gatedrnn.cells import mingru
from gatedrnn.ops.cells import CLASSES, EQUATIONS
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


def test_a_cell_that_is_moved_out_is_unknown_and_its_class_runs_without_a_kernel(moved):
    with pytest.raises(ValueError, match="there is no cell 'mingru'; did you mean 'mgu'"):
        CellChoice.parse("mingru")
    layer = cells.MinGRU(3, 4)
    assert layer.runs_on().name.startswith("one linear_scan") and "no kernel" in layer.runs_on().reason


def test_the_same_file_is_a_users_cell_with_the_packages_kernel_bits_and_laws(moved):
    spec = importlib.util.spec_from_file_location("own_mingru", moved)
    own = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(own)
    assert CELLS["mingru"].layer is own.MinGRU and CELLS["mingru"].single_step is own.MinGRUCell
    layer = CELLS["mingru"].layer(3, 8, batch_first=True)
    assert layer.runs_on().name.startswith("one kernel for gates and scan")
    rows = list(check_choice(CellChoice.parse("mingru"), ("float64",)))
    assert rows and all(row.holds for row in rows)
    x = torch.randn(2, 20, 3)
    reference = own.MinGRU(3, 8, batch_first=True)
    reference.load_state_dict(layer.state_dict())
    reference.backend = "reference"
    torch.testing.assert_close(layer(x)[0], reference(x)[0])
