"""The verdict of a comparison in sentences, and its tables, from its record alone."""

from gatedrnn.data.probes.groups import GROUPS
from gatedrnn.inspect.tracking import POSITIVE
from gatedrnn.pages import plural, signed
from gatedrnn.study.ladder import BESIDE, LADDERS, removed, steps_below
from gatedrnn.study.match import MARKED
from gatedrnn.study.results import ComparisonResults, ContenderResults, LinearScores, run_name
from gatedrnn.study.statistics import FEWEST_SEEDS, Estimate, excludes_zero, tells

MATCH_WORDS = {"layers": "equal layers and widths", "params": "equal parameters of the recurrent core"}
NONE = "–"


def headline(results: ComparisonResults) -> list[str]:
    """Sentences on the differences that the results show, and on their limits."""
    sentences = []
    for match in ("layers", "params"):
        rows = [row for row in results.contenders if row.match == match]
        if rows:
            sentences.append(_against_baseline(match, rows, results))
            sentences += _down_the_ladder(results, match)
            sentences += _over_test_documents(rows)
    if results.baseline.linear is not None:
        sentences.append(_against_linear(results, results.baseline.linear))
    sentences += _remarks(results)
    return [*sentences, _scope(results)]


def _scope(results: ComparisonResults) -> str:
    """What the intervals cover; that there are too few seeds, if so."""
    runs = results.contenders[0].scores["test"].runs
    if runs < FEWEST_SEEDS:
        return too_few(runs)
    return (
        f"Intervals are 95 % over {runs} seeds, and no narrower than the sampling error of the test split, on one data "
        "set with one recipe for all; they do not cover other data, other sizes or a recipe tuned for each cell, and "
        "are not corrected for multiple comparisons."
    )


def too_few(seeds: int) -> str:
    """Why there is no verdict."""
    return (
        f"{plural(seeds, 'seed')}: too few to distinguish a difference from chance; give {FEWEST_SEEDS} or more with "
        "--seeds."
    )


def intervals_explained(results: ComparisonResults) -> str:
    """How the intervals in brackets are made, for the small print."""
    accuracies = "Wilson's for an accuracy, Newcombe's for a difference of two, rows not paired"
    documents = "a bootstrap over test documents, where there are five or more"
    return (
        "[ ]: 95 % intervals, of Student's t over seeds and of the sampling error of the test split together "
        f"({accuracies if results.metric.name == 'accuracy' else documents})."
    )


def structure_rows(results: ComparisonResults) -> list[dict[str, str]]:
    """One row of text per contender, by column."""
    rows = []
    for row in results.contenders:
        structure, parameters = row.structure, row.parameters
        mark = " !" if row.match == "params" and abs(row.core_mismatch) > MARKED else ""
        rows.append(
            {
                "contender": row.name,
                "layers": str(structure.layers),
                "width": str(structure.hidden_size),
                "gates": " ".join(structure.gates),
                "initialisation": f"{structure.initialisation.weights}; {structure.initialisation.biases}",
                "embedding": f"{parameters.embedding:,}",
                "core": f"{parameters.core:,}",
                "to baseline's": f"{signed(row.core_mismatch, '.2%')}{mark}",
                "block": f"{parameters.block:,}",
                "head": f"{parameters.head:,}",
                "total": f"{parameters.total:,}",
                "state": f"{structure.state_size:,}",
                "multiply-adds": f"{structure.multiply_adds_per_step:,}",
                "runs on": results.measured.runs_on[row.name],
            }
        )
    return rows


def score_rows(results: ComparisonResults) -> list[dict[str, str]]:
    """One row of text per contender, and one for the linear baseline, by column."""
    linear, measured = results.baseline.linear, results.measured.linear
    rows = [_scores(row, results) for row in results.contenders]
    if linear is None:
        return rows
    own = {
        "contender": linear.name, "validation": f"{linear.validation_accuracy:.4f}",
        "test": f"{linear.test_accuracy:.4f}", "seconds": f"{measured.training_seconds:.1f}" if measured else NONE,
    }  # fmt: skip
    return [*rows, {column: own.get(column, NONE) for column in rows[0]}]


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
        higher = by_name[above.contender]
        rows.append(
            shown(row, removed(row))
            | {
                "core to step above": signed(row.parameters.core / higher.parameters.core - 1, ".1%"),
                "score to step above": difference_in_words(above.difference),
                "speed to step above": f"{rates[row.name] / rates[higher.name]:.2f} ×",
            }
        )
    return rows


def with_interval(estimate: Estimate) -> str:
    """0.9123 [0.9100, 0.9150], or the mean alone where there is no interval."""
    digits = 4 if abs(estimate.mean) < 10 else 2
    mean = f"{estimate.mean:.{digits}f}"
    return mean if estimate.low is None else f"{mean} [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"


def difference_in_words(difference: Estimate, form: str = ".4f") -> str:
    """+0.0012 [-0.0003, +0.0027]."""
    mean = signed(difference.mean, form)
    if difference.low is None or difference.high is None:
        return mean
    return f"{mean} [{signed(difference.low, form)}, {signed(difference.high, form)}]"


def best_on_validation(results: ComparisonResults) -> ContenderResults:
    """The contender with the best mean validation score: the one to choose before the test."""
    sign = 1 if results.metric.higher_is_better else -1
    return max(results.contenders, key=lambda row: sign * row.scores["validation"].mean)


def mean_seconds(row: ContenderResults, results: ComparisonResults) -> float:
    """Of training, over seeds."""
    runs = results.measured.runs
    return sum(runs[run_name(row.name, run.seed)].training_seconds for run in row.runs) / len(row.runs)


def _scores(row: ContenderResults, results: ComparisonResults) -> dict[str, str]:
    measured, difference = results.measured, row.difference_to_baseline
    peak = (measured.memory_mib or {}).get(row.name)
    columns = {"contender": row.name}
    # Validation first, whatever the task calls its splits and in which order.
    columns |= {split: with_interval(row.scores[split]) for split in sorted(row.scores, key="validation".__ne__)}
    columns["to baseline"] = "baseline" if difference is None else difference_in_words(difference["test"])
    if any(other.over_documents is not None for other in results.contenders):
        columns["over documents"] = _over_documents(row.over_documents)
    if row.difference_to_linear is not None:
        columns["to linear"] = difference_in_words(row.difference_to_linear)
    return columns | {
        "seconds": f"{mean_seconds(row, results):.1f}",
        "tokens/s": f"{measured.speed[row.name].median:,.0f}",
        "MiB": NONE if peak is None else f"{peak:.0f}",
    }


def _over_documents(ratio: Estimate | None) -> str:
    """A perplexity over the baseline's, minus one, with its interval over test documents."""
    if ratio is None:
        return "baseline"
    low, high = (NONE if edge is None else signed(edge, ".1%") for edge in (ratio.low, ratio.high))
    return f"{signed(ratio.mean, '.1%')} [{low}, {high}]"


def _over_test_documents(rows: list[ContenderResults]) -> list[str]:
    found = [f"{row.cell} {_over_documents(row.over_documents)}" for row in rows if row.over_documents]
    if not found:
        return []
    return [f"Perplexity over the baseline's, with 95 % intervals over test documents: {'; '.join(found)}."]


def _listed(names: list[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _against_baseline(match: str, rows: list[ContenderResults], results: ComparisonResults) -> str:
    baseline = results.contenders[0].name
    shown, not_shown, undecided = [], [], []
    for row in rows:
        assert row.difference_to_baseline is not None
        difference = row.difference_to_baseline["test"]
        if not tells(difference):
            undecided.append(f"{row.cell} {difference_in_words(difference)}")
        elif excludes_zero(difference):
            shown.append(f"{row.cell} is {_distance(difference, baseline)}")
        else:
            not_shown.append(row.cell)
    parts = shown[:]
    if not_shown:
        parts.append(f"no difference from {baseline} is shown for {_listed(not_shown)}")
    if undecided:
        parts.append(f"differences from {baseline}, with too few seeds for a verdict: {', '.join(undecided)}")
    return f"Test {results.metric.name} with {MATCH_WORDS[match]}: {'; '.join(parts)}."


def _distance(difference: Estimate, other: str) -> str:
    """0.0200 below lstm (0.0100 to 0.0300): how far, and on which side."""
    word = "above" if difference.mean > 0 else "below"
    edges = sorted(abs(edge) for edge in (difference.low, difference.high) if edge is not None)
    return f"{abs(difference.mean):.4f} {word} {other} ({edges[0]:.4f} to {edges[1]:.4f})"


def _down_the_ladder(results: ComparisonResults, match: str) -> list[str]:
    """The cost of each removal, and of all of them."""
    ladder = results.settings.contenders.ladder
    if ladder is None:
        return []
    steps = [
        (row, above.difference) for row, above in steps_below(results, match) if row.cell not in BESIDE.get(ladder, ())
    ]
    parts = [f"without {removed(row)} {difference_in_words(price)}" for row, price in steps]
    shown = [row.cell for row, price in steps if excludes_zero(price)]
    verdict = f"shown to differ: {', '.join(shown)}" if shown else "no single step is shown to differ"
    if not all(tells(price) for _, price in steps):
        verdict = "too few seeds for a verdict"
    bottom = next(row for row in results.contenders if row.cell == LADDERS[ladder][-1] and row.match == match)
    assert bottom.difference_to_baseline is not None
    return [
        f"Down the ladder with {MATCH_WORDS[match]}, test {results.metric.name} of each step less that of the step "
        f"above: {'; '.join(parts)} ({verdict}). From {ladder} to {bottom.cell}: "
        f"{difference_in_words(bottom.difference_to_baseline['test'])}."
    ]


def _against_linear(results: ComparisonResults, linear: LinearScores) -> str:
    best = best_on_validation(results)
    difference = best.difference_to_linear
    assert difference is not None
    name = f"The contender with the best validation score, {best.name},"
    against = f"{linear.name} ({linear.test_accuracy:.4f})"
    if not tells(difference):
        shown = difference_in_words(difference)
        return f"{name} differs from {against} by {shown} on test; too few seeds for a verdict."
    if not excludes_zero(difference):
        return f"{name} is not shown to differ from {against} on test: {difference_in_words(difference)}."
    return f"{name} is {_distance(difference, against)} on test."


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
