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


MADE_HERE = {path: found for path in sorted(RESULTS.rglob("*.json")) if "environment" in (found := measured(path))}
BENCHMARKS = {name_of(path.parent): json.loads(path.read_text()) for path in MADE_HERE if path.name == "bench.json"}


def row_of(path: Path) -> str:
    """Of the table of commands."""
    own = ROWS.get(name_of(path)) or ROWS.get(name_of(path.parent))
    first = name_of(path).split("/")[0]
    return own or next(row for name, row in ROWS.items() if "and so on" in row and name.startswith(f"{first}/"))


def of_earlier_kernels(path: Path) -> bool:
    run = path.with_name("result.json")
    by_torch = run.exists() and json.loads(run.read_text())["cell"] == "lstm"
    return not by_torch and MADE_HERE[path]["date"] < KERNELS and "commit" not in MADE_HERE[path]["environment"]


def test_a_kept_record_names_processor_and_versions_and_since_there_are_some_its_commit() -> None:
    assert len(MADE_HERE) > 40
    for path, found in MADE_HERE.items():
        here = found["environment"]
        assert here["processor"] and {"torch", "numba"} <= here["versions"].keys(), path
        if found["date"] >= BEFORE_COMMITS:
            assert re.fullmatch(r"[0-9a-f]{40}\+?", here["commit"]), path


def test_a_record_of_earlier_kernels_says_so_beside_its_command() -> None:
    """Measured again, it names its commit, and loses the mark."""
    assert [name_of(path) for path in MADE_HERE if (MARK in row_of(path)) != of_earlier_kernels(path)] == []


@pytest.mark.parametrize("folder", BENCHMARKS)
def test_a_kept_ratio_lies_between_its_quartiles(folder: str) -> None:
    outside = [row for row in BENCHMARKS[folder]["ratios"] if not row["low"] <= row["ratio"] <= row["high"]]
    assert outside == [] or folder in COMMITLESS


def test_a_benchmark_without_its_commit_is_an_old_one() -> None:
    found = {folder for folder, record in BENCHMARKS.items() if "commit" not in record["measured"]["environment"]}
    assert found == COMMITLESS
