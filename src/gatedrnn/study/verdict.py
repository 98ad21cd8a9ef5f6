"""The verdict of a comparison, in sentences; scores, differences and margins in words."""

import math
from typing import TypeAlias

from gatedrnn.kinds.scan.path import POSITIVE
from gatedrnn.pages import plural, signed
from gatedrnn.study.results import ComparisonResults, ContenderResults, PlainScores
from gatedrnn.study.settings import BESIDE, LADDERS
from gatedrnn.study.statistics import MAX_GROWTH, MAX_SEEDS, POWER, USUAL_SEEDS, Estimate, Pair
from gatedrnn.tasks.probes.suite import GROUPS
from gatedrnn.training.task import task_named

MATCH_WORDS = {
    "layers": "equal layers and widths", "params": "equal parameters of the recurrent core",
    "multiply-adds": "equal multiply-adds a step", "time": "equal seconds of training",
}  # fmt: skip
SAID = {
    "balanced_accuracy": "balanced accuracy", "micro_f1": "micro-F1", "macro_f1": "macro-F1", "auroc": "AUROC",
    "average_precision": "average precision", "log_loss": "log loss", "r2": "R²", "spearman": "Spearman's correlation",
    "perplexity": "perplexity", "mase": "MASE", "scaled_mae": "scaled error",
}  # fmt: skip
"""The names of metrics in a sentence."""
REMOVED = {
    "lstm-no-output-gate": "the output gate (and torch's second bias)",
    "lstm-input-gated": "the state from the gates",
    "lstm-normalized": "one degree of freedom: gates sum to one",
    "minlstm": "both tanh",
    "gru-no-reset-gate": "the reset gate (and torch's second bias)",
    "gru-input-gated": "the state from the gates",
    "mingru": "tanh",
    "mgu": "the reset gate, whose work the update gate does",
}
"""The part that a cell lacks in comparison with the one above it; `mgu` in comparison with gru."""
NONE = "–"


def with_interval(estimate: Estimate) -> str:
    """0.9123 [0.9100, 0.9150], or the mean alone where there is no interval."""
    if estimate.low is None:
        return mean_alone(estimate)
    digits = _digits(estimate)
    return f"{mean_alone(estimate)} [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"


def mean_alone(estimate: Estimate) -> str:
    return f"{estimate.mean:.{_digits(estimate)}f}"


def _digits(estimate: Estimate) -> int:
    return 4 if abs(estimate.mean) < 10 else 2


def difference_in_words(difference: Estimate, results: ComparisonResults) -> str:
    """+0.0012 [-0.0003, +0.0027], of accuracies and errors; +1.2% [-0.3%, +2.7%], of perplexities."""
    form = ".1%" if results.metric.score == "perplexity" else ".4f"
    mean = signed(difference.mean, form)
    if difference.low is None or difference.high is None:
        return mean
    return f"{mean} [{signed(difference.low, form)}, {signed(difference.high, form)}]"


def plain_score(row: ContenderResults | PlainScores, results: ComparisonResults) -> str:
    """99.0 %, perplexity 132 or MASE 0.523: of the test, as a person would say it."""
    mean, name = row.scores["test"].mean, results.metric.name
    if name == "accuracy":
        return f"{100 * mean:.1f} %"
    return f"{SAID[name]} {mean:,.0f}" if mean >= 100 else f"{SAID[name]} {mean:.3g}"


def gap_in_words(difference: Estimate, results: ComparisonResults) -> str:
    """1.7 points, 12 % or 0.021: how far apart two scores are."""
    gap = abs(difference.mean)
    if math.isinf(gap):
        return "more than any number"
    if results.metric.name == "accuracy":
        return f"{100 * gap:.1f} points"
    if results.metric.score == "perplexity":
        return f"{100 * gap:,.0f} %" if gap >= 0.1 else f"{100 * gap:.2g} %"
    return f"{gap:,.0f}" if gap >= 10 else f"{gap:.2g}"


def duration(seconds: float) -> str:
    """< 0.01 s, 0.042 s, 3.1 s, 410 s or 12 min."""
    if seconds < 10:
        return "< 0.01 s" if seconds < 0.01 else f"{seconds:.2g} s"
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def margin_in_words(results: ComparisonResults) -> str:
    """0.5 points, 1 % of the perplexity, or 0.01 in mase."""
    if results.metric.score == "perplexity":
        return f"{100 * results.margin:g} % of the perplexity"
    if results.metric.name == "accuracy":
        return f"{100 * results.margin:g} points"
    return f"{results.margin:g} in {SAID[results.metric.name]}"


def listed(names: list[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def removed(row: ContenderResults) -> str:
    """The part that this step removes, in words."""
    in_its_place = " (g in the candidate's place)" if row.structure.options.get("activation") == "g" else ""
    return REMOVED[row.cell] + in_its_place


def steps_below(results: ComparisonResults, match: str) -> list[tuple[ContenderResults, Pair]]:
    """The steps below the first with their differences, in the order of the ladder, the cells beside it last."""
    ladder = results.settings.contenders.ladder
    if ladder is None:
        return []
    rows = {row.cell: row for row in results.contenders if row.match == match}
    cells = [*LADDERS[ladder][1:], *BESIDE.get(ladder, ())]
    steps = [rows[cell] for cell in cells if cell in rows]
    return [(row, results.pair(row.name, row.step_above)) for row in steps if row.step_above is not None]


Row: TypeAlias = ContenderResults | PlainScores
_NOTICED = 1.1
"""Times as fast: less is not worth a sentence."""
_NAMED = 3
"""The most contenders beside the best that a sentence names."""


def headline(results: ComparisonResults) -> list[str]:
    """Sentences on what to take, what may be as good, what is worse and what would help; then remarks, and what the
    intervals cover.
    """
    sentences = verdict(results)
    for match in MATCH_WORDS:
        sentences += _down_the_ladder(results, match)
    return [*sentences, *_edges(results), *_remarks(results), _scope(results)]


def held_equal(results: ComparisonResults) -> str:
    """A sentence on what all contenders share, and on which part of a run they are."""
    if results.settings.contenders.recipes:
        return f"{_shared(results)}; with the parts that train puts beside cells"
    alone = (
        "; cells alone, --recipes adds what train puts beside them" if task_named(results.task).recipe.beside else ""
    )
    return f"{_shared(results)}{alone}"


def _shared(results: ComparisonResults) -> str:
    if results.search is not None:
        trials = plural(results.search.trials, "random trial")
        return f"the same data; for each contender the settings of the best of its {trials} on validation"
    if "time" in results.settings.contenders.match:
        return "the same data in the same order and the same recipe for all; -time: the same seconds of training"
    return "the same data in the same order, the same number of steps and the same recipe for all"


def verdict(results: ComparisonResults) -> list[str]:
    """Sentences on what to take of all contenders and plain baselines; what may be as good, and is cheaper; what is
    worse; and what would help.
    """
    best, *others = results.ranked()
    against = {row.name: results.pair(row.name, best.name) for row in others}
    rivals = [row for row in others if row.name in results.rivals]
    worse = [row for row in others if against[row.name].verdict == "worse"]
    beside = [row for row in others if row not in worse]
    sentences = [_undecided(results, best, rivals) if rivals else _taken(results, best)]
    if beside:
        as_good = _as_good(results, [row for row in beside if row not in rivals], against)
        second = " ".join([*as_good, *_cheapest(results, best, beside)])
        sentences += [second] if second else []
    if worse:
        sentences.append(_worse(results, [against[row.name] for row in worse]))
    if (longer := _longer(results)) is not None:
        return [*sentences, longer]
    untold = [pair for pair in against.values() if pair.verdict == "cannot tell" and pair.difference.low is not None]
    return [*sentences, _what_would_help(untold, results.data.unit)] if untold else sentences


def _taken(results: ComparisonResults, best: Row) -> str:
    if isinstance(best, PlainScores):
        return f"Take {_named([best], results)}, a plain method: no cell is better."
    return f"Take {_named([best], results)}."


def _undecided(results: ComparisonResults, best: Row, rivals: list[Row]) -> str:
    ahead, pairs = f"Not decided: {_named([best], results)} is ahead", [results.pair(r.name, best.name) for r in rivals]
    if any(pair.difference.low is None for pair in pairs):
        if results.contenders[0].scores["test"].runs > 1:
            return f"{ahead}, but one {results.data.unit} does not say what others give: the test needs 2 or more."
        return f"{ahead}, but one seed does not say what others give: give 2 or more with --seeds."
    return f"{ahead}, but {_named(rivals, results)} may be better: {_too_few(pairs)} to say."


def _as_good(results: ComparisonResults, beside: list[Row], against: dict[str, Pair]) -> list[str]:
    """Sentences on who is shown to be as good, and who is not shown to be worse."""
    equal, untold = (
        [row for row in beside if against[row.name].verdict == verdict] for verdict in ("equivalent", "cannot tell")
    )
    parts = []
    if equal:
        verb = "is" if len(equal) == 1 else "are"
        parts.append(f"{_named(equal, results)} {verb} as good, within {margin_in_words(results)}")
    if untold:
        few = _too_few([against[row.name] for row in untold])
        parts.append(f"{_named(untold, results)} may be as good: {few} to say")
    return [f"{'; '.join(parts)}."] if parts else []


def _too_few(pairs: list[Pair]) -> str:
    return "the seeds are too few" if all(pair.more_seeds is not None for pair in pairs) else "the test is too small"


def _named(rows: list[Row], results: ComparisonResults) -> str:
    return _few([f"{row.name} ({plain_score(row, results)})" for row in rows])


def _few(names: list[str]) -> str:
    """The first, and how many more."""
    return listed([*names[:_NAMED], *([f"{len(names) - _NAMED} more"] if len(names) > _NAMED else [])])


def _cheapest(results: ComparisonResults, best: Row, beside: list[Row]) -> list[str]:
    """The one that takes the least time of those that are not shown to be worse."""
    cheapest = min(beside, key=lambda row: results.seconds(row.name))
    seconds, most = results.seconds(cheapest.name), results.seconds(best.name)
    if most <= seconds:
        return [f"{best.name} is also the cheapest of them: {duration(most)} of training."]
    if seconds * _NOTICED > most:
        return []
    which = f"{cheapest.name} is the cheapest of them" if len(beside) > 1 else f"{cheapest.name} is cheaper"
    return [f"{which}: {duration(seconds)} of training, {best.name} {duration(most)}."]


def _worse(results: ComparisonResults, pairs: list[Pair]) -> str:
    gaps = list(dict.fromkeys(gap_in_words(pair.difference, results) for pair in (pairs[0], pairs[-1])))
    by = f"{gaps[0].partition(' ')[0]} to {gaps[1]}" if len(gaps) > 1 else gaps[0]
    return f"Worse, by {by}: {listed([pair.contender for pair in pairs])}."


def _longer(results: ComparisonResults) -> str | None:
    """The advice that comes before more seeds: on a training that had not ended where it stopped."""
    rising = [row for row in results.contenders if 2 * row.still_improving > len(row.runs)]
    if not rising:
        return None
    asked, train = results.settings.contenders, results.settings.train
    if asked.train_minutes is not None:
        flag = f"--train-minutes {2 * asked.train_minutes:g}"
    elif train.get("total_steps"):
        flag = f"--total-steps {2 * rising[0].runs[0].steps}"
    else:
        flag = f"--epochs {2 * int(str(train['epochs']))}"
    names = "all" if len(rising) == len(results.contenders) > 1 else _few([row.name for row in rising])
    return f"Training was too short for {names}: validation was still improving. {flag} comes before more seeds."


def _what_would_help(pairs: list[Pair], unit: str) -> str:
    """The seeds or examples that would give the pairs without a verdict one."""
    by_seeds = [pair for pair in pairs if pair.more_seeds is not None]
    by_examples = [pair for pair in pairs if pair.more_examples is not None]
    parts = []
    if by_seeds:
        easiest = min(by_seeds, key=lambda pair: pair.more_seeds or 0)
        more = plural(easiest.more_seeds or 0, "more seed")
        parts.append(f"{more} would decide between {easiest.contender} and {easiest.other}")
    if by_examples:
        easiest = min(by_examples, key=lambda pair: pair.more_examples or 0)
        seeds = max(USUAL_SEEDS, easiest.difference.runs)
        parts.append(
            f"a test of {plural(easiest.more_examples or 0, unit)}, with {seeds} seeds, would decide between "
            f"{easiest.contender} and {easiest.other}"
        )
    if not parts:
        return (
            f"What is open would take more than {MAX_SEEDS} more seeds, and more than {MAX_GROWTH:,} times as many "
            "test examples: it lies at the margin, or there are few examples."
        )
    return f"At {100 * POWER:.0f} % power, were the differences what they seem, {'; '.join(parts)}."


def _down_the_ladder(results: ComparisonResults, match: str) -> list[str]:
    """Sentences on which removals are shown to cost or to gain something, and all of them together."""
    ladder = results.settings.contenders.ladder
    if ladder is None or match not in results.settings.contenders.match:
        return []
    steps = [(row, pair) for row, pair in steps_below(results, match) if row.cell not in BESIDE.get(ladder, ())]
    shown = [
        f"without {removed(row)} it is {pair.verdict} by {gap_in_words(pair.difference, results)}"
        for row, pair in steps
        if pair.verdict in ("better", "worse")
    ]
    shown_steps = "; ".join(shown) or "no single step is shown to differ from the one above"
    bottom = next(row for row in results.contenders if row.cell == LADDERS[ladder][-1] and row.match == match)
    whole = results.pair(bottom.name, results.baseline.contender)
    return [
        f"Down the ladder with {MATCH_WORDS[match]}: {shown_steps}. {bottom.cell} beside {ladder}: {whole.verdict}, "
        f"{difference_in_words(whole.difference, results)}."
    ]


def _edges(results: ComparisonResults) -> list[str]:
    """Sentences on where a wider space might hold something better, and where the search ended early."""
    search = results.search
    if search is None:
        return []
    sentences = []
    if search.trials < search.asked:
        sentences.append(
            f"The search ended after {search.trials} of {search.asked} trials of each contender, with the "
            f"{search.minutes:g} minutes that it was given."
        )
    at_edge = [
        f"{name} ({', '.join(f'{setting} at the {edge}' for setting, edge in edges.items())})"
        for name, edges in search.edges.items()
        if edges
    ]
    if at_edge:
        sentences.append(
            f"The best settings lie at an edge of the space for {listed(at_edge)}: a wider one may hold better."
        )
    return sentences


def _remarks(results: ComparisonResults) -> list[str]:
    """Sentences on what is known about a task beyond the measurements."""
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
    """A sentence on what the intervals cover."""
    runs = results.contenders[0].scores["test"].runs
    if runs < 2:
        return "1 seed: no interval and no verdict between cells; give 2 or more with --seeds."
    uncovered = "other data, other sizes or " + (
        "a recipe tuned for each cell" if results.search is None else "another search, which may choose other settings"
    )
    return (
        f"Intervals are 95 % over other seeds ({runs} were run) and other test splits of the kind "
        f"({plural(results.data.examples['test'], results.data.unit)}); those of differences hold for all pairs "
        f"together. They do not cover {uncovered}."
    )


def intervals_explained(results: ComparisonResults) -> str:
    """A sentence for the small print on how the intervals in brackets are made."""
    return (
        "[ ]: 95 % intervals over seeds and test examples together, which are the same for all contenders. A "
        f"difference below {margin_in_words(results)} does not matter. Differences are corrected for "
        f"{plural(len(results.pairs), 'pair')}: their intervals hold together, and the word is what the interval says."
    )
