"""Several comparisons of the same contenders, each on other data: average ranks, and which of them differ.

Reference: Demšar 2006, Journal of Machine Learning Research 7, 1-30 (ranks; the critical difference of Nemenyi's test).
Whether ranks differ at all is tested by permuting them within each task, which is exact for few tasks, where Friedman's
statistic is far from its limit.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np
from pydantic import JsonValue
from scipy.stats import permutation_test, rankdata, studentized_range

from gatedrnn.errors import UsageError
from gatedrnn.pages import plural
from gatedrnn.study.results import ComparisonResults
from gatedrnn.study.statistics import ERROR, Array

RESAMPLES = 9_999
"""The most permutations of ranks that are drawn."""


@dataclass(frozen=True)
class Joined:
    """Comparisons by the name of their task. `join` makes one."""

    tasks: dict[str, ComparisonResults]
    contenders: list[str]
    """The contenders of all comparisons, the baseline first."""

    @cached_property
    def ranks(self) -> Array:
        """(tasks, contenders): 1 for the best test score; the mean of the places where scores are equal."""
        rows = []
        for results in self.tasks.values():
            scores = {row.name: row.scores["test"].mean for row in results.contenders}
            rows.append(rankdata([-results.metric.sign * scores[name] for name in self.contenders]))
        return np.array(rows)

    @property
    def average_ranks(self) -> dict[str, float]:
        """The average rank of each contender, the best first."""
        means = zip(self.contenders, self.ranks.mean(0).tolist(), strict=True)
        return dict(sorted(means, key=lambda pair: pair[1]))

    @cached_property
    def probability(self) -> float:
        """The probability of average ranks as far apart as these, did all contenders perform alike."""
        columns = tuple(self.ranks.T)
        test = permutation_test(
            columns, lambda *ranked: float(np.square([np.mean(ranks) for ranks in ranked]).sum()),
            permutation_type="samples", alternative="greater", n_resamples=RESAMPLES, rng=0,
        )  # fmt: skip
        return float(test.pvalue)

    @property
    def critical_difference(self) -> float:
        """The difference of two average ranks below which they are not distinguished (Nemenyi, 95 % for all pairs
        together).
        """
        tasks, count = self.ranks.shape
        quantile = studentized_range.isf(ERROR, count, np.inf) / np.sqrt(2)
        return float(quantile * np.sqrt(count * (count + 1) / (6 * tasks)))

    def groups(self) -> list[list[str]]:
        """Contenders that are not distinguished, each group as large as it can be: all of them, where ranks as a whole
        are not shown to differ."""
        ranked = list(self.average_ranks.items())
        if self.probability > ERROR:
            return [[name for name, _ in ranked]]
        sets: list[list[str]] = []
        for place, (_, lowest) in enumerate(ranked):
            group = [name for name, rank in ranked[place:] if rank - lowest <= self.critical_difference]
            if len(group) > 1 and not (sets and set(group) <= set(sets[-1])):
                sets.append(group)
        return sets


def join(comparisons: Sequence[tuple[Path, ComparisonResults]]) -> Joined:
    """Comparisons with their folders, as one.

    A task is named after itself, or after its folder where two have the same.

    Raises:
        UsageError: there are fewer than two; two of the same data; they were searched or judged in different ways; or
        they have fewer than two contenders in common.
    """
    if len(comparisons) < 2:
        raise UsageError("one comparison alone joins nothing; name two folders or more")
    for (folder, results), (other_folder, other) in combinations(comparisons, 2):
        both = f"{folder} and {other_folder}"
        if _data(results) == _data(other):
            raise UsageError(f"{both}: the same data of {results.task} twice")
        if _search(results) != _search(other):
            raise UsageError(f"{both}: {_search(results)} there, {_search(other)} here; join what had the same budget")
        if results.metric == other.metric and results.margin != other.margin:
            raise UsageError(
                f"{both}: margins of {results.margin:g} and {other.margin:g}; judge one anew with --margin"
            )
    names = [[row.name for row in results.contenders] for _, results in comparisons]
    common = check_common(names, [str(folder) for folder, _ in comparisons])
    times = Counter(results.task for _, results in comparisons)
    named = {(results.task if times[results.task] == 1 else folder.name): results for folder, results in comparisons}
    if len(named) < len(comparisons):
        raise UsageError(f"{', '.join(named)}: folders of one task need different names")
    return Joined(named, common)


def check_common(names: Sequence[Sequence[str]], places: Sequence[str]) -> list[str]:
    """Contenders that all comparisons have, in the order of the first.

    Args:
        names: of the contenders of each.
        places: what each is called.

    Raises:
        UsageError: they are fewer than two.
    """
    common = [name for name in names[0] if all(name in shared for shared in names)]
    if len(common) < 2:
        raise UsageError(f"{', '.join(places)}: {plural(len(common), 'contender')} in common; ranks need two at least")
    return common


def _data(results: ComparisonResults) -> JsonValue:
    """The data that the contenders were trained and tested on."""
    return [results.task, results.settings.data, [source.model_dump() for source in results.data.sources]]


def _search(results: ComparisonResults) -> str:
    return "one recipe for all" if results.search is None else f"{results.search.asked} trials of each contender"
