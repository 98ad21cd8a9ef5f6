"""The tables of a study: in its report, in the terminal, and as files for papers and spreadsheets."""

import csv
import io
from collections.abc import Mapping

import numpy as np
from rich.box import SIMPLE, SIMPLE_HEAD
from rich.table import Table

from gatedrnn.pages import render, signed
from gatedrnn.study import probe_summary, verdict
from gatedrnn.study.joined import Joined, rank_rows, scores_by_contender
from gatedrnn.study.joined import sentences as joined_sentences
from gatedrnn.study.match import MARKED
from gatedrnn.study.results import ComparisonResults, Confusion, ContenderResults, PlainScores, ProbeResults, run_name
from gatedrnn.study.statistics import Estimate
from gatedrnn.study.verdict import MATCH_WORDS, NONE, difference_in_words, removed, steps_below, with_interval
from gatedrnn.terminal import Console
from gatedrnn.training.outcomes import Outcomes
from gatedrnn.training.result import Scores

_STRUCTURE = ("contender", "layers", "width", "core", "to baseline's", "total", "state")
LADDER = ("step", "removes", "core to step above", "score to step above", "speed to step above")
SCORES = ("method", "test", "verdict", "seconds")
FORECASTS = ("method", "mase", "mae", "smape", "weighted quantile loss", "coverage")
WORDS = ("contender", "method", "step", "removes", "verdict")
"""Columns of words, which are aligned to the left."""


def print_comparison(results: ComparisonResults, console: Console) -> None:
    """The main columns and the headline."""
    task = results.task
    _print_table(f"{task}: structure", structure_rows(results), console, _STRUCTURE)
    title = f"{task}: test {results.metric.name}, mean and 95 % interval"
    _print_table(title, score_rows(results), console, SCORES)
    if results.metric.name == "mase":
        _print_table(f"{task}: test scores", forecast_rows(results), console, FORECASTS)
    asked = results.settings.contenders
    for match in asked.match if asked.ladder is not None else ():
        title = f"{task}: the ladder with {MATCH_WORDS[match]}"
        _print_table(title, ladder_rows(results, match), console, LADDER)
    _print_sentences(verdict.headline(results), console)


def print_joined(joined: Joined, console: Console) -> None:
    """Ranks, and what several comparisons show together."""
    _print_table("ranks by test score, and price in parts of the baseline's", rank_rows(joined), console)
    _print_sentences(joined_sentences(joined), console)


def print_probes(results: ProbeResults, console: Console) -> None:
    """The verdicts."""
    rows = probe_summary.verdict_rows(results)
    console.print("longest solved length (seeds); scaled accuracy where none is solved", highlight=False)
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for column in rows[0]:  # narrow enough for a terminal
        first, widest = column == "task", max(len(part) for part in column.split("-"))
        table.add_column(
            column.replace("-", "-\n"), justify="left" if first else "right", no_wrap=first, min_width=widest
        )
    for row in rows:
        table.add_row(*row.values())
    console.print(table)
    _print_sentences(probe_summary.sentences(results), console)


def _print_table(
    title: str, rows: list[dict[str, str]], console: Console, columns: tuple[str, ...] | None = None
) -> None:
    """Numbers stay whole where there is not enough room: words are what is broken into lines."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    columns = tuple(column for column in columns or rows[0] if column in rows[0])
    for column in columns:
        if column in WORDS:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column.replace(" ", "\n"), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(row[column] for column in columns))
    console.print(table)


def _print_sentences(sentences: list[str], console: Console) -> None:
    for sentence in sentences:
        console.print(f"• {sentence}", highlight=False)


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
    overall, unit = np.mean(list(means.values()), 0), next(iter(rates.values()))[0].unit
    order = np.argsort(overall if higher else -overall, kind="stable")[:HARDEST]
    names = {"accuracy": "share right", "perplexity": "nats per token"}
    names |= {name: name for name in ("mase", "scaled_mae", "log_loss")}
    what = names.get(results.metric.name, f"{results.metric.name} + influence")
    return [
        {
            unit.partition(" of ")[0]: f"{index:,}", what: f"{overall[index]:.2f}",
            **{name: f"{outcome[index]:.2f}" for name, outcome in means.items()},
        }
        for index in order.tolist()
    ]  # fmt: skip


COLUMNS = (
    "task", "contender", "cell", "match", "split", "metric", "mean", "low", "high", "seeds",
    "difference", "difference_low", "difference_high", "verdict",
    "core_parameters", "total_parameters", "training_seconds", "tokens_per_second", "memory_mib",
)  # fmt: skip
"""low and high: of the 95 % interval. difference and verdict: to the baseline, on the test split. A plain
baseline has no cell, and of its sizes the total alone."""


def as_csv(results: Mapping[str, ComparisonResults]) -> str:
    """Every score with its interval; nothing where there is no value.

    Args:
        results: by the name of their task.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for task, study in results.items():
        memory = study.measured.memory_mib or {}
        for row in study.contenders:
            shared = {
                "contender": row.name, "cell": row.cell, "match": row.match, "core_parameters": row.parameters.core,
                "total_parameters": row.parameters.total, "training_seconds": f"{study.training_seconds(row):.3f}",
                "tokens_per_second": f"{study.measured.speed[row.name].median:.0f}", "memory_mib": memory.get(row.name),
            }  # fmt: skip
            writer.writerows(_lines(task, study, shared, row.scores))
        for plain in study.baseline.plain:
            seconds = study.measured.plain_seconds[plain.name]
            shared = {
                "contender": plain.name, "match": "plain", "total_parameters": plain.parameters,
                "training_seconds": f"{seconds:.3f}",
            }  # fmt: skip
            writer.writerows(_lines(task, study, shared, plain.scores))
    return text.getvalue()


def _lines(
    task: str, results: ComparisonResults, shared: Mapping[str, object], scores: Mapping[str, Estimate]
) -> list[dict[str, object]]:
    lines, name, baseline = [], str(shared["contender"]), results.baseline.contender
    for split, estimate in scores.items():
        line = {
            **shared, "task": task, "split": split, "metric": results.metric.name, "mean": estimate.mean,
            "low": estimate.low, "high": estimate.high, "seeds": estimate.runs,
        }  # fmt: skip
        if split == "test" and name != baseline:
            pair = results.pair(name, baseline)
            gap = pair.difference
            line |= {
                "difference": gap.mean,
                "difference_low": gap.low,
                "difference_high": gap.high,
            }
            line["verdict"] = pair.verdict
        lines.append(line)
    return lines


def as_latex(results: ComparisonResults) -> str:
    """Test scores, differences to the baseline and prices, for the package booktabs."""
    rows = [{column: row[column] for column in SCORES} for row in score_rows(results)]
    return render("gatedrnn.study", "scores.tex", rows=rows)


def joined_as_latex(joined: Joined) -> str:
    """Test scores of all tasks and average ranks, for the package booktabs."""
    return render("gatedrnn.study", "scores.tex", rows=scores_by_contender(joined))
