"""Means and intervals, over seeds and over documents."""

import math
from typing import Any, TypedDict

import numpy as np
from scipy.stats import t as student

NO_WIDTH = 1e-9  # two equal differences of accuracies may differ by a rounding
FEW_EXAMPLES = 0.01  # part of a test set by which two runs may happen to differ alike
DRAWS = 2000
FEWEST_DOCUMENTS = 5


class Estimate(TypedDict):
    """A mean with its 95 % interval; the interval is None where one run gives none."""

    mean: float
    low: float | None
    high: float | None
    runs: int


def estimate(values: list[float]) -> Estimate:
    """Mean and 95 % interval by Student's t over independent runs."""
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return {"mean": mean, "low": None, "high": None, "runs": count}
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    half = float(student.ppf(0.975, count - 1)) * spread / math.sqrt(count)
    return {"mean": mean, "low": mean - half, "high": mean + half, "runs": count}


def paired_difference(values: list[float], baseline: list[float]) -> Estimate:
    """Mean and 95 % interval of the differences seed by seed; both lists in the order of seeds."""
    return estimate([value - other for value, other in zip(values, baseline, strict=True)])


def over_documents(runs: list[dict[str, Any]], baseline: list[dict[str, Any]]) -> Estimate:
    """How far a perplexity lies above the baseline's, as a part of it, with a 95 % interval over test documents.

    Documents are drawn anew with replacement, the same for both, and their losses averaged over runs: what another
    text of the kind would have given, where `paired_difference` says what other seeds would have given. No interval
    for fewer than 5 documents.
    """
    tokens = np.array(runs[0]["documents"]["test"]["tokens"], dtype=np.float64)
    nats = [np.mean([run["documents"]["test"]["nats"] for run in own], axis=0) for own in (runs, baseline)]
    apart = nats[0] - nats[1]

    def ratio(chosen: np.ndarray) -> float:
        return math.expm1(apart[chosen].sum() / tokens[chosen].sum())

    count = len(tokens)
    whole = ratio(np.arange(count))
    if count < FEWEST_DOCUMENTS:
        return {"mean": whole, "low": None, "high": None, "runs": len(runs)}
    draws = np.random.default_rng(0).integers(0, count, (DRAWS, count))
    low, high = np.quantile([ratio(chosen) for chosen in draws], [0.025, 0.975])
    return {"mean": whole, "low": float(low), "high": float(high), "runs": len(runs)}


def excludes_zero(difference: Estimate) -> bool:
    """Whether the interval lies wholly on one side of zero.

    An interval without width is no evidence of a small difference: two runs on a small test set may differ by the same
    number of examples.
    """
    low, high = difference["low"], difference["high"]
    if low is None or high is None or (high - low <= NO_WIDTH and abs(difference["mean"]) <= FEW_EXAMPLES):
        return False
    return low > 0 or high < 0
