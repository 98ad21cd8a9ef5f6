"""The verdict of a comparison in sentences, from its record alone."""

from typing import get_args

from gatedrnn.data.probes.groups import GROUPS
from gatedrnn.inspect.tracking import POSITIVE
from gatedrnn.pages import plural
from gatedrnn.study.ladder import BESIDE, LADDERS, removed, steps_below
from gatedrnn.study.results import ComparisonResults, ContenderResults, PairResults
from gatedrnn.study.statistics import MOST_GROWTH, MOST_SEEDS, POWER, USUAL_SEEDS, Verdict
from gatedrnn.study.words import MATCH_WORDS, difference_in_words, listed, margin_in_words, mean_alone, with_interval

NOTICED = 1.1
"""Times as fast: less is not worth a sentence."""


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


def verdict(results: ComparisonResults) -> list[str]:
    """At most four sentences: the best contender and those beside it, the fastest of them, what would help, and the
    plain baseline."""
    ranked = sorted(results.contenders, key=lambda row: results.metric.sign * row.scores["test"].mean, reverse=True)
    best, others = ranked[0], ranked[1:]
    against = {row.name: results.pair(row.name, best.name) for row in others}
    named = {word: [name for name, pair in against.items() if pair.verdict == word] for word in get_args(Verdict)}
    sentences = [_best(results, best, against, named)]
    beside = [best, *(row for row in others if against[row.name].verdict != "worse")]
    if (fastest := _fastest(results, best, beside)) is not None:
        sentences.append(fastest)
    if named["cannot tell"] and best.scores["test"].runs > 1:
        sentences.append(_what_would_help([against[name] for name in named["cannot tell"]]))
    return [*sentences, _against_plain(results)]


def _best(
    results: ComparisonResults, best: ContenderResults, against: dict[str, PairResults], named: dict[Verdict, list[str]]
) -> str:  # fmt: skip
    superlative = "highest" if results.metric.higher_is_better else "lowest"
    parts = [f"Test {results.metric.name} is {superlative} for {best.name}, {with_interval(best.scores['test'])}"]
    if named["equivalent"]:
        parts.append(f"{listed(named['equivalent'])}: equivalent (within {margin_in_words(results)})")
    if named["cannot tell"]:
        parts.append(f"{listed(named['cannot tell'])}: not distinguished from it")
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
    by_seeds = [pair for pair in pairs if pair.more_seeds is not None]
    by_examples = [pair for pair in pairs if pair.more_examples is not None]
    parts = []
    if by_seeds:
        easiest = min(by_seeds, key=lambda pair: pair.more_seeds or 0)
        more = plural(easiest.more_seeds or 0, "more seed")
        parts.append(f"{more} would decide between {easiest.contender} and {easiest.other}")
    if by_examples:
        easiest = min(by_examples, key=lambda pair: pair.more_examples or 0)
        names = listed([pair.contender for pair in by_examples])
        parts.append(
            f"no number of seeds alone would tell {names} from {easiest.other}, but a test split of "
            f"{easiest.more_examples:,} examples or more, with {max(USUAL_SEEDS, easiest.difference.runs)} seeds"
        )
    if not parts:
        return (
            f"What is open would take more than {MOST_SEEDS} more seeds, and more than {MOST_GROWTH:,} times as many "
            "test examples: it lies at the margin, or there are few examples."
        )
    text = "; ".join(parts)
    return f"Were the differences what they seem: at {100 * POWER:.0f} % power, {text}."


def _against_plain(results: ComparisonResults) -> str:
    best, plain = results.best_on_validation(), results.best_plain()
    pair = results.pair(best.name, plain.name)
    words = {"better": "better than", "worse": "worse than", "equivalent": "equivalent to"}
    how = words.get(pair.verdict, "not distinguished from")
    return (
        f"{best.name}, the best on validation, is {how} {plain.name} ({mean_alone(plain.scores['test'])}) on test: "
        f"{difference_in_words(pair.difference, results)}."
    )


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
            f"The best settings lie at an edge of the space for {listed(at_edge)}: a wider one may hold better."
        )
    return found


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
        f"Why {listed(positive)} cannot do {results.task} at length: {POSITIVE.transition}, so a step can shrink the "
        f"state and never change its sign ({POSITIVE.source}). {split.replace('_', ' at length ')}: "
        f"{', '.join(longer)}; chance is {chance:.2f}."
    ]


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
