"""The tables of a comparison as rows of text, from its records alone."""

from collections.abc import Mapping

import numpy as np

from gatedrnn.pages import signed
from gatedrnn.study.beside import Confusion
from gatedrnn.study.ladder import removed, steps_below
from gatedrnn.study.match import MARKED
from gatedrnn.study.results import ComparisonResults, ContenderResults, PlainScores, run_name
from gatedrnn.study.words import NONE, difference_in_words, with_interval
from gatedrnn.training.outcomes import Outcomes
from gatedrnn.training.result import Scores

HARDEST = 10
"""Examples that are listed."""


def score_rows(results: ComparisonResults) -> list[dict[str, str]]:
    """One row of text per contender and plain baseline, by column, the best on test first."""
    ranked = results.ranked()
    # Test first; then validation, whatever the task calls its other splits and in which order.
    splits = sorted(ranked[0].scores, key=lambda split: (split != "test", split != "validation"))
    return [_scores(row, ranked[0], splits, results) for row in ranked]


def _scores(
    row: ContenderResults | PlainScores,
    best: ContenderResults | PlainScores,
    splits: list[str],
    results: ComparisonResults,
) -> dict[str, str]:
    measured = results.measured
    peak, speed = (measured.memory_mib or {}).get(row.name), measured.speed.get(row.name)
    pair = None if row is best else results.pair(row.name, best.name)
    first, *others = splits
    return {
        "method": row.name,
        first: with_interval(row.scores[first]),
        "to the best": NONE if pair is None else difference_in_words(pair.difference, results),
        "verdict": "best" if pair is None else pair.verdict,
        **{split: with_interval(row.scores[split]) for split in others},
        "seconds": f"{results.seconds(row.name):.1f}",
        "tokens/s": NONE if speed is None else f"{speed.median:,.0f}",
        "MiB": NONE if peak is None else f"{peak:.0f}",
    }  # fmt: skip


def pair_rows(results: ComparisonResults) -> list[dict[str, str]]:
    """One row of text per pair of contenders and plain baselines, the better one first."""
    rows, others = [], results.ranked()
    while others:
        row, *others = others
        for other in others:
            pair = results.pair(row.name, other.name)
            shown = {"difference": difference_in_words(pair.difference, results), "verdict": pair.verdict}
            rows.append({"method": row.name, "beside": other.name, **shown})
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


def forecast_rows(results: ComparisonResults) -> list[dict[str, str]]:
    """One row of text per contender and plain baseline: all test scores of their forecasts, in the mean over seeds."""
    scores = {row.name: [run.scores["test"] for run in row.runs] for row in results.contenders}
    scores |= {plain.name: [plain.further["test"]] for plain in results.baseline.plain if plain.further}
    first = scores[results.contenders[0].name][0]
    columns = [name for name in Scores.model_fields if name != "loss" and getattr(first, name) is not None]
    return [
        {"method": name} | {
            column.replace("_", " "): f"{np.mean([getattr(score, column) for score in runs]):.4g}" for column in columns
        }
        for name, runs in scores.items()
    ]  # fmt: skip


def structure_rows(results: ComparisonResults) -> list[dict[str, str]]:
    """One row of text per contender, by column; what was matched has its mismatch beside it."""
    rows, asked = [], results.settings.contenders.match
    base = results.contenders[0].structure.multiply_adds_per_step
    for row in results.contenders:
        structure, parameters, start = row.structure, row.parameters, row.structure.initialisation
        structures = {
            "contender": row.name,
            "layers": str(structure.layers),
            "width": str(structure.hidden_size),
            "gates": " ".join(structure.gates) or NONE,
            "initialisation": NONE if start is None else f"{start.weights}; {start.biases}",
            "embedding": f"{parameters.embedding:,}",
            "core": f"{parameters.core:,}",
            "to baseline's": _mismatch(row.core_mismatch, row.match in ("params", "time")),
            "block": f"{parameters.block:,}",
            "head": f"{parameters.head:,}",
            "total": f"{parameters.total:,}",
            "state": NONE if structure.state_size is None else f"{structure.state_size:,}",
            "multiply-adds": f"{structure.multiply_adds_per_step:,}",
        }
        if "multiply-adds" in asked:
            structures["multiply-adds to baseline's"] = _mismatch(
                structure.multiply_adds_per_step / base - 1, row.match == "multiply-adds"
            )
        if "time" in asked:
            structures["steps"] = f"{row.runs[0].steps:,}"
        rows.append(structures | {"runs on": results.measured.runs_on[row.name]})
    return rows


def _mismatch(value: float, is_matched: bool) -> str:
    return f"{signed(value, '.2%')}{' !' if is_matched and abs(value) > MARKED else ''}"


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
        name: np.mean([outcome.values / np.maximum(outcome.counts, 1) for outcome in by_run], 0)
        for name, by_run in rates.items()
    }
    overall = np.mean(list(means.values()), 0)
    order = np.argsort(overall if higher else -overall, kind="stable")[:HARDEST]
    names = {"accuracy": "share right", "perplexity": "nats per token"}
    names |= {name: name for name in ("mase", "scaled_mae", "log_loss")}
    what = names.get(results.metric.name, f"{results.metric.name} + influence")
    return [
        {
            results.data.unit.partition(" of ")[0]: f"{index:,}", what: f"{overall[index]:.2f}",
            **{name: f"{outcome[index]:.2f}" for name, outcome in means.items()},
        }
        for index in order.tolist()
    ]  # fmt: skip
