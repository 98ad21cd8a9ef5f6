"""Several comparisons of the same contenders, each on other data: average ranks, which of them differ, and sentences.

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
from statistics import geometric_mean
from typing import get_args

import numpy as np
from pydantic import JsonValue
from scipy.stats import permutation_test, rankdata, studentized_range

from gatedrnn.errors import UsageError
from gatedrnn.pages import plural
from gatedrnn.study.results import ComparisonResults
from gatedrnn.study.statistics import ERROR, Array, Verdict
from gatedrnn.study.verdict import listed, with_interval

_RESAMPLES = 9_999
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
            permutation_type="samples", alternative="greater", n_resamples=_RESAMPLES, rng=0,
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


_RELATIONS: dict[Verdict, str] = {"better": "better than", "equivalent": "equivalent to", "worse": "worse than"}


def sentences(joined: Joined) -> list[str]:
    """Sentences on which contender does best over all tasks, how sure that is, the plain baselines, and what it holds
    for.
    """
    best = next(iter(joined.average_ranks))
    ranks = [f"{name} {rank:.1f}" for name, rank in joined.average_ranks.items()]
    average = f"Average rank over {plural(len(joined.tasks), 'task')}, 1 is best: {', '.join(ranks)}."
    scope = "The unit is the task: what holds for these need not hold for others."
    return [average, _ranks_differ(joined, best), _task_by_task(joined, best), _plain(joined, best), scope]


def _ranks_differ(joined: Joined, best: str) -> str:
    needed = f"more than {joined.critical_difference:.1f}"
    if joined.probability > ERROR:
        return (
            f"These ranks are not shown to differ (p = {joined.probability:.2f}); with so many tasks a pair would have "
            f"to lie {needed} apart."
        )
    near = {name for group in joined.groups() if best in group for name in group} | {best}
    behind = [name for name in joined.average_ranks if name not in near]
    shown = f"{listed(behind) if behind else 'none'} {needed} behind {best}"
    return f"The ranks as a whole differ (p = {joined.probability:.3f}); {shown}."


def _task_by_task(joined: Joined, best: str) -> str:
    """Verdicts for the best against each other contender, by word."""
    by_verdict: dict[Verdict, dict[str, list[str]]] = {word: {} for word in get_args(Verdict)}
    for name in joined.contenders:
        for task, results in joined.tasks.items():
            if name != best:
                by_verdict[results.pair(best, name).verdict].setdefault(name, []).append(task)
    parts = [
        f"{relation} {listed([f'{name} on {listed(tasks)}' for name, tasks in by_verdict[word].items()])}"
        for word, relation in _RELATIONS.items()
        if by_verdict[word]
    ]
    pairs = (len(joined.contenders) - 1) * len(joined.tasks)
    untold = sum(map(len, by_verdict["cannot tell"].values()))
    if untold:
        parts.append(f"not distinguished in {untold} of {plural(pairs, 'pair')}")
    return f"Task by task, {best} is {'; '.join(parts)}."


def _plain(joined: Joined, best: str) -> str:
    by_word: dict[Verdict, list[str]] = {}
    for task, results in joined.tasks.items():
        by_word.setdefault(results.pair(best, results.best_plain().name).verdict, []).append(task)
    relations = {**_RELATIONS, "cannot tell": "not told from"}
    where = [f"{relations[word]} it on {listed(by_word[word])}" for word in get_args(Verdict) if word in by_word]
    return f"Against the best plain baseline: {best} is {'; '.join(where)}."


def score_rows(joined: Joined) -> list[dict[str, str]]:
    """One row of text a task: the test score of each contender, and of the best plain baseline."""
    return [
        {
            "task": task, "metric": results.metric.name,
            **{name: with_interval(results.contender(name).scores["test"]) for name in joined.contenders},
            "plain": f"{with_interval(results.best_plain().scores['test'])} {results.best_plain().name}",
        }
        for task, results in joined.tasks.items()
    ]  # fmt: skip


def rank_rows(joined: Joined) -> list[dict[str, str]]:
    """One row of text per contender, the best first: its ranks, and its price as parts of the baseline's."""
    rows, baseline = [], joined.contenders[0]
    for name, average in joined.average_ranks.items():
        ranks = joined.ranks[:, joined.contenders.index(name)]
        row = {"contender": name, "average rank": f"{average:.2f}"}
        row |= {task: f"{rank:g}" for task, rank in zip(joined.tasks, ranks.tolist(), strict=True)}
        cores, rates = [], []
        for results in joined.tasks.values():
            speed = results.measured.speed
            cores.append(results.contender(name).parameters.core / results.contender(baseline).parameters.core)
            rates.append(speed[name].median / speed[baseline].median)
        row |= {"core": f"{geometric_mean(cores):.2f} ×", "tokens/s": f"{geometric_mean(rates):.2f} ×"}
        rows.append(row)
    return rows


def scores_by_contender(joined: Joined) -> list[dict[str, str]]:
    """One row of text per contender, the best first: its test score on each task, and its average rank."""
    return [
        {
            "contender": name,
            **{task: with_interval(results.contender(name).scores["test"]) for task, results in joined.tasks.items()},
            "average rank": f"{average:.2f}",
        }
        for name, average in joined.average_ranks.items()
    ]


def verdict_rows(joined: Joined) -> list[dict[str, str]]:
    """One row of text for each contender but the best: the best against it, task by task."""
    best, *others = joined.average_ranks
    return [
        {"against": name, **{task: results.pair(best, name).verdict for task, results in joined.tasks.items()}}
        for name in others
    ]


def left_out(joined: Joined) -> str | None:
    """Contenders of some comparisons alone; None if there are none."""
    everywhere = set(joined.contenders)
    names = dict.fromkeys(row.name for results in joined.tasks.values() for row in results.contenders)
    lacking = [name for name in names if name not in everywhere]
    return f"Not in all comparisons, and left out here: {listed(lacking)}." if lacking else None
