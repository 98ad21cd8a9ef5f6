"""How often intervals hold the truth and verdicts are true, by simulation of `tools/simulate_coverage.py`."""

import importlib.util
import json
from itertools import product
from pathlib import Path

import pytest
from covering import over

ROOT = Path(__file__).parents[3]
SPEC = importlib.util.spec_from_file_location("simulate_coverage", ROOT / "tools" / "simulate_coverage.py")
simulation = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(simulation)
SIZES = {"contenders": simulation.CONTENDERS, "seeds": simulation.SEEDS, "examples": simulation.EXAMPLES}
REPLICATES = {1: 400, 4: 200, 20: 80}
"""By contenders: every pair of them costs as much."""


def assert_intervals_hold_the_truth(contenders: int, seeds: int, examples: int) -> None:
    """Over fewer replicates than the kept table: the bounds are four standard errors wider."""
    replicates = REPLICATES[contenders]
    found = simulation.simulate(contenders, seeds, examples, replicates)
    error = 4 * (0.95 * 0.05 / (replicates * min(contenders, 4))) ** 0.5
    assert found.covered > 0.93 - error
    if contenders > 1:
        assert found.differences_covered > 0.93 - error
        assert found.false_tables < 0.05 + 4 * (0.05 * 0.95 / replicates) ** 0.5


def test_intervals_of_one_contender_hold_the_truth_as_often_as_they_say():
    assert_intervals_hold_the_truth(1, 3, 2000)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@over(**SIZES)
def test_intervals_hold_the_truth_as_often_as_they_say(contenders, seeds, examples):
    assert_intervals_hold_the_truth(contenders, seeds, examples)


def test_the_kept_table_covers_every_size_as_it_should():
    kept = json.loads((ROOT / "results" / "coverage" / "coverage.json").read_text())
    assert [(row["contenders"], row["seeds"], row["examples"]) for row in kept] == list(product(*SIZES.values()))
    shares = [share for row in kept for share in (row["covered"], row["differences_covered"]) if share is not None]
    assert min(shares) >= 0.93 and 0.94 <= sum(shares) / len(shares) <= 0.97
    assert max(row["false_tables"] for row in kept if row["false_tables"] is not None) <= 0.05
    assert all(row["replicates"] == simulation.REPLICATES for row in kept)
