"""The summary of several comparisons together: sentences and tables, from `joined.Joined` alone."""

from statistics import geometric_mean
from typing import get_args

from gatedrnn.pages import plural
from gatedrnn.study.joined import Joined
from gatedrnn.study.statistics import ERROR, Verdict
from gatedrnn.study.words import listed, with_interval

RELATIONS: dict[Verdict, str] = {"better": "better than", "equivalent": "equivalent to", "worse": "worse than"}


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
        for word, relation in RELATIONS.items()
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
    relations = {**RELATIONS, "cannot tell": "not told from"}
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
