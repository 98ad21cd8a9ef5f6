"""Steps of two source trees are timed in turn; this one is held against itself."""

import json
import re

import pytest
from pages import ROOT

from benchmarks import trees


@pytest.mark.slow
def test_steps_of_two_trees_are_compared_on_each_number_of_threads(monkeypatch, tmp_path):
    key = ("ETTh1", "mingru")
    monkeypatch.setattr(trees, "MOVED", {key: trees.MOVED[key]})
    asked = [str(tmp_path / "steps.json"), f"one={ROOT}", f"other={ROOT}", "--rounds", "2", "--seconds", "0.01"]
    trees.app([*asked, "--only", "ETTh1"], result_action="return_value")
    found = json.loads((tmp_path / "steps.json").read_text())
    assert set(found["trees"]) == {"one", "other"} and set(found["threads"]) == {"1", "2"}
    for (row,) in found["threads"].values():
        assert (row["model"], row["cell"]) == key and row["floor_ms"] > row["products_ms"][0] > 0
        assert row["other"]["new_over"] == [1, 1, 1] and 0.2 < row["one"]["new_over"][0] < 5
        assert row["one"]["over_floor"] > 1


def test_what_is_no_checkout_or_no_model_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="no checkout of gatedrnn"):
        trees.Tree("other", tmp_path, 1)
    with pytest.raises(SystemExit, match="there is no model ETTh2"):
        trees.compare_trees(tmp_path / "steps.json", f"one={ROOT}", only=("ETTh1", "ETTh2"))


def test_a_worker_takes_from_its_tree_what_every_version_of_the_package_has():
    """Other modules of the package are renamed and moved."""
    read = {"gatedrnn"}
    for name in ("tree_worker", "contenders", "sizes", "standards", "steps"):
        text = (ROOT / "benchmarks" / f"{name}.py").read_text()
        read |= set(re.findall(r"^(?:from|import) (gatedrnn[.\w]*)", text, re.MULTILINE))
        ours = set(re.findall(r"^from benchmarks\.(\w+)", text, re.MULTILINE))
        assert ours <= {"contenders", "sizes", "standards", "steps"}
    assert read == {"gatedrnn", "gatedrnn.models", "gatedrnn.registry"}
