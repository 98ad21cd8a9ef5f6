"""Means and intervals: over seeds, and no narrower than the sampling error of the test split."""

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any, TypeAlias, TypedDict

import numpy as np
from scipy.stats import t as student

Z = NormalDist().inv_cdf(0.975)
FEWEST_SEEDS = 3
"""Below that nothing is said of a difference: two seeds give Student's t one degree of freedom."""
DRAWS = 2000
FEWEST_DOCUMENTS = 5

Interval: TypeAlias = tuple[float, float]
Runs: TypeAlias = list[dict[str, Any]]
"""Results of runs of one contender, in the order of seeds."""
Rows: TypeAlias = Mapping[str, int]
"""Of each split whose score is a share of its rows."""


class Estimate(TypedDict):
    """A mean with its 95 % interval; the interval is None where one run gives none."""

    mean: float
    low: float | None
    high: float | None
    runs: int


def score_of(runs: Runs, split: str, score: str, rows: Rows) -> Estimate:
    """The mean score of a contender's runs, with a 95 % interval over other seeds and another test split of the kind.

    The first is Student's t over the runs. The second, which other seeds on the same split say nothing about, is
    Wilson's interval for an accuracy, and documents drawn anew for a perplexity (nothing for fewer than 5 documents).
    The distances of both from the mean add up as independent errors do, by squares. An accuracy's interval lies within
    [0, 1].
    """
    values = [run[f"{split}_{score}"] for run in runs]
    if score == "accuracy":
        return estimate(values, _wilson(_mean(values), rows[split]), (0.0, 1.0))
    return estimate(values, _perplexity_over_documents(runs, split))


def difference_of(runs: Runs, baseline: Runs, split: str, score: str, rows: Rows) -> Estimate:
    """The mean difference seed by seed, with an interval as in `score_of`; that of the test split is Newcombe's for
    accuracies, and documents drawn anew, the same for both, for perplexities.

    Which rows a run got right is not recorded, so rows are not paired: as two models err on much the same rows, the
    interval of a difference of accuracies is too wide rather than too narrow.
    """
    both = [[run[f"{split}_{score}"] for run in own] for own in (runs, baseline)]
    differences = [value - other for value, other in zip(*both, strict=True)]
    if score == "accuracy":
        return estimate(differences, _newcombe(_mean(both[0]), _mean(both[1]), rows[split]), (-1.0, 1.0))
    return estimate(differences, _perplexity_over_documents(runs, split, baseline))


def estimate(
    values: list[float], sampling: Interval | None = None, limits: Interval = (-math.inf, math.inf)
) -> Estimate:
    """Mean and 95 % interval by Student's t over independent runs, widened by the `sampling` interval of the same mean
    and cut off at `limits`."""
    count, mean = len(values), _mean(values)
    if count < 2:
        return {"mean": mean, "low": None, "high": None, "runs": count}
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    half = float(student.ppf(0.975, count - 1)) * spread / math.sqrt(count)
    low, high = sampling or (mean, mean)
    below, above = math.hypot(half, max(0.0, mean - low)), math.hypot(half, max(0.0, high - mean))
    return {"mean": mean, "low": max(limits[0], mean - below), "high": min(limits[1], mean + above), "runs": count}


def over_documents(runs: Runs, baseline: Runs) -> Estimate:
    """How far a perplexity lies above the baseline's, as a part of it, with a 95 % interval over test documents.

    Documents are drawn anew with replacement, the same for both, and their losses averaged over runs: what another
    text of the kind would have given, where `difference_of` is about other seeds too. No interval for fewer than 5
    documents.
    """
    tokens = np.array(runs[0]["documents"]["test"]["tokens"], dtype=np.float64)
    nats = [np.mean([run["documents"]["test"]["nats"] for run in own], axis=0) for own in (runs, baseline)]
    apart = nats[0] - nats[1]
    whole = math.expm1(apart.sum() / tokens.sum())
    if len(tokens) < FEWEST_DOCUMENTS:
        return {"mean": whole, "low": None, "high": None, "runs": len(runs)}
    draws = _draws(len(tokens))
    low, high = _quantiles(np.expm1(apart[draws].sum(-1) / tokens[draws].sum(-1)))
    return {"mean": whole, "low": low, "high": high, "runs": len(runs)}


def tells(difference: Estimate) -> bool:
    """Whether there are seeds enough to say anything of a difference."""
    return difference["runs"] >= FEWEST_SEEDS


def excludes_zero(difference: Estimate) -> bool:
    """Whether there are seeds enough, and the interval lies wholly on one side of zero."""
    low, high = difference["low"], difference["high"]
    return tells(difference) and low is not None and high is not None and (low > 0 or high < 0)


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def _wilson(share: float, rows: int) -> Interval:
    """The 95 % score interval of a share of `rows` independent rows; within [0, 1], and never without width.

    Steps of one row are not independent of each other, so that `rows` counts rows where steps have labels: a row's own
    share varies no more than one label would.

    Reference: Wilson 1927, Journal of the American Statistical Association 22, 209-212.
    """
    centre = (share + Z**2 / (2 * rows)) / (1 + Z**2 / rows)
    half = Z / (1 + Z**2 / rows) * math.sqrt(share * (1 - share) / rows + (Z / (2 * rows)) ** 2)
    return centre - half, centre + half


def _newcombe(share: float, other: float, rows: int) -> Interval:
    """The 95 % hybrid score interval of `share` - `other`, both of as many rows, from the Wilson interval of each.

    Reference: Newcombe 1998, Statistics in Medicine 17, 873-890, method 10.
    """
    (low, high), (other_low, other_high) = _wilson(share, rows), _wilson(other, rows)
    below, above = math.hypot(share - low, other_high - other), math.hypot(high - share, other - other_low)
    return share - other - below, share - other + above


def _perplexity_over_documents(runs: Runs, split: str, baseline: Runs | None = None) -> Interval | None:
    """The 95 % bootstrap interval of a mean perplexity, or of its difference from a baseline's, over documents."""
    tokens = np.array(runs[0]["documents"][split]["tokens"], dtype=np.float64)
    if len(tokens) < FEWEST_DOCUMENTS:
        return None
    draws = _draws(len(tokens))
    counted = tokens[draws].sum(-1)

    def drawn(own: Runs) -> np.ndarray:
        nats = np.array([run["documents"][split]["nats"] for run in own])
        return np.exp(np.minimum(nats[:, draws].sum(-1) / counted, 700.0)).mean(0)

    return _quantiles(drawn(runs) if baseline is None else drawn(runs) - drawn(baseline))


def _draws(count: int) -> np.ndarray:
    """Documents drawn anew with replacement, (draws, count); the same every time.

    Reference: Efron 1979, Annals of Statistics 7, 1-26.
    """
    return np.random.default_rng(0).integers(0, count, (DRAWS, count))


def _quantiles(drawn: np.ndarray) -> Interval:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)
