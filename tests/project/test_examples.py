"""The examples do what they say, as a user would call them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gatedrnn.study.suite import read_suite

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(folder: Path, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / "own_cell.py"), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_cell_of_ones_own_takes_fewer_than_30_lines():
    assert len((EXAMPLES / "own_cell.py").read_text().splitlines()) < 30


@pytest.mark.slow
def test_a_cell_of_ones_own_is_verified_in_every_way_of_running(tmp_path):
    assert "checks hold" in run(tmp_path, "verify", "leaky-average", "--dtypes", "float64")
    record = json.loads((tmp_path / "runs" / "verify.json").read_text())
    assert record["passed"] and {"whole sequence", "step by step", "packed, sorted", "resets"} <= {
        row["mode"] for row in record["rows"] if row["cell"] == "leaky-average"
    }


def test_a_cell_of_ones_own_is_described(tmp_path):
    said = run(tmp_path, "describe", "leaky-average", "--input-size", "3", "--hidden-size", "4")
    assert "32" in said and "h = (1 - r) * h + r * tanh(W_v x)" in said and "one kernel for gates and scan" in said


@pytest.mark.slow
def test_a_cell_of_ones_own_is_compared_in_processes_of_their_own(tmp_path):
    said = run(
        tmp_path, "compare", "--cells", "mingru", "leaky-average", "--task", "digits", "--epochs", "1", "--seeds", "0",
        "--hidden-size", "16", "--jobs", "2",
    )  # fmt: skip
    assert "leaky-average-params" in said
    results = json.loads((tmp_path / "runs" / "compare-digits" / "results.json").read_text())
    assert [row["name"] for row in results["contenders"]] == ["mingru", "leaky-average-layers", "leaky-average-params"]


@pytest.mark.parametrize("name", ["suite.yaml", "suite-of-files.yaml"])
def test_an_example_of_a_suite_is_accepted_with_a_folder_for_each_task(name):
    suite = read_suite(EXAMPLES / name, threads=1)
    tasks = yaml.safe_load((EXAMPLES / name).read_text())["tasks"]
    assert list(suite) == list(tasks)
    for folder, settings in suite.items():
        assert settings.data.task == (tasks[folder] or {}).get("task", folder)
