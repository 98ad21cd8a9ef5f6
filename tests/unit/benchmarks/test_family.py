"""Every cell of the family, and layers of other libraries that are held to themselves."""

import pytest
import torch
from small_bench import SIZES, found_by

from benchmarks import family as of_family
from benchmarks.layers import TORCHS_LSTM, products_of
from gatedrnn.registry import CELLS

SOME = ("mingru", "slstm", "block-orthogonal")


@pytest.mark.parametrize("cells", [SOME, pytest.param(CELLS, marks=pytest.mark.slow)])
def test_every_cell_of_the_family_stands_beside_its_projection_and_torchs_lstm(cells, monkeypatch, timed_once):
    monkeypatch.setattr(of_family, "OTHERS", ())
    found, names = found_by(of_family.family, SIZES, tuple(cells), 0.5), {*cells, *of_family.FURTHER}
    wanted = {(name, other) for name in names for other in (products_of(name), TORCHS_LSTM)}
    assert not found.wrong and {(row.numerator, row.denominator) for row in found.ratios} == wanted
    counted = {row.contender: row.value for row in found.counts}
    assert counted.keys() == names and counted["mingru"] == 2 * 4 * (4 + 1)


def test_a_layer_of_another_library_is_held_to_itself_and_runs_a_part(monkeypatch, timed_once):
    monkeypatch.setattr(of_family, "OTHER_STEPS", 2)
    kept = of_family.Other("mingru", "theirs", of_family.TRANSFORMERS, lambda width: torch.nn.Linear(width, width))
    monkeypatch.setattr(of_family, "OTHERS", (kept,))
    found = found_by(of_family.family, SIZES, ("mingru",), 0.1)
    (row,) = [row for row in found.timings if row.contender == "theirs"]
    assert row.times == 3.0 and not found.wrong
    assert ("theirs", "mingru") in {(row.numerator, row.denominator) for row in found.ratios}
