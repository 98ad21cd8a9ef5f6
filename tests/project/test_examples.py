"""The examples do what they say, as a user would call them."""

import json
import runpy
import subprocess
import sys

import pytest
import yaml
from pages import ROOT

from gatedrnn.study.suite import read_suite

EXAMPLES = ROOT / "examples"
OWN = EXAMPLES / "own_cell.py"


def test_a_cell_of_ones_own_takes_fewer_than_30_lines():
    assert len(OWN.read_text().splitlines()) < 30


@pytest.mark.usefixtures("only_our_cells")
def test_a_cell_of_ones_own_is_described(monkeypatch, capsys):
    wanted = ["describe", "leaky-average", "--input-size", "3", "--hidden-size", "4"]
    monkeypatch.setattr(sys, "argv", ["own_cell.py", *wanted])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(OWN), run_name="__main__")
    said = capsys.readouterr().out
    assert not stop.value.code and "32" in said
    assert "h = (1 - r) * h + r * tanh(W_v x)" in said and "one kernel for gates and scan" in said


@pytest.mark.slow
def test_a_cell_of_ones_own_is_compared_in_processes_of_their_own(tmp_path):
    asked = "--cells mingru leaky-average --task digits --epochs 1 --seeds 0 --hidden-size 16 --jobs 2"
    subprocess.run([sys.executable, OWN, "compare", *asked.split()], cwd=tmp_path, check=True)
    results = json.loads((tmp_path / "runs" / "compare-digits" / "results.json").read_text())
    assert [row["name"] for row in results["contenders"]] == ["mingru", "leaky-average-layers", "leaky-average-params"]


def test_an_example_of_a_suite_is_accepted_with_a_folder_for_each_task():
    for path in EXAMPLES.glob("suite*.yaml"):
        suite, tasks = read_suite(path, threads=1), yaml.safe_load(path.read_text())["tasks"]
        assert list(suite) == list(tasks) != []
        for folder, settings in suite.items():
            assert settings.data.task == (tasks[folder] or {}).get("task", folder)
