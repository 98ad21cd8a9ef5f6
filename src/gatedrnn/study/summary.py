"""What a comparison's numbers say, in words and in rows. Reads results.json alone."""

from typing import Any

from gatedrnn.data.probes.groups import GROUPS
from gatedrnn.inspect.tracking import POSITIVE, tracking
from gatedrnn.registry import CELLS
from gatedrnn.study.ladder import BESIDE, LADDERS, cost, removed, rungs
from gatedrnn.study.match import MARKED
from gatedrnn.study.statistics import FEWEST_SEEDS, Estimate, excludes_zero, tells

MATCH_WORDS = {"layers": "equal layers and widths", "params": "equal parameters of the recurrent core"}
NONE = "–"


def headline(results: dict[str, Any]) -> list[str]:
    """Sentences on what the numbers show, and on what they do not."""
    sentences = []
    for match in ("layers", "params"):
        rows = [row for row in results["contenders"] if row["match"] == match]
        if rows:
            sentences.append(
                _against_baseline(match, rows, results["baseline"]["contender"], results["metric"]["name"])
            )
            sentences += _down_the_ladder(results, match)
            sentences += _over_test_documents(rows)
    linear = results["baseline"]["linear"]
    if linear is not None:
        sentences.append(_against_linear(results, linear))
    sentences += _remarks(results)
    return [*sentences, _scope(results)]


def _scope(results: dict[str, Any]) -> str:
    """What the intervals cover, and whether there are seeds enough for them."""
    runs = results["contenders"][0]["scores"]["test"]["runs"]
    if runs < FEWEST_SEEDS:
        return too_few(runs)
    return (
        f"Intervals are 95 % over {runs} seeds, and no narrower than the sampling error of the test split, on one data "
        "set with one recipe for all; they do not cover other data, other sizes or a recipe tuned for each cell, and "
        "are not corrected for being several."
    )


def too_few(runs: int) -> str:
    """Why nothing is said of differences."""
    return (
        f"{runs} seed{'s' if runs > 1 else ''}: too few to tell a difference from chance; name {FEWEST_SEEDS} or more "
        "with --seeds."
    )


def what_intervals_are(results: dict[str, Any]) -> str:
    """How the numbers in brackets are made, for the small print."""
    accuracies = "Wilson's for an accuracy, Newcombe's for a difference of two, rows not paired"
    documents = "test documents drawn anew, where there are five or more"
    return (
        "[ ]: 95 % intervals, of Student's t over seeds and of the sampling error of the test split together "
        f"({accuracies if results['metric']['name'] == 'accuracy' else documents})."
    )


def structure_rows(results: dict[str, Any]) -> list[dict[str, str]]:
    """One row of text per contender, by column."""
    rows = []
    for row in results["contenders"]:
        structure, parameters, residue = row["structure"], row["parameters"], row["core_residue"]
        mark = " !" if row["match"] == "params" and abs(residue) > MARKED else ""
        rows.append(
            {
                "contender": row["name"],
                "layers": str(structure["layers"]),
                "width": str(structure["hidden_size"]),
                "gates": " ".join(structure["gates"]),
                "initial values": "{weights}; {biases}".format(**structure["initial_values"]),
                "embedding": f"{parameters['embedding']:,}",
                "core": f"{parameters['core']:,}",
                "to baseline's": f"{residue:+.2%}{mark}",
                "block": f"{parameters['block']:,}",
                "head": f"{parameters['head']:,}",
                "total": f"{parameters['total']:,}",
                "state": f"{structure['state_size']:,}",
                "multiply-adds": f"{structure['multiply_adds_per_step']:,}",
                "runs on": results["measured"]["runs_on"][row["name"]],
            }
        )
    return rows


def score_rows(results: dict[str, Any]) -> list[dict[str, str]]:
    """One row of text per contender, and one for the linear baseline, by column."""
    measured, linear = results["measured"], results["baseline"]["linear"]
    rows = [_scores(row, measured) for row in results["contenders"]]
    if linear is None:
        return rows
    own = {split: f"{linear[f'{split}_accuracy']:.4f}" for split in ("validation", "test")}
    own |= {"contender": linear["name"], "seconds": f"{measured['linear']['training_seconds']:.1f}"}
    return [*rows, {column: own.get(column, NONE) for column in rows[0]}]


def ladder_rows(results: dict[str, Any], match: str) -> list[dict[str, str]]:
    """One row of text for each step down the ladder: what it takes away, costs and buys, against the step above."""
    measured = results["measured"]
    top = results["contenders"][0]
    first = {"step": top["name"], "takes away": NONE, **_price(top, None, measured, results)}
    return [first] + [
        {"step": row["name"], "takes away": removed(row), **_price(row, above, measured, results)}
        for row, above in rungs(results, match)
    ]


def _price(
    row: dict[str, Any], above: dict[str, Any] | None, measured: dict[str, Any], results: dict[str, Any]
) -> dict[str, str]:
    core, rate = row["parameters"]["core"], measured["speed"][row["name"]]["median"]
    shown = {"core": f"{core:,}", "core to step above": NONE, "test": with_interval(row["scores"]["test"])}
    shown |= {
        "score to step above": NONE,
        "tokens/s": f"{rate:,.0f}",
        "speed to step above": NONE,
    }
    if above is None:
        return shown
    shown["core to step above"] = f"{core / above['parameters']['core'] - 1:+.1%}"
    shown["score to step above"] = signed(cost(row, above, results))
    shown["speed to step above"] = f"{rate / measured['speed'][above['name']]['median']:.2f} ×"
    return shown


def with_interval(estimate: Estimate) -> str:
    """0.9123 [0.9100, 0.9150], or the mean alone where there is no interval."""
    mean, low, high = estimate["mean"], estimate["low"], estimate["high"]
    digits = _digits(mean)
    return f"{mean:.{digits}f}" if low is None else f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _digits(value: float) -> int:
    """After the point: four for a share, fewer for what is large."""
    return 4 if abs(value) < 10 else 2


def signed(difference: Estimate) -> str:
    """+0.0012 [-0.0003, +0.0027]."""
    if difference["low"] is None:
        return f"{difference['mean']:+.4f}"
    return f"{difference['mean']:+.4f} [{difference['low']:+.4f}, {difference['high']:+.4f}]"


def best_on_validation(results: dict[str, Any]) -> dict[str, Any]:
    """The contender with the best mean validation score: the one a user would choose before the test."""
    sign = 1 if results["metric"]["higher_is_better"] else -1
    return max(results["contenders"], key=lambda row: sign * row["scores"]["validation"]["mean"])


def mean_measured(row: dict[str, Any], measured: dict[str, Any], what: str) -> float | None:
    """Mean over seeds of a measured number; None where a run was too short for it."""
    values = [measured["runs"][f"{row['name']}/seed-{run['seed']}"][what] for run in row["runs"]]
    return None if any(value is None for value in values) else sum(values) / len(values)


def _scores(row: dict[str, Any], measured: dict[str, Any]) -> dict[str, str]:
    seconds, rate = mean_measured(row, measured, "training_seconds"), measured["speed"][row["name"]]["median"]
    peak = (measured["memory_mib"] or {}).get(row["name"])
    difference = row["difference_to_baseline"]
    return {
        "contender": row["name"],
        # Validation first, whatever the task calls its splits and in which order.
        **{split: with_interval(row["scores"][split]) for split in sorted(row["scores"], key="validation".__ne__)},
        "to baseline": "baseline" if difference is None else signed(difference["test"]),
        **({"over documents": _over_documents(row["over_documents"])} if "over_documents" in row else {}),
        **({"to linear": signed(row["difference_to_linear"])} if "difference_to_linear" in row else {}),
        "seconds": NONE if seconds is None else f"{seconds:.1f}",
        "tokens/s": f"{rate:,.0f}",
        "MiB": NONE if peak is None else f"{peak:.0f}",
    }


def _over_documents(ratio: Estimate | None) -> str:
    """How much above the baseline a perplexity is, over test documents drawn anew."""
    if ratio is None:
        return "baseline"
    low, high = (NONE if edge is None else f"{edge:+.1%}" for edge in (ratio["low"], ratio["high"]))
    return f"{ratio['mean']:+.1%} [{low}, {high}]"


def _over_test_documents(rows: list[dict[str, Any]]) -> list[str]:
    found = [f"{row['cell']} {_over_documents(row['over_documents'])}" for row in rows if row.get("over_documents")]
    if not found:
        return []
    return [f"Perplexity over the baseline's, 95 % intervals over test documents drawn anew: {'; '.join(found)}."]


def _listed(names: list[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _against_baseline(match: str, rows: list[dict[str, Any]], baseline: str, score: str) -> str:
    shown, not_shown, untold = [], [], []
    for row in rows:
        difference = row["difference_to_baseline"]["test"]
        if not tells(difference):
            untold.append(f"{row['cell']} {signed(difference)}")
        elif excludes_zero(difference):
            shown.append(f"{row['cell']} is {_apart(difference, baseline)}")
        else:
            not_shown.append(row["cell"])
    parts = shown[:]
    if not_shown:
        parts.append(f"no difference from {baseline} is shown for {_listed(not_shown)}")
    if untold:
        parts.append(f"too few seeds to tell from {baseline}: {', '.join(untold)}")
    return f"Test {score} with {MATCH_WORDS[match]}: {'; '.join(parts)}."


def _apart(difference: Estimate, other: str) -> str:
    """0.0200 below lstm (0.0100 to 0.0300): how far, and on which side."""
    word = "above" if difference["mean"] > 0 else "below"
    edges = sorted(abs(edge) for edge in (difference["low"], difference["high"]) if edge is not None)
    return f"{abs(difference['mean']):.4f} {word} {other} ({edges[0]:.4f} to {edges[1]:.4f})"


def _down_the_ladder(results: dict[str, Any], match: str) -> list[str]:
    """What each removal costs, and the whole way down."""
    ladder = results["settings"]["contenders"]["ladder"]
    if ladder is None:
        return []
    beside = BESIDE.get(ladder, ())
    steps = [(row, cost(row, above, results)) for row, above in rungs(results, match) if row["cell"] not in beside]
    parts = [f"without {removed(row)} {signed(price)}" for row, price in steps]
    shown = [row["cell"] for row, price in steps if excludes_zero(price)]
    verdict = f"shown to differ: {', '.join(shown)}" if shown else "no single step is shown to differ"
    if not all(tells(price) for _, price in steps):
        verdict = "too few seeds to tell"
    bottom = next(row for row in results["contenders"] if row["cell"] == LADDERS[ladder][-1] and row["match"] == match)
    whole = signed(bottom["difference_to_baseline"]["test"])
    return [
        f"Down the ladder with {MATCH_WORDS[match]}, test {results['metric']['name']} of each step less that of the "
        f"step above: {'; '.join(parts)} ({verdict}). The whole way from {ladder} to {bottom['cell']}: {whole}."
    ]


def _against_linear(results: dict[str, Any], linear: dict[str, Any]) -> str:
    best = best_on_validation(results)
    difference = best["difference_to_linear"]
    name = f"The contender with the best validation score, {best['name']},"
    against = f"{linear['name']} ({linear['test_accuracy']:.4f})"
    if not tells(difference):
        return f"{name} to {against} on test: {signed(difference)}; too few seeds to tell."
    if not excludes_zero(difference):
        return f"{name} is not shown to differ from {against} on test: {signed(difference)}."
    return f"{name} is {_apart(difference, against)} on test."


def _remarks(results: dict[str, Any]) -> list[str]:
    """What is known about a task beyond the numbers."""
    if results["task"] not in {probe.name for probe in GROUPS}:
        return []
    positive = [row["cell"] for row in results["contenders"] if tracking(CELLS[row["cell"]].equations()) is POSITIVE]
    if not positive:
        return []
    # Tests at other lengths are named after them; the longest is the last one.
    split = list(results["contenders"][0]["scores"])[-1]
    longer = [f"{row['name']} {with_interval(row['scores'][split])}" for row in results["contenders"]]
    chance = 1 / len(results["data"]["label_names"])
    return [
        f"Why {_listed(list(dict.fromkeys(positive)))} cannot do {results['task']} at length: {POSITIVE.transition}, "
        f"so a step can fade the state but never turn it round ({POSITIVE.source}). "
        f"{split.replace('_', ' at length ')}: {', '.join(longer)}; chance is {chance:.2f}."
    ]
