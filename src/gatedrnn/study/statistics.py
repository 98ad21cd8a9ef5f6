"""Intervals and verdicts over two sources of chance: other seeds, and another test split of the same kind.

A score is a mean over examples of a mean over runs. Its variance is that of runs, divided by their number, plus that of
examples, divided by theirs; contenders are tested on the same examples, so that the second is paired in a difference.

    v_s   variance of a contender's scores over seeds; the larger of its own and the one pooled over all contenders,
          since two or three seeds say little
    v_w   the part of it that comes of single examples, which the variance of examples has already
    V_s = (v_s - v_w) / runs,   V_e = v_e / examples

An interval adds the distances of both sources as errors that do not depend on each other:
sqrt((t_s sqrt(V_s))^2 + d_e^2), with Student's t over the seeds of all contenders, and d_e of Wilson's interval for a
share. `tests/unit/study/test_statistics.py` simulates how often it covers the truth.

References: Zou and Donner 2008, Statistics in Medicine 27, 1693-1702 (distances that add up); Wilson 1927, Journal of
the American Statistical Association 22, 209-212; Holm 1979, Scandinavian Journal of Statistics 6, 65-70.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.stats import t as student

Array: TypeAlias = np.ndarray
Score: TypeAlias = Literal["accuracy", "perplexity", "error"]
"""A share; the exponential of a mean loss; a mean error."""
Verdict: TypeAlias = Literal["better", "equivalent", "worse", "cannot tell"]
ERROR = 0.05
"""The share of tables with a false verdict, at most."""
BOUNDS: dict[Score, tuple[float, float]] = {
    "accuracy": (0.0, 1.0), "perplexity": (1.0, math.inf), "error": (0.0, math.inf),
}  # fmt: skip
MARGINS: dict[Score, float] = {"accuracy": 0.005, "perplexity": 0.01, "error": 0.01}
"""Differences that do not matter, unless another margin is given: half a point; a hundredth of a perplexity; a
hundredth of the error that errors are in units of."""
POWER = 0.8
"""The probability with which the seeds or examples that would help do end a "cannot tell"."""
MOST_SEEDS, MOST_GROWTH = 100, 1000
"""Nothing is promised beyond: more seeds than the first, or a test split so many times as large."""
USUAL_SEEDS = 10
"""What a larger test split is counted with."""


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
        """How many."""
        return len(self.values)

    @cached_property
    def rates(self) -> Array:
        """Of each run: its accuracy, its nats per token, or its mean error."""
        found: Array = self.values.sum(1) / self.counts.sum()
        return found


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval; the interval is None where one run gives none."""

    mean: float
    low: float | None
    high: float | None
    runs: int


@dataclass(frozen=True)
class Pair:
    """One contender against another."""

    first: int
    second: int
    difference: Estimate
    """First less second: of accuracies or errors, or of perplexities as a part of the second's."""
    better: float | None
    """The probability that the first is better by more than the margin; None with one seed, as the next two."""
    equivalent: float | None
    worse: float | None
    verdict: Verdict
    """Of the first; at most one table in twenty has a false one."""
    more_seeds: int | None = None
    """What would end a "cannot tell" at 80 % power, were the difference what it seems; None where seeds would not."""
    more_examples: int | None = None
    """The same for the test split, where seeds would not: so many examples in all, with ten seeds at least."""


class Variance(NamedTuple):
    """Of a mean, or of a difference of two; with degrees of freedom. No seeds have 0 of them."""

    seeds: Array
    seeds_freedom: Array | float
    examples: Array
    examples_freedom: Array | float

    def distance(self, tail: Array | float) -> Array:
        """How far the truth may be off, with that probability on either side."""
        of_seeds = student.isf(tail, np.maximum(self.seeds_freedom, 1)) * np.sqrt(self.seeds)
        found: Array = np.hypot(of_seeds, student.isf(tail, self.examples_freedom) * np.sqrt(self.examples))
        return found

    def tail(self, distance: Array) -> Array:
        """The probability that the truth is that far off, or further: `distance` solved for it."""
        low, high = np.full(np.shape(distance), -40.0), np.full(np.shape(distance), math.log(0.5))
        for _ in range(60):
            middle = (low + high) / 2
            wider = self.distance(np.exp(middle)) > np.abs(distance)
            low, high = np.where(wider, middle, low), np.where(wider, high, middle)
        found: Array = np.where(distance >= 0, np.exp(low), 1 - np.exp(low))
        return found


class Table:
    """All contenders on one split.

    Args:
        samples: of the same examples and the same score.
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
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
        """Every contender against every later one; two that are fixed are not compared.

        Args:
            margin: differences up to it do not matter, in units of `Pair.difference`; that of `MARGINS` if None.
        """
        fixed = [sample.fixed for sample in self.samples]
        both = [pair for pair in combinations(range(len(fixed)), 2) if not (fixed[pair[0]] and fixed[pair[1]])]
        which = np.array(both, dtype=int).reshape(-1, 2)
        first, second = which.T
        margin = MARGINS[self.score] if margin is None else margin
        margin = math.log1p(margin) if self.score == "perplexity" else margin
        # The largest is best: of accuracies as of losses with another sign.
        sign = 1 if self.score == "accuracy" else -1
        gain = sign * (self.means[first] - self.means[second])
        variance = self._of_pairs(first, second)
        blind = self.blind[first] | self.blind[second] | (self.examples < 2)
        better, worse = 1 - variance.tail(gain - margin), 1 - variance.tail(-gain - margin)
        verdicts = _verdicts(variance, gain, margin, blind)
        half = variance.distance(ERROR / 2)
        found = []
        for n, (one, other) in enumerate(which.tolist()):
            runs = int(self.runs[[one, other]].min())
            difference = self._difference(sign * float(gain[n]), None if blind[n] else float(half[n]), runs)
            if blind[n]:
                found.append(Pair(one, other, difference, None, None, None, "cannot tell"))
                continue
            equal = max(0.0, 1 - float(better[n]) - float(worse[n]))
            pair = Pair(one, other, difference, float(better[n]), equal, float(worse[n]), verdicts[n])
            if verdicts[n] == "cannot tell":
                pair = self._with_remedy(pair, variance, gain, margin, n)
            found.append(pair)
        return found

    def difference(self, first: int, second: int) -> Estimate:
        """As `Pair.difference`; of two that are fixed too, for these very models over other examples."""
        one, other = np.array([first]), np.array([second])
        half = float(self._of_pairs(one, other).distance(ERROR / 2)[0])
        blind = bool(self.blind[[first, second]].any()) or self.examples < 2
        mean, runs = float(self.means[first] - self.means[second]), int(self.runs[[first, second]].min())
        return self._difference(mean, None if blind else half, runs)

    def _of_seeds(self, weight: float) -> Array:
        """V_s of each contender."""
        found = np.zeros(len(self.samples))
        scale = self._scale()
        own = np.array([sample.rates.var(ddof=1) if sample.runs > 1 else 0.0 for sample in self.samples])
        free = np.array([0 if sample.fixed else sample.runs - 1 for sample in self.samples])
        if not self.freedom:
            return found
        pooled = (own * free).sum() / (scale * free).sum()
        # With few degrees of freedom the part of single examples is known no better than the rest.
        trusted = self.freedom / (self.freedom + 2)
        for n, sample in enumerate(self.samples):
            if not sample.fixed:
                by_example = sample.values.var(0, ddof=1).mean() / weight**2 if sample.runs > 1 else 0.0
                within = max(0.0, by_example - own[n]) / self.examples
                found[n] = max(0.0, max(own[n], pooled * scale[n]) - trusted * within) / sample.runs
        return found

    def _scale(self) -> Array:
        """What variances over seeds are compared in: those of a share near 0 or 1 are small."""
        return self._shrunk() * (1 - self._shrunk()) if self.score == "accuracy" else np.ones(len(self.means))

    def _shrunk(self) -> Array:
        """Shares with half a success and half a failure more."""
        found: Array = (self.means * self.examples + 0.5) / (self.examples + 1)
        return found

    def _doubt(self) -> Array:
        """What that half success and half failure add to the variance of an example: what never failed still may."""
        if self.score != "accuracy":
            return np.zeros(len(self.means))
        found: Array = 0.5 * (self.means**2 + (1 - self.means) ** 2) / (self.examples + 1)
        return found

    def _of_examples(self) -> Array:
        """V_e of each contender."""
        found: Array = ((self.residues**2).sum(1) / max(1, self.examples - 1) + self._doubt()) / self.examples
        return found

    def _variance(self, of_examples: Array) -> Variance:
        return Variance(self._seeds, self.freedom, of_examples, max(1, self.examples - 1))

    def _of_pairs(self, first: Array, second: Array) -> Variance:
        products = self.residues @ self.residues.T / max(1, self.examples - 1)
        own, doubt = np.diag(products), self._doubt()
        spread = own[first] + own[second] - 2 * products[first, second] + doubt[first] + doubt[second]
        seeds = self._seeds[first] + self._seeds[second]
        return Variance(seeds, self.freedom, np.maximum(spread, 0) / self.examples, max(1, self.examples - 1))

    def _bound(self, variance: Variance, side: int, tail: float) -> Array:
        """The lower or upper end of the intervals of all means."""
        seeds_alone = variance._replace(examples=np.zeros(len(self.means)))
        examples_alone = variance._replace(seeds=np.zeros(len(self.means)))
        if self.score == "accuracy":
            # Wilson's interval of as many rows as would have this variance.
            shrunk, t = self._shrunk(), student.isf(tail, variance.examples_freedom)
            k = t**2 * variance.examples / (shrunk * (1 - shrunk))
            middle = (self.means + k / 2) / (1 + k)
            half = np.sqrt(k * (self.means * (1 - self.means) + k / 4)) / (1 + k)
            sampling = np.abs(middle + side * half - self.means)
        else:
            sampling = examples_alone.distance(tail)
        found: Array = self.means + side * np.hypot(seeds_alone.distance(tail), sampling)
        return np.clip(found, 0, 1) if self.score == "accuracy" else np.maximum(found, 0)

    def _shown(self, mean: float) -> float:
        return math.exp(min(float(mean), 700.0)) if self.score == "perplexity" else float(mean)

    def _difference(self, mean: float, half: float | None, runs: int) -> Estimate:
        """In units of `Pair.difference`."""

        def shown(value: float) -> float:
            if self.score == "perplexity":
                return math.expm1(min(value, 700.0))
            if self.score == "error":
                return value
            return min(1.0, max(-1.0, value))

        if half is None:
            return Estimate(shown(mean), None, None, runs)
        return Estimate(shown(mean), shown(mean - half), shown(mean + half), runs)

    def _with_remedy(self, pair: Pair, variance: Variance, gain: Array, margin: float, n: int) -> Pair:
        """What would decide it, were the difference what it seems: the fewest seeds, or the fewest examples."""
        level, distance = ERROR / max(1, len(gain)), abs(float(gain[n]))
        both = [pair.first, pair.second]
        runs, of_seeds = self.runs[both, None], self._seeds[both, None]

        def growth_of(more: Array) -> Array:
            """How many times less the variance of seeds is with so many more for each of the two."""
            after: Array = (of_seeds * runs / (runs + more)).sum(0)
            return np.where(after > 0, of_seeds.sum() / np.where(after > 0, after, 1), 1.0)

        def first_decided(seeds: Array, examples: Array) -> int | None:
            """The first of several growths of both that decides."""
            grown = Variance(
                variance.seeds[n] / seeds, variance.seeds_freedom * seeds, variance.examples[n] / examples,
                variance.examples_freedom * examples,
            )  # fmt: skip
            # The new estimate is off by its own chance: it must be beyond its bound for all but 1 - POWER of that,
            # and for "equivalent" on both sides.
            different = distance >= grown.distance(level / 2) + grown.distance(1 - POWER)
            equivalent = margin - distance >= grown.distance(level) + grown.distance((1 - POWER) / 2)
            found = np.flatnonzero(different | equivalent)
            return int(found[0]) if len(found) else None

        more = np.arange(1, MOST_SEEDS + 1)
        if (found := first_decided(growth_of(more), np.ones(MOST_SEEDS))) is not None:
            return replace(pair, more_seeds=int(more[found]))
        growth = np.geomspace(1.0, MOST_GROWTH, 200)
        with_seeds = growth_of(np.maximum(0, USUAL_SEEDS - runs))
        if (found := first_decided(np.full(200, with_seeds), growth)) is not None:
            return replace(pair, more_examples=_rounded(growth[found] * self.examples))
        return pair


def _rounded(number: float) -> int:
    """Two digits."""
    unit = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return int(math.ceil(number / unit) * unit)


def _tails(variance: Variance, gain: Array, margin: float) -> tuple[Array, Array]:
    """p of "no difference", on both sides, and of "a difference beyond the margin", on the nearer."""
    different = 2 * variance.tail(np.abs(gain))
    beyond = variance.tail(margin - np.abs(gain))
    return different, beyond


def _verdicts(variance: Variance, gain: Array, margin: float, blind: Array) -> list[Verdict]:
    """By Holm's step-down over the pairs of a table: a pair is decided by the smaller p, and equivalence goes first."""
    different, beyond = _tails(variance, gain, margin)
    verdicts: list[Verdict] = ["cannot tell"] * len(gain)
    left = [int(n) for n in np.argsort(np.minimum(different, beyond)) if not blind[n]]
    while left:
        n, level = left[0], ERROR / len(left)
        if min(different[n], beyond[n]) > level:
            break
        verdicts[n] = "equivalent" if beyond[n] <= level else "better" if gain[n] > 0 else "worse"
        left.pop(0)
    return verdicts
