"""Steps of two source trees are timed in turn; this one is held against itself."""

import json

import pytest
from pages import ROOT

from benchmarks import trees


@pytest.mark.slow
def test_steps_of_two_trees_are_compared_on_each_number_of_threads(monkeypatch, tmp_path):
    key = ("ETTh1", "mingru")
    monkeypatch.setattr(trees, "MOVED", {key: trees.MOVED[key]})
    monkeypatch.setattr(trees, "ROUNDS", 2)
    monkeypatch.setattr(trees, "ROUND", 0.01)
    trees.main([str(tmp_path / "steps.json"), f"one={ROOT}", f"other={ROOT}"])
    found = json.loads((tmp_path / "steps.json").read_text())
    assert set(found["trees"]) == {"one", "other"} and set(found["threads"]) == {"1", "2"}
    for (row,) in found["threads"].values():
        assert (row["model"], row["cell"]) == key and row["floor_ms"] > row["products_ms"][0] > 0
        assert row["other"]["new_over"] == [1, 1, 1] and 0.2 < row["one"]["new_over"][0] < 5
        assert row["one"]["over_floor"] > 1


def test_what_is_no_checkout_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="no checkout of gatedrnn"):
        trees.Tree("other", tmp_path, 1)
