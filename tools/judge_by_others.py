"""The pairs of kept comparisons, judged by rliable, baycomp and deep-significance beside the verdict of the record.

    python tools/judge_by_others.py OUT.json RESULTS.json [RESULTS.json ...]

They need versions of their own: an environment with `rliable baycomp deepsig 'pandas<3'`, without this package.

What each sees, and when its word is "better" (or "worse", the other way round):
    rliable            test scores of all seeds; the 95 % bootstrap interval of P(improvement) is above 1/2
    baycomp            test scores seed by seed as if they were folds; P(better by more than the margin) > 0.95, and
                       "equivalent" where P(within the margin) > 0.95
    deep-significance  test scores of all seeds; almost stochastic order, eps_min < 0.2, corrected for all pairs
    ours               outcomes of every test example too; corrected for all pairs
"""

import json
import sys
from collections import Counter
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import baycomp
import numpy as np
from deepsig import aso
from rliable import library, metrics

Array: TypeAlias = np.ndarray
OPPOSITE = {"better": "worse", "worse": "better"}
_SURE, DOMINANT, REPETITIONS = 0.95, 0.2, 2000
NAMES = ("ours", "rliable", "baycomp", "deep-significance")


def by_rliable(first: Array, second: Array) -> str:
    """Whether the interval of P(first > second) leaves 1/2 out."""
    scores = {"pair": (first[:, None], second[:, None])}
    _, interval = library.get_interval_estimates(
        scores, lambda x, y: np.array([metrics.probability_of_improvement(x, y)]), reps=REPETITIONS,
        random_state=np.random.RandomState(0),
    )  # fmt: skip
    low, high = interval["pair"][:, 0]
    return "better" if low > 0.5 else "worse" if high < 0.5 else "cannot tell"


def by_baycomp(first: Array, second: Array, margin: float) -> str:
    """The Bayesian correlated t-test with a region of practical equivalence."""
    if np.array_equal(first, second):
        return "equivalent"
    better, equivalent, worse = baycomp.two_on_single(first, second, rope=margin)
    probabilities = {"better": better, "equivalent": equivalent, "worse": worse}
    return next((word for word, p in probabilities.items() if p > _SURE), "cannot tell")


def by_deep_significance(first: Array, second: Array, pairs: int) -> str:
    """Almost stochastic order, either way."""
    options = {"num_comparisons": pairs, "show_progress": False, "seed": 0}
    if aso(first, second, **options) < DOMINANT:
        return "better"
    return "worse" if aso(second, first, **options) < DOMINANT else "cannot tell"


def judged(results: dict[str, Any]) -> list[dict[str, Any]]:
    """One line a pair of contenders, all words of it."""
    metric = results["metric"]["name"]
    if metric != "accuracy":
        raise SystemExit(f"{results['task']}: accuracies alone, got {metric}")
    scores = {row["name"]: np.array([run[f"test_{metric}"] for run in row["runs"]]) for row in results["contenders"]}
    ours = {(pair["contender"], pair["other"]): pair["verdict"] for pair in results["pairs"]}
    pairs = list(combinations(scores, 2))
    lines = []
    for first, second in pairs:
        word = ours.get((first, second)) or OPPOSITE.get(ours[second, first], ours[second, first])
        a, b = scores[first], scores[second]
        words = (word, by_rliable(a, b), by_baycomp(a, b, results["margin"]), by_deep_significance(a, b, len(pairs)))
        lines.append(
            {
                "first": first,
                "second": second,
                "difference": a.mean() - b.mean(),
                **dict(zip(NAMES, words, strict=True)),
            }
        )
    return lines


def main(out: str, files: list[str]) -> None:
    tables = {}
    for file in files:
        results = json.loads(Path(file).read_text())
        lines = judged(results)
        counts = {name: dict(Counter(line[name] for line in lines)) for name in NAMES}
        differ = [line for line in lines if len({line[name] for name in NAMES}) > 1]
        seeds = len(results["contenders"][0]["runs"])
        tables[results["task"]] = {
            "seeds": seeds, "examples": results["data"]["examples"]["test"], "counts": counts, "pairs": lines,
        }  # fmt: skip
        print(f"{results['task']}: {len(lines)} pairs, {seeds} seeds, {len(differ)} with different words", counts)
    versions = {name: version(name) for name in ("rliable", "baycomp", "deepsig", "numpy", "scipy")}
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(json.dumps({"versions": versions, "tables": tables}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
