"""Intervals and verdicts over two sources of chance: other seeds, and another test split of the same kind.

A score is a mean over examples of a mean over runs. Its variance is that of runs, divided by their number, plus that of
examples, divided by theirs; contenders are tested on the same examples, so that the second is paired in a difference.

    v_s   variance of a contender's scores over seeds; the larger of its own and the one pooled over all contenders,
          since two or three seeds say little
    v_w   the part of it that comes of single examples, which the variance of examples has already
    V_s = (v_s - v_w) / runs,   V_e = v_e / examples

An interval adds the distances of both sources as errors that do not depend on each other:
sqrt((t_s sqrt(V_s))^2 + d_e^2), with Student's t over the seeds of all contenders, and d_e of Wilson's interval for a
share. Intervals of pairs hold for all pairs of a table together, and a verdict is what its interval says.
`tests/unit/study/test_statistics.py` simulates how often they cover the truth.

References: Zou and Donner 2008, Statistics in Medicine 27, 1693-1702 (distances that add up); Wilson 1927, Journal of
the American Statistical Association 22, 209-212; Hothorn, Bretz and Westfall 2008, Biometrical Journal 50, 346-363
(simultaneous intervals by the maximum of correlated differences); Hsu 1996, Multiple Comparisons (with the best).
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import ndtr, stdtrit

from gatedrnn.training.result import Score

Array: TypeAlias = np.ndarray
HIGHER_IS_BETTER: tuple[Score, ...] = ("accuracy", "correlation")
Verdict: TypeAlias = Literal["better", "equivalent", "worse", "cannot tell"]
ERROR = 0.05
"""The share of tables with a false verdict, at most."""
BOUNDS: dict[Score, tuple[float, float]] = {
    "accuracy": (0.0, 1.0), "correlation": (-math.inf, 1.0), "perplexity": (1.0, math.inf), "error": (0.0, math.inf),
}  # fmt: skip
MARGINS: dict[Score, float] = {"accuracy": 0.005, "correlation": 0.01, "perplexity": 0.01, "error": 0.01}
"""Differences that do not matter, unless another margin is given: half a point; a hundredth of what is 1 at best; a
hundredth of a perplexity; a hundredth of the error that errors are in units of."""
DRAWS = 10_000
"""The draws of a table, for how far all its differences may be off together."""
POWER = 0.8
"""The probability with which the seeds or examples that would help do end a "cannot tell"."""
MAX_SEEDS, MAX_GROWTH = 100, 1000
"""Nothing is promised beyond: more seeds than the first, or a test split so many times as large."""
USUAL_SEEDS = 10
"""The number of seeds for which a larger test split is computed."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Outcomes of one contender's runs on one split."""

    values: Array
    """(runs, examples): right labels of each example, nats of each piece of a text, or sums of errors."""
    counts: Array
    """(examples,): its labels, or its tokens."""
    score: Score
    fixed: bool = False
    """Other seeds would give the same outcomes."""

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.values)

    @cached_property
    def rates(self) -> Array:
        """The rate of each run: its accuracy, its nats per token, or its mean error."""
        of_runs: Array = self.values.sum(1) / self.counts.sum()
        return of_runs


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval; the interval is None where one run gives none."""

    mean: float
    low: float | None
    high: float | None
    runs: int


@dataclass(frozen=True)
class Pair:
    """One contender against another, on the test split."""

    contender: str
    other: str
    """A contender, or a plain baseline."""
    difference: Estimate
    """The difference of accuracies and errors, the contender's less the other's; of perplexities, as a part of the
    other's. The intervals of all pairs of a table hold together, for 95 tables in a hundred."""
    better: float | None
    """The probability that the contender is better by more than the margin; None with one seed, as the next two."""
    equivalent: float | None
    worse: float | None
    verdict: Verdict
    """The verdict on the contender; at most one table in twenty has a false one."""
    more_seeds: int | None = None
    """The number of seeds that would end a "cannot tell" at 80 % power, were the difference what it seems; None where
    no number of seeds would."""
    more_examples: int | None = None
    """The number of test examples in all that would end it with ten seeds; None where seeds would do, or where nothing
    would."""

    def turned(self, score: Score) -> "Pair":
        """The other against the contender."""

        def opposite(value: float | None) -> float | None:
            if value is None:
                return None
            return 1 / (1 + value) - 1 if score == "perplexity" else -value

        words: dict[Verdict, Verdict] = {"better": "worse", "worse": "better"}
        estimate = self.difference
        turned = Estimate(
            opposite(estimate.mean) or 0.0, opposite(estimate.high), opposite(estimate.low), estimate.runs
        )
        return replace(
            self, contender=self.other, other=self.contender, difference=turned, better=self.worse, worse=self.better,
            verdict=words.get(self.verdict, self.verdict),
        )  # fmt: skip


class Remedy(NamedTuple):
    """The growth that would end a "cannot tell"; None where it would not."""

    seeds: int | None = None
    examples: int | None = None


class Variance(NamedTuple):
    """The variance of a mean, or of a difference of two, with degrees of freedom: 0 without seeds."""

    seeds: Array
    seeds_freedom: Array | float
    examples: Array
    examples_freedom: Array | float

    def distance(self, tail: Array | float) -> Array:
        """The distance that the truth may be off, with that probability on either side."""
        of_seeds = -stdtrit(np.maximum(self.seeds_freedom, 1), tail) * np.sqrt(self.seeds)
        reach: Array = np.hypot(of_seeds, -stdtrit(self.examples_freedom, tail) * np.sqrt(self.examples))
        return reach

    def tail(self, distance: Array) -> Array:
        """The probability that the truth is that far off, or further: `distance` solved for it."""
        low, high = np.full(np.shape(distance), -40.0), np.full(np.shape(distance), math.log(0.5))
        for _ in range(60):
            middle = (low + high) / 2
            wider = self.distance(np.exp(middle)) > np.abs(distance)
            low, high = np.where(wider, middle, low), np.where(wider, high, middle)
        probability: Array = np.where(distance >= 0, np.exp(low), 1 - np.exp(low))
        return probability


class Table:
    """All contenders on one split.

    Args:
        samples: of the same examples and the same score.
        names: of the contenders; their numbers if not given.
    """

    def __init__(self, samples: Sequence[Sample], names: Sequence[str] = ()) -> None:
        self.names = names or [str(number) for number in range(len(samples))]
        self.samples, self.score, self.counts = samples, samples[0].score, samples[0].counts
        self.examples = len(self.counts)
        self.means = np.array([sample.rates.mean() for sample in samples])
        self.runs = np.array([sample.runs for sample in samples])
        self.freedom = float(sum(sample.runs - 1 for sample in samples if not sample.fixed))
        self.blind = np.array([not sample.fixed for sample in samples]) & (self.freedom == 0)
        """Contenders of which nothing says how much other seeds would change them."""
        weight = self.counts.mean()
        self.residues = np.array(
            [(sample.values.mean(0) - rate * self.counts) / weight
             for sample, rate in zip(samples, self.means, strict=True)]
        )  # fmt: skip
        """(contenders, examples), mean 0: how each example is off."""
        self._seeds = self._of_seeds(weight)

    def estimates(self) -> list[Estimate]:
        """The score of each contender: its accuracy or mean error, or the perplexity of its mean loss."""
        tail, variance = ERROR / 2, self._variance(self._of_examples())
        low, high = (self._bound(variance, side, tail) for side in (-1, 1))
        return [
            Estimate(self._shown(mean), None, None, runs)
            if blind or self.examples < 2
            else Estimate(self._shown(mean), self._shown(bottom), self._shown(top), runs)
            for mean, bottom, top, runs, blind in zip(
                self.means, low, high, self.runs.tolist(), self.blind, strict=True
            )
        ]

    def pairs(self, margin: float | None = None) -> list[Pair]:
        """Every contender against every later one.

        Args:
            margin: differences up to it do not matter, in units of `Pair.difference`; that of `MARGINS` if None.
        """
        which = np.array(list(combinations(range(len(self.samples)), 2)), dtype=int).reshape(-1, 2)
        first, second = which.T
        margin, sign = self._margin(margin), 1 if self.score in HIGHER_IS_BETTER else -1
        gain = self._gains()[first] - self._gains()[second]
        variance = self._of_pairs(first, second)
        blind = self.blind[first] | self.blind[second] | (self.examples < 2)
        better, worse = 1 - variance.tail(gain - margin), 1 - variance.tail(-gain - margin)
        tail = self._tail(first[~blind], second[~blind])
        half = variance.distance(tail)
        verdicts = [_verdict(float(mean), float(off), margin) for mean, off in zip(gain, half, strict=True)]
        compared = []
        for n, (index, other) in enumerate(which.tolist()):
            runs = int(self.runs[[index, other]].min())
            difference = self._difference(sign * float(gain[n]), None if blind[n] else float(half[n]), runs)
            if blind[n]:
                compared.append(Pair(self.names[index], self.names[other], difference, None, None, None, "cannot tell"))
                continue
            equal = max(0.0, 1 - float(better[n]) - float(worse[n]))
            remedy = Remedy()
            if verdicts[n] == "cannot tell":
                remedy = self._remedy([index, other], variance, float(gain[n]), margin, tail, n)
            compared.append(
                Pair(
                    self.names[index], self.names[other], difference, float(better[n]), equal, float(worse[n]),
                    verdicts[n], *remedy,
                )
            )  # fmt: skip
        return compared

    def rivals(self, margin: float | None = None) -> tuple[str, list[str]]:
        """The best, and those that may be better than it by more than the margin, the best of them first.

        Where there are none, to take the best is an error in at most one table of twenty.
        """
        gains, margin = self._gains(), self._margin(margin)
        best, *others = np.argsort(-gains, kind="stable").tolist()
        if self.examples < 2:
            return self.names[best], [self.names[other] for other in others]
        return self.names[best], [
            self.names[other]
            for other in others
            if self.blind[best]
            or self.blind[other]
            or self._may_be_better(other, best, float(gains[best] - gains[other]), margin)
        ]

    def _may_be_better(self, other: int, best: int, ahead: float, margin: float) -> bool:
        """Were the other the true best: whether the best may be that far ahead of it by chance alone."""
        variance, count = self._of_pairs(np.array([best]), np.array([other])), len(self.samples) - 1

        def may(tail: float) -> bool:
            return bool(variance.distance(tail)[0] > margin + ahead)

        # Most are decided by what holds however the others depend on each other.
        if may(ERROR) or not may(ERROR / count):
            return may(ERROR)
        behind = np.delete(np.arange(len(self.samples)), other)
        return may(self._tail(np.full(count, other), behind, sides=1))

    def _gains(self) -> Array:
        """The largest is best: of accuracies as of losses with another sign."""
        return self.means if self.score in HIGHER_IS_BETTER else -self.means

    def _margin(self, margin: float | None) -> float:
        """The margin in units of `means`."""
        margin = MARGINS[self.score] if margin is None else margin
        return math.log1p(margin) if self.score == "perplexity" else margin

    @cached_property
    def _products(self) -> Array:
        """The covariances of the contenders' deviations on an example."""
        products: Array = self.residues @ self.residues.T / max(1, self.examples - 1)
        return products

    @cached_property
    def _draws(self) -> Array:
        """(draws, contenders): what contenders, who are tested on the same examples, may be off together."""
        covariance = (self._products + np.diag(self._doubt())) / self.examples + np.diag(self._seeds)
        # Of full rank, so that there is one such factor, the same on every machine.
        covariance += np.eye(len(covariance)) * (1e-12 * covariance.max() + 1e-200)
        draws = np.random.default_rng(0).standard_normal((DRAWS, len(covariance)))
        draws_of_means: Array = draws @ np.linalg.cholesky(covariance).T
        return draws_of_means

    def _tail(self, first: Array, second: Array, sides: int = 2) -> float:
        """The probability beyond an end of the interval of each of some pairs, with which all of them hold together for
        95 tables in a hundred: by the largest of studentised differences that depend on each other, as of Tukey's and
        Dunnett's."""
        # Too few examples do not say how contenders depend on each other.
        if len(first) < 2 or self.examples <= 2 * len(self.samples):
            return ERROR / sides / max(1, len(first))
        differences = self._draws[:, first] - self._draws[:, second]
        spread = differences.std(0)
        off = differences[:, spread > 0] / spread[spread > 0]
        largest = (np.abs(off) if sides == 2 else off).max(1, initial=0.0)
        return float(min(ERROR / sides, ndtr(-np.quantile(largest, 1 - ERROR))))

    def _of_seeds(self, weight: float) -> Array:
        """V_s of each contender."""
        variances = np.zeros(len(self.samples))
        scale = self._scale()
        by_sample = np.array([sample.rates.var(ddof=1) if sample.runs > 1 else 0.0 for sample in self.samples])
        free = np.array([0 if sample.fixed else sample.runs - 1 for sample in self.samples])
        if not self.freedom:
            return variances
        pooled = (by_sample * free).sum() / (scale * free).sum()
        # With few degrees of freedom the part of single examples is known no better than the rest.
        trusted = self.freedom / (self.freedom + 2)
        for n, sample in enumerate(self.samples):
            if not sample.fixed:
                by_example = sample.values.var(0, ddof=1).mean() / weight**2 if sample.runs > 1 else 0.0
                within = max(0.0, by_example - by_sample[n]) / self.examples
                variances[n] = max(0.0, max(by_sample[n], pooled * scale[n]) - trusted * within) / sample.runs
        return variances

    def _scale(self) -> Array:
        """The unit in which variances over seeds are compared: those of a share near 0 or 1 are small."""
        return self._shrunk() * (1 - self._shrunk()) if self.score == "accuracy" else np.ones(len(self.means))

    def _shrunk(self) -> Array:
        """Shares with half a success and half a failure more."""
        shrunk: Array = (self.means * self.examples + 0.5) / (self.examples + 1)
        return shrunk

    def _doubt(self) -> Array:
        """The addition of half a success and half a failure to the variance of an example: what never failed still
        may.
        """
        if self.score != "accuracy":
            return np.zeros(len(self.means))
        doubt: Array = 0.5 * (self.means**2 + (1 - self.means) ** 2) / (self.examples + 1)
        return doubt

    def _of_examples(self) -> Array:
        """V_e of each contender."""
        variances: Array = ((self.residues**2).sum(1) / max(1, self.examples - 1) + self._doubt()) / self.examples
        return variances

    def _variance(self, of_examples: Array) -> Variance:
        return Variance(self._seeds, self.freedom, of_examples, max(1, self.examples - 1))

    def _of_pairs(self, first: Array, second: Array) -> Variance:
        products, doubt = self._products, self._doubt()
        diagonal = np.diag(products)
        spread = diagonal[first] + diagonal[second] - 2 * products[first, second] + doubt[first] + doubt[second]
        seeds = self._seeds[first] + self._seeds[second]
        return Variance(seeds, self.freedom, np.maximum(spread, 0) / self.examples, max(1, self.examples - 1))

    def _bound(self, variance: Variance, side: int, tail: float) -> Array:
        """The lower or upper end of the intervals of all means."""
        seeds_alone = variance._replace(examples=np.zeros(len(self.means)))
        examples_alone = variance._replace(seeds=np.zeros(len(self.means)))
        if self.score == "accuracy":
            # Wilson's interval of as many rows as would have this variance.
            shrunk, t = self._shrunk(), -stdtrit(variance.examples_freedom, tail)
            k = t**2 * variance.examples / (shrunk * (1 - shrunk))
            middle = (self.means + k / 2) / (1 + k)
            half = np.sqrt(k * (self.means * (1 - self.means) + k / 4)) / (1 + k)
            sampling = np.abs(middle + side * half - self.means)
        else:
            sampling = examples_alone.distance(tail)
        bound: Array = self.means + side * np.hypot(seeds_alone.distance(tail), sampling)
        # Perplexities are logarithms here, and no mean loss is below 0.
        low, high = (0.0, math.inf) if self.score == "perplexity" else BOUNDS[self.score]
        return np.clip(bound, low, high)

    def _shown(self, mean: float) -> float:
        return math.exp(min(float(mean), 700.0)) if self.score == "perplexity" else float(mean)

    def _difference(self, mean: float, half: float | None, runs: int) -> Estimate:
        """The estimate in units of `Pair.difference`."""

        def shown(value: float) -> float:
            if self.score == "perplexity":
                return math.expm1(min(value, 700.0))
            return min(1.0, max(-1.0, value)) if self.score == "accuracy" else value

        if half is None:
            return Estimate(shown(mean), None, None, runs)
        return Estimate(shown(mean), shown(mean - half), shown(mean + half), runs)

    def _remedy(self, both: list[int], variance: Variance, gain: float, margin: float, tail: float, n: int) -> Remedy:
        """The fewest seeds, or the fewest examples, that would decide pair `n`, were the difference what it seems."""
        runs, of_seeds = self.runs[both], self._seeds[both]

        def growth_of(more: Array | int) -> float:
            """The factor by which the variance of seeds is less with so many more for each of the two."""
            after = float((of_seeds * runs / (runs + more)).sum())
            return float(of_seeds.sum()) / after if after > 0 else 1.0

        def decides(seeds: float, examples: float) -> bool:
            """Whether these growths of seeds and examples decide it."""
            grown = Variance(
                variance.seeds[n] / seeds, variance.seeds_freedom * seeds, variance.examples[n] / examples,
                variance.examples_freedom * examples,
            )  # fmt: skip
            # The new estimate is off by its own chance: it must be beyond its bound for all but 1 - POWER of that,
            # and for "equivalent" on both sides.
            reach, bound = grown.distance(tail), abs(gain)
            different = bound >= reach + grown.distance(1 - POWER)
            return bool(different or margin - bound >= reach + grown.distance((1 - POWER) / 2))

        # What decides goes on deciding with more.
        more = bisect_left(range(1, MAX_SEEDS + 1), True, key=lambda more: decides(growth_of(more), 1.0)) + 1
        if more <= MAX_SEEDS:
            return Remedy(seeds=more)
        growth, with_seeds = np.geomspace(1.0, MAX_GROWTH, 200), growth_of(np.maximum(0, USUAL_SEEDS - runs))
        enough = bisect_left(growth, True, key=lambda times: decides(with_seeds, times))
        if enough < len(growth):
            return Remedy(examples=_rounded(growth[enough] * self.examples))
        return Remedy()


def _rounded(number: float) -> int:
    """Round a number up to two digits."""
    unit = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return int(math.ceil(number / unit) * unit)


def _verdict(gain: float, half: float, margin: float) -> Verdict:
    """The verdict of a pair's interval: it lies within the margin, or leaves out zero."""
    if abs(gain) + half < margin:
        return "equivalent"
    if not abs(gain) > half:  # of NaN neither
        return "cannot tell"
    return "better" if gain > 0 else "worse"
