"""The verdict of a comparison in sentences, and its tables, from its record alone."""

from collections.abc import Mapping
from typing import get_args

import numpy as np

from gatedrnn.data.probes.groups import GROUPS
from gatedrnn.inspect.tracking import POSITIVE
from gatedrnn.pages import plural, signed
from gatedrnn.study.beside import Confusion
from gatedrnn.study.ladder import BESIDE, LADDERS, removed, steps_below
from gatedrnn.study.match import MARKED
from gatedrnn.study.results import ComparisonResults, ContenderResults, PairResults, PlainScores, run_name
from gatedrnn.study.statistics import USUAL_SEEDS, Estimate, Verdict
from gatedrnn.train.outcomes import Outcomes

MATCH_WORDS = {
    "layers": "equal layers and widths", "params": "equal parameters of the recurrent core",
    "multiply-adds": "equal multiply-adds a step", "time": "equal seconds of training",
}  # fmt: skip
NONE = "–"
NOTICED = 1.1
"""Times as fast: less is not worth a sentence."""
HARDEST = 10
"""Examples that are listed."""


def headline(results: ComparisonResults) -> list[str]:
    """Which contender to take, its price, what cannot be told; then remarks, and what the intervals cover."""
    sentences = verdict(results)
    for match in MATCH_WORDS:
        sentences += _down_the_ladder(results, match)
    return [*sentences, *_edges(results), *_remarks(results), _scope(results)]


def held_equal(results: ComparisonResults) -> str:
    """What all contenders share."""
    if results.search is not None:
        trials = plural(results.search.trials, "random trial")
        return f"the same data; for each contender the settings of the best of its {trials} on validation"
    if "time" in results.settings.contenders.match:
        return "the same data in the same order and the same recipe for all; -time: the same seconds of training"
    return "the same data in the same order, the same number of steps and the same recipe for all"


def _edges(results: ComparisonResults) -> list[str]:
    """Where a wider space might hold something better, and where the search ended early."""
    search = results.search
    if search is None:
        return []
    found = []
    if search.trials < search.asked:
        found.append(
            f"The search ended after {search.trials} of {search.asked} trials of each contender, with the "
            f"{search.minutes:g} minutes that it was given."
        )
    at_edge = [
        f"{name} ({', '.join(f'{setting} at the {edge}' for setting, edge in edges.items())})"
        for name, edges in search.edges.items()
        if edges
    ]
    if at_edge:
        found.append(
            f"The best settings lie at an edge of the space for {_listed(at_edge)}: a wider one may hold better."
        )
    return found


def search_rows(results: ComparisonResults) -> list[dict[str, str]]:
    """One row of text per contender: the settings of its best trial, with ! where one lies at an edge."""
    search = results.search
    if search is None:
        return []
    names = list(dict.fromkeys(name for best in search.best.values() for name in best.values))
    rows = []
    for contender, best in search.best.items():
        row = {
            "contender": contender,
            "trial": f"{best.number + 1} of {search.trials}",
            "validation": f"{best.score:.4f}",
        }
        for name in names:
            mark = " !" if name in search.edges[contender] else ""
            row[name.replace("_", " ")] = f"{_shown(best.values[name])}{mark}" if name in best.values else NONE
        rows.append(row)
    return rows


def _shown(value: bool | int | float | str) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def class_rows(results: ComparisonResults, confusion: Confusion) -> list[dict[str, str]]:
    """One row of text per class: the share of its test examples that each contender labels right, over all seeds."""
    rows = []
    for number, name in enumerate(results.data.label_names):
        row = {"class": name}
        for contender in results.contenders:
            lines = [confusion.runs[run_name(contender.name, run.seed)]["test"][number] for run in contender.runs]
            examples = sum(sum(line) for line in lines)
            row[contender.name] = f"{sum(line[number] for line in lines) / examples:.3f}" if examples else NONE
        rows.append(row)
    return rows


def hardest_rows(results: ComparisonResults, outcomes: Mapping[str, Outcomes]) -> list[dict[str, str]]:
    """One row of text for each of the test examples that contenders do worst on, all runs of all of them together.

    Args:
        outcomes: of every run, by its name and split.
    """
    higher = results.metric.higher_is_better
    rates = {
        row.name: [outcomes[f"{run_name(row.name, run.seed)}/test"] for run in row.runs] for row in results.contenders
    }
    means = {
        name: np.mean([own.values / np.maximum(own.counts, 1) for own in found], 0) for name, found in rates.items()
    }
    overall = np.mean(list(means.values()), 0)
    order = np.argsort(overall if higher else -overall, kind="stable")[:HARDEST]
    what = "share right" if higher else "nats per token"
    return [
        {
            results.data.unit.partition(" of ")[0]: f"{index:,}", what: f"{overall[index]:.2f}",
            **{name: f"{own[index]:.2f}" for name, own in means.items()},
        }
        for index in order.tolist()
    ]  # fmt: skip


def verdict(results: ComparisonResults) -> list[str]:
    """At most four sentences: the best contender and those beside it, the fastest of them, what would help, and the
    plain baseline."""
    ranked = sorted(results.contenders, key=lambda row: _sign(results) * row.scores["test"].mean, reverse=True)
    best, others = ranked[0], ranked[1:]
    against = {row.name: results.pair(row.name, best.name) for row in others}
    named = {word: [name for name, pair in against.items() if pair.verdict == word] for word in get_args(Verdict)}
    sentences = [_best(results, best, against, named)]
    beside = [best, *(row for row in others if against[row.name].verdict != "worse")]
    if (fastest := _fastest(results, best, beside)) is not None:
        sentences.append(fastest)
    if named["cannot tell"]:
        sentences.append(_what_would_help([against[name] for name in named["cannot tell"]]))
    return [*sentences, _against_plain(results)]


def _sign(results: ComparisonResults) -> int:
    return 1 if results.metric.higher_is_better else -1


def _best(
    results: ComparisonResults, best: ContenderResults, against: dict[str, PairResults], named: dict[Verdict, list[str]]
) -> str:  # fmt: skip
    superlative = "highest" if results.metric.higher_is_better else "lowest"
    parts = [f"Test {results.metric.name} is {superlative} for {best.name}, {with_interval(best.scores['test'])}"]
    if named["equivalent"]:
        parts.append(f"{_listed(named['equivalent'])}: equivalent (within {margin_in_words(results)})")
    if named["cannot tell"]:
        parts.append(f"{_listed(named['cannot tell'])}: not distinguished from it")
    worse = [f"{name} {difference_in_words(against[name].difference, results)}" for name in named["worse"]]
    if worse:
        parts.append(f"worse: {', '.join(worse)}")
    return f"{'; '.join(parts)}."


def _fastest(results: ComparisonResults, best: ContenderResults, beside: list[ContenderResults]) -> str | None:
    """The fastest of the contenders that are not worse than the best; None if that is the best itself."""
    rates = {name: speed.median for name, speed in results.measured.speed.items()}
    fastest = max(beside, key=lambda row: rates[row.name])
    if fastest is best:
        return "It also trains fastest of those not shown to be worse." if len(beside) > 1 else None
    if rates[fastest.name] < NOTICED * rates[best.name]:
        return None
    ratio, part = rates[fastest.name] / rates[best.name], fastest.parameters.core / best.parameters.core
    return (
        f"Of those not shown to be worse, {fastest.name} trains fastest: {ratio:.1f} times the tokens a second of "
        f"{best.name}, with {part:.0%} of the parameters of its core."
    )


def _what_would_help(pairs: list[PairResults]) -> str:
    """For the pairs without a verdict."""
    if any(pair.better is None for pair in pairs):
        return "One seed says nothing about other seeds; give 2 or more with --seeds."
    by_seeds = [pair for pair in pairs if pair.more_seeds is not None]
    by_examples = [pair for pair in pairs if pair.more_examples is not None]
    parts = []
    if by_seeds:
        easiest = min(by_seeds, key=lambda pair: pair.more_seeds or 0)
        more = plural(easiest.more_seeds or 0, "more seed").replace("1 more seeds", "1 more seed")
        parts.append(f"{more} would decide between {easiest.contender} and {easiest.other}")
    if by_examples:
        easiest = min(by_examples, key=lambda pair: pair.more_examples or 0)
        names = _listed([pair.contender for pair in by_examples])
        parts.append(
            f"no number of seeds alone would tell {names} from {easiest.other}, but a test split of "
            f"{easiest.more_examples:,} examples or more, with {max(USUAL_SEEDS, easiest.difference.runs)} seeds"
        )
    if not parts:
        return "Neither more seeds nor more test examples would decide what is open: it lies at the margin."
    text = "; ".join(parts)
    return f"Were the differences what they seem, {text}."


def margin_in_words(results: ComparisonResults) -> str:
    """0.5 points, or 1 % of the perplexity."""
    if results.metric.name == "accuracy":
        return f"{100 * results.margin:g} points"
    return f"{100 * results.margin:g} % of the perplexity"


def _scope(results: ComparisonResults) -> str:
    """What the intervals cover."""
    runs = results.contenders[0].scores["test"].runs
    if runs < 2:
        return "1 seed: no interval and no verdict; give 2 or more with --seeds."
    uncovered = "other data, other sizes or " + (
        "a recipe tuned for each cell" if results.search is None else "another search, which may choose other settings"
    )
    return (
        f"Intervals are 95 % over other seeds ({runs} were run) and other test splits of the kind "
        f"({plural(results.data.examples['test'], results.data.unit)}); verdicts hold for all pairs together. They do "
        f"not cover {uncovered}."
    )


def intervals_explained(results: ComparisonResults) -> str:
    """How the intervals in brackets are made, for the small print."""
    return (
        "[ ]: 95 % intervals over seeds and test examples together, which are the same for all contenders. A "
        f"difference below {margin_in_words(results)} does not matter; better, equivalent and worse are corrected for "
        f"{plural(len(results.pairs), 'pair')} (Holm)."
    )


def structure_rows(results: ComparisonResults) -> list[dict[str, str]]:
    """One row of text per contender, by column."""
    rows = []
    for row in results.contenders:
        structure, parameters, start = row.structure, row.parameters, row.structure.initialisation
        mark = " !" if row.match == "params" and abs(row.core_mismatch) > MARKED else ""
        rows.append(
            {
                "contender": row.name,
                "layers": str(structure.layers),
                "width": str(structure.hidden_size),
                "gates": " ".join(structure.gates) or NONE,
                "initialisation": NONE if start is None else f"{start.weights}; {start.biases}",
                "embedding": f"{parameters.embedding:,}",
                "core": f"{parameters.core:,}",
                "to baseline's": f"{signed(row.core_mismatch, '.2%')}{mark}",
                "block": f"{parameters.block:,}",
                "head": f"{parameters.head:,}",
                "total": f"{parameters.total:,}",
                "state": NONE if structure.state_size is None else f"{structure.state_size:,}",
                "multiply-adds": f"{structure.multiply_adds_per_step:,}",
                "runs on": results.measured.runs_on[row.name],
            }
        )
    return rows


def score_rows(results: ComparisonResults) -> list[dict[str, str]]:
    """One row of text per contender, and one for each plain baseline, by column."""
    rows = [_scores(row, results) for row in results.contenders]
    for plain in results.baseline.plain:
        own = {"contender": plain.name, "seconds": f"{results.measured.plain_seconds[plain.name]:.1f}"}
        own |= {split: with_interval(estimate) for split, estimate in plain.scores.items()}
        rows.append({column: own.get(column, NONE) for column in rows[0]})
    return rows


def ladder_rows(results: ComparisonResults, match: str) -> list[dict[str, str]]:
    """One row of text per step of the ladder: what it removes, and the effect in comparison with the step above."""
    by_name = {row.name: row for row in results.contenders}
    rates = {name: speed.median for name, speed in results.measured.speed.items()}

    def shown(row: ContenderResults, removal: str) -> dict[str, str]:
        columns = {"step": row.name, "removes": removal, "core": f"{row.parameters.core:,}", "core to step above": NONE}
        columns |= {"test": with_interval(row.scores["test"]), "score to step above": NONE}
        return columns | {"tokens/s": f"{rates[row.name]:,.0f}", "speed to step above": NONE}

    rows = [shown(results.contenders[0], NONE)]
    for row, above in steps_below(results, match):
        higher = by_name[above.other]
        rows.append(
            shown(row, removed(row))
            | {
                "core to step above": signed(row.parameters.core / higher.parameters.core - 1, ".1%"),
                "score to step above": difference_in_words(above.difference, results),
                "speed to step above": f"{rates[row.name] / rates[higher.name]:.2f} ×",
            }
        )
    return rows


def with_interval(estimate: Estimate) -> str:
    """0.9123 [0.9100, 0.9150], or the mean alone where there is no interval."""
    if estimate.low is None:
        return _mean(estimate)
    digits = _digits(estimate)
    return f"{_mean(estimate)} [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"


def _mean(estimate: Estimate) -> str:
    return f"{estimate.mean:.{_digits(estimate)}f}"


def _digits(estimate: Estimate) -> int:
    return 4 if abs(estimate.mean) < 10 else 2


def difference_in_words(difference: Estimate, results: ComparisonResults) -> str:
    """+0.0012 [-0.0003, +0.0027], of accuracies; +1.2% [-0.3%, +2.7%], of perplexities."""
    form = ".4f" if results.metric.name == "accuracy" else ".1%"
    mean = signed(difference.mean, form)
    if difference.low is None or difference.high is None:
        return mean
    return f"{mean} [{signed(difference.low, form)}, {signed(difference.high, form)}]"


def best_on_validation(results: ComparisonResults) -> ContenderResults:
    """The contender with the best mean validation score: the one to choose before the test."""
    sign = 1 if results.metric.higher_is_better else -1
    return max(results.contenders, key=lambda row: sign * row.scores["validation"].mean)


def best_plain(results: ComparisonResults) -> PlainScores:
    """The plain baseline with the best validation score."""
    return max(results.baseline.plain, key=lambda plain: _sign(results) * plain.scores["validation"].mean)


def training_seconds(row: ContenderResults, results: ComparisonResults) -> float:
    """Of a run, in the mean over seeds: its tokens at the speed that was measured with contenders in turn. What runs
    took while others ran beside them is in `results.measured.runs`."""
    runs = [results.measured.runs[run_name(row.name, run.seed)] for run in row.runs]
    tokens = [(run.tokens_per_second or 0.0) * run.training_seconds for run in runs]
    return sum(tokens) / len(tokens) / results.measured.speed[row.name].median


def _scores(row: ContenderResults, results: ComparisonResults) -> dict[str, str]:
    measured, baseline = results.measured, results.baseline.contender
    peak = (measured.memory_mib or {}).get(row.name)
    columns = {"contender": row.name}
    # Validation first, whatever the task calls its splits and in which order.
    columns |= {split: with_interval(row.scores[split]) for split in sorted(row.scores, key="validation".__ne__)}
    columns["to baseline"] = "baseline" if row.name == baseline else _against(row.name, baseline, results)
    return columns | {
        "to plain": _against(row.name, best_plain(results).name, results),
        "seconds": f"{training_seconds(row, results):.1f}",
        "tokens/s": f"{measured.speed[row.name].median:,.0f}",
        "MiB": NONE if peak is None else f"{peak:.0f}",
    }


def _against(contender: str, other: str, results: ComparisonResults) -> str:
    """The difference and the verdict."""
    pair = results.pair(contender, other)
    return f"{difference_in_words(pair.difference, results)} {pair.verdict}"


def _listed(names: list[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _down_the_ladder(results: ComparisonResults, match: str) -> list[str]:
    """The cost of each removal, and of all of them."""
    ladder = results.settings.contenders.ladder
    if ladder is None or match not in results.settings.contenders.match:
        return []
    steps = [(row, pair) for row, pair in steps_below(results, match) if row.cell not in BESIDE.get(ladder, ())]
    parts = [f"without {removed(row)} {difference_in_words(pair.difference, results)}" for row, pair in steps]
    shown = [f"{row.cell} ({pair.verdict})" for row, pair in steps if pair.verdict in ("better", "worse")]
    found = f"shown to differ: {', '.join(shown)}" if shown else "no single step is shown to differ"
    bottom = next(row for row in results.contenders if row.cell == LADDERS[ladder][-1] and row.match == match)
    whole = results.pair(bottom.name, results.baseline.contender)
    return [
        f"Down the ladder with {MATCH_WORDS[match]}, test {results.metric.name} of each step less that of the step "
        f"above: {'; '.join(parts)} ({found}). From {ladder} to {bottom.cell}: "
        f"{difference_in_words(whole.difference, results)}, {whole.verdict}."
    ]


def _against_plain(results: ComparisonResults) -> str:
    best, plain = best_on_validation(results), best_plain(results)
    pair = results.pair(best.name, plain.name)
    words = {"better": "better than", "worse": "worse than", "equivalent": "equivalent to"}
    how = words.get(pair.verdict, "not distinguished from")
    return (
        f"{best.name}, the best on validation, is {how} {plain.name} ({_mean(plain.scores['test'])}) on test: "
        f"{difference_in_words(pair.difference, results)}."
    )


def _remarks(results: ComparisonResults) -> list[str]:
    """What is known about a task beyond the measurements."""
    if results.task not in {probe.name for probe in GROUPS}:
        return []
    positive = [cell for cell, kind in results.classes.items() if kind.name == POSITIVE.name]
    if not positive:
        return []
    # Tests at other lengths are named after them; the longest is the last one.
    split = list(results.contenders[0].scores)[-1]
    longer = [f"{row.name} {with_interval(row.scores[split])}" for row in results.contenders]
    chance = 1 / len(results.data.label_names)
    return [
        f"Why {_listed(positive)} cannot do {results.task} at length: {POSITIVE.transition}, so a step can shrink the "
        f"state and never change its sign ({POSITIVE.source}). {split.replace('_', ' at length ')}: "
        f"{', '.join(longer)}; chance is {chance:.2f}."
    ]
