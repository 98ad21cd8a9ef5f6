"""What is kept names what made it, and a kept ratio lies between its quartiles; what is older is named here, or in
results/README.md.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

RESULTS = Path(__file__).parents[3] / "results"
BEFORE_COMMITS = "2026-11-26"
"""Records of days before name no commit."""
COMMITLESS = {"bench", "bench/drop-in", "bench/family", "bench/forecast", "bench/training"}
"""Benchmarks of those days, when a ratio was that of two medians. What is measured again has a commit, and leaves."""
KERNELS, MARK = "2026-11-24", "kernels before 2781c3d"
"""Records of days before are of other kernels; those of LSTM layers are torch's, then and now."""
ROWS = {
    name: line
    for line in (RESULTS / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| `")
    for name in re.findall(r"`(.+?)`", line.split("|")[1])
}  # fmt: skip
"""Of the table of commands, by folder or file."""


def measured(path: Path) -> dict[str, Any]:
    """Date and environment of a record; empty where it has neither."""
    record = json.loads(path.read_text())
    held = record if isinstance(record, dict) else {}
    return held if "environment" in held else held.get("measured", {})


def name_of(path: Path) -> str:
    return path.relative_to(RESULTS).as_posix()


MADE_HERE = [path for path in sorted(RESULTS.rglob("*.json")) if "environment" in measured(path)]
BENCHMARKS = [path for path in MADE_HERE if path.name == "bench.json"]


@pytest.mark.parametrize("path", MADE_HERE, ids=name_of)
def test_a_kept_record_names_processor_versions_and_commit(path: Path) -> None:
    found = measured(path)["environment"]
    assert found["processor"] and {"torch", "numba"} <= found["versions"].keys()
    if measured(path)["date"] >= BEFORE_COMMITS:
        assert re.fullmatch(r"[0-9a-f]{40}\+?", found["commit"])


@pytest.mark.parametrize("path", BENCHMARKS, ids=name_of)
def test_a_kept_ratio_lies_between_its_quartiles(path: Path) -> None:
    rows = json.loads(path.read_text())["ratios"]
    outside = [row for row in rows if not row["low"] <= row["ratio"] <= row["high"]]
    assert outside == [] or name_of(path.parent) in COMMITLESS


def test_a_benchmark_without_its_commit_is_an_old_one() -> None:
    without = {name_of(path.parent) for path in BENCHMARKS if "commit" not in measured(path)["environment"]}
    assert without == COMMITLESS


@pytest.mark.parametrize("path", MADE_HERE, ids=name_of)
def test_a_record_of_earlier_kernels_says_so_beside_its_command(path: Path) -> None:
    """Measured again, it names its commit, and loses the mark."""
    folder = name_of(path.parent)
    own = ROWS.get(name_of(path)) or ROWS.get(folder)
    row = own or next(row for name, row in ROWS.items() if "and so on" in row and name.startswith(folder.split("/")[0]))
    run = path.with_name("result.json")
    by_torch = run.exists() and json.loads(run.read_text())["cell"] == "lstm"
    older = measured(path)["date"] < KERNELS and "commit" not in measured(path)["environment"]
    assert (MARK in row) == (older and not by_torch)
