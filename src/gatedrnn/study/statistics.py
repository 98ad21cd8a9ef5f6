"""Means and intervals: over seeds, and no narrower than the sampling error of the test split."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from scipy.stats import t as student

Z = NormalDist().inv_cdf(0.975)
FEWEST_SEEDS = 3
"""For a verdict on a difference: two seeds give Student's t one degree of freedom."""
DRAWS = 2000
FEWEST_DOCUMENTS = 5

Interval: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class Sample:
    """Scores of one contender's runs on one split, in the order of seeds."""

    values: Sequence[float]
    rows: int | None = None
    """Of the split, if the score is a share of its rows (an accuracy)."""
    tokens: Sequence[int] = ()
    """Of each document, if the score is a perplexity."""
    nats: Sequence[Sequence[float]] = ()
    """The loss of each document, one sequence a run."""

    @property
    def mean(self) -> float:
        """Over runs."""
        return math.fsum(self.values) / len(self.values)


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval; the interval is None where one run gives none."""

    mean: float
    low: float | None
    high: float | None
    runs: int


def score_of(sample: Sample) -> Estimate:
    """The mean score of a contender's runs, with a 95 % interval over other seeds and another test split of the kind.

    The first is Student's t over the runs. The second, which other seeds on the same split say nothing about, is
    Wilson's interval for an accuracy, and a bootstrap over documents for a perplexity (no interval for fewer than 5
    documents). The distances of both from the mean are independent errors: their squares add up. An accuracy's interval
    lies within [0, 1].
    """
    if sample.rows is not None:
        return estimate(sample.values, _wilson(sample.mean, sample.rows), (0.0, 1.0))
    return estimate(sample.values, _perplexity_over_documents(sample))


def difference_of(sample: Sample, baseline: Sample) -> Estimate:
    """The mean difference seed by seed, with an interval as in `score_of`; that of the test split is Newcombe's for
    accuracies, and a bootstrap over documents, the same for both, for perplexities.

    Which rows a run got right is not recorded, so rows are not paired: as two models err on much the same rows, the
    interval of a difference of accuracies is too wide rather than too narrow.
    """
    differences = [value - other for value, other in zip(sample.values, baseline.values, strict=True)]
    if sample.rows is not None:
        return estimate(differences, _newcombe(sample.mean, baseline.mean, sample.rows), (-1.0, 1.0))
    return estimate(differences, _perplexity_over_documents(sample, baseline))


def estimate(
    values: Sequence[float], sampling: Interval | None = None, limits: Interval = (-math.inf, math.inf)
) -> Estimate:
    """Mean and 95 % interval by Student's t over independent runs, widened by the `sampling` interval of the same mean
    and cut off at `limits`."""
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Estimate(mean, None, None, count)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    half = float(student.ppf(0.975, count - 1)) * spread / math.sqrt(count)
    low, high = sampling or (mean, mean)
    below, above = math.hypot(half, max(0.0, mean - low)), math.hypot(half, max(0.0, high - mean))
    return Estimate(mean, max(limits[0], mean - below), min(limits[1], mean + above), count)


def over_documents(sample: Sample, baseline: Sample) -> Estimate:
    """A perplexity over the baseline's, minus one, with a 95 % interval over test documents.

    Documents are drawn with replacement, the same for both, and their losses averaged over runs: the result on another
    text of the kind, where `difference_of` covers other seeds too. No interval for fewer than 5 documents.
    """
    tokens = np.array(sample.tokens, dtype=np.float64)
    nats = [np.mean(own.nats, axis=0) for own in (sample, baseline)]
    apart = nats[0] - nats[1]
    whole, runs = math.expm1(apart.sum() / tokens.sum()), len(sample.nats)
    if len(tokens) < FEWEST_DOCUMENTS:
        return Estimate(whole, None, None, runs)
    draws = _draws(len(tokens))
    low, high = _quantiles(np.expm1(apart[draws].sum(-1) / tokens[draws].sum(-1)))
    return Estimate(whole, low, high, runs)


def tells(difference: Estimate) -> bool:
    """Whether there are enough seeds for a verdict on a difference."""
    return difference.runs >= FEWEST_SEEDS


def excludes_zero(difference: Estimate) -> bool:
    """Whether there are enough seeds, and the whole interval is on one side of zero."""
    low, high = difference.low, difference.high
    return tells(difference) and low is not None and high is not None and (low > 0 or high < 0)


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


def _perplexity_over_documents(sample: Sample, baseline: Sample | None = None) -> Interval | None:
    """The 95 % bootstrap interval of a mean perplexity, or of its difference from a baseline's, over documents."""
    tokens = np.array(sample.tokens, dtype=np.float64)
    if len(tokens) < FEWEST_DOCUMENTS:
        return None
    draws = _draws(len(tokens))
    counted = tokens[draws].sum(-1)

    def drawn(own: Sample) -> np.ndarray:
        return np.exp(np.minimum(np.array(own.nats)[:, draws].sum(-1) / counted, 700.0)).mean(0)

    return _quantiles(drawn(sample) if baseline is None else drawn(sample) - drawn(baseline))


def _draws(count: int) -> np.ndarray:
    """Indices of documents drawn with replacement, (draws, count); the same every time.

    Reference: Efron 1979, Annals of Statistics 7, 1-26.
    """
    return np.random.default_rng(0).integers(0, count, (DRAWS, count))


def _quantiles(drawn: np.ndarray) -> Interval:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)
