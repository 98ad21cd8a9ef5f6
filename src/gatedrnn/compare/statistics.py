"""Means and intervals over seeds."""

import math
from typing import TypedDict

from scipy.stats import t as student

NO_WIDTH = 1e-9  # two equal differences of accuracies may differ by a rounding


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


def excludes_zero(difference: Estimate) -> bool:
    """Whether the interval lies wholly on one side of zero.

    An interval without width is no evidence: two runs on a small test set may differ by the same number of examples.
    """
    low, high = difference["low"], difference["high"]
    return low is not None and high is not None and high - low > NO_WIDTH and (low > 0 or high < 0)
