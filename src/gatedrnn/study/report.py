"""The pages and terminal tables of comparisons and probes, from the records in a study's folder alone."""

from collections.abc import Mapping
from pathlib import Path

import plotly.graph_objects as go
from pydantic import JsonValue
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from gatedrnn import manifest
from gatedrnn.pages import environment_rows, write_page
from gatedrnn.study import probe_summary, tables, verdict
from gatedrnn.study.beside import Confusion, Curves, beside
from gatedrnn.study.figures import figures, reach_figure, shows_confusion
from gatedrnn.study.results import ComparisonResults, ProbeResults
from gatedrnn.study.words import MATCH_WORDS
from gatedrnn.train.outcomes import OUTCOMES, Outcomes, read_outcomes
from gatedrnn.train.result import read_record

TERMINAL_STRUCTURE = ("contender", "layers", "width", "core", "to baseline's", "total", "state")
TERMINAL_LADDER = ("step", "removes", "core to step above", "score to step above", "speed to step above")
TERMINAL_SCORES = ("contender", "test", "to baseline", "seconds", "tokens/s")
WORDS = ("contender", "step", "removes")
"""Columns of words, which are aligned to the left."""


def write_comparison(folder: Path) -> Path:
    """Write report.html (one file, no network) and report.md from the records in `folder`; the path of the page.

    Raises:
        Damaged: results.json is missing, or a record cannot be read.
    """
    results = read_record(folder / ComparisonResults.FILE, ComparisonResults)
    curves, confusion = beside(folder, Curves), beside(folder, Confusion)
    missing = []
    if curves is None:
        missing.append(f"{Curves.FILE} is missing in this folder, so there are no learning curves.")
    if confusion is None and shows_confusion(results):
        missing.append(f"{Confusion.FILE} is missing in this folder, so there is no confusion table.")
    outcomes = read_outcomes(folder / OUTCOMES) if (folder / OUTCOMES).exists() else None
    if outcomes is None:
        missing.append(f"{OUTCOMES} is missing in this folder, so no hardest examples are listed.")
    measured = results.measured
    shown = {
        "results": results,
        "headline": verdict.headline(results),
        "intervals": verdict.intervals_explained(results),
        "missing": missing,
        "held_equal": verdict.held_equal(results),
        "tables": _tables(results),
        "details": _details(results, confusion, outcomes),
        "settings": _settings(results),
        "environment": [
            *environment_rows(measured.date, measured.environment), ("processes at a time", str(measured.jobs)),
        ],
    }  # fmt: skip
    return _write(folder, "compare", figures(results, curves, confusion), shown)


def write_probes(folder: Path) -> Path:
    """Write report.html (one file, no network) and report.md from probes.json in `folder`; the path of the page.

    Raises:
        Damaged: probes.json is missing or cannot be read.
    """
    results = read_record(folder / ProbeResults.FILE, ProbeResults)
    shown = {
        "results": results,
        "sentences": probe_summary.sentences(results),
        "verdicts": probe_summary.verdict_rows(results),
        "accuracies": {task: probe_summary.accuracy_rows(answers) for task, answers in results.tasks.items()},
        "tested": {task: probe_summary.tested(answers) for task, answers in results.tasks.items()},
        "reasons": probe_summary.reasons(results),
        "holds": probe_summary.HOLDS,
        "environment": environment_rows(results.measured.date, results.measured.environment),
    }
    return _write(folder, "probes", {task: reach_figure(answers) for task, answers in results.tasks.items()}, shown)


def _write(folder: Path, template: str, drawn: dict[str, go.Figure], shown: dict[str, object]) -> Path:
    page = folder / "report.html"
    write_page("gatedrnn.study", f"{template}.html", page, drawn, **shown)
    write_page("gatedrnn.study", f"{template}.md", folder / "report.md", {}, **shown)
    manifest.add(folder, "report.html", "report.md")
    return page


def print_comparison(results: ComparisonResults, console: Console) -> None:
    """The main columns and the headline in the terminal."""
    task = results.task
    _print_table(f"{task}: structure", TERMINAL_STRUCTURE, tables.structure_rows(results), console)
    title = f"{task}: test {results.metric.name}, mean and 95 % interval"
    _print_table(title, TERMINAL_SCORES, tables.score_rows(results), console)
    for title, rows in _ladders(results).items():
        _print_table(f"{task}: {title}", TERMINAL_LADDER, rows, console)
    for sentence in verdict.headline(results):
        console.print(f"• {sentence}", highlight=False)


def print_probes(results: ProbeResults, console: Console) -> None:
    """The verdicts in the terminal."""
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
    for sentence in probe_summary.sentences(results):
        console.print(f"• {sentence}", highlight=False)


def _tables(results: ComparisonResults) -> dict[str, list[dict[str, str]]]:
    found = {"Score and price": tables.score_rows(results)}
    return found | {title[0].upper() + title[1:]: rows for title, rows in _ladders(results).items()}


def _details(
    results: ComparisonResults, confusion: Confusion | None, outcomes: Mapping[str, Outcomes] | None
) -> dict[str, list[dict[str, str]]]:
    """Tables for a second look, below the figures."""
    found = {"Structure": tables.structure_rows(results)}
    if results.search is not None:
        found["Settings that the search chose"] = tables.search_rows(results)
    if confusion is not None and shows_confusion(results):
        found["Right by class"] = tables.class_rows(results, confusion)
    if outcomes is not None:
        found["Hardest examples of the test split"] = tables.hardest_rows(results, outcomes)
    return found


def _ladders(results: ComparisonResults) -> dict[str, list[dict[str, str]]]:
    asked = results.settings.contenders
    if asked.ladder is None:
        return {}
    return {f"the ladder with {MATCH_WORDS[match]}": tables.ladder_rows(results, match) for match in asked.match}


def _print_table(title: str, columns: tuple[str, ...], rows: list[dict[str, str]], console: Console) -> None:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in WORDS else "right", overflow="fold")
    for row in rows:
        table.add_row(*(row[column] for column in columns))
    console.print(table)


def _settings(results: ComparisonResults) -> list[tuple[str, str]]:
    """Names and values of all settings that have one."""
    asked = results.settings
    sections: list[dict[str, JsonValue]] = [asked.contenders.model_dump(mode="json"), {"threads": asked.threads}]
    sections += [asked.data, asked.model, asked.train]
    return [(name, _text(value)) for section in sections for name, value in section.items() if value is not None]


def _text(value: JsonValue) -> str:
    return " ".join(str(item) for item in value) if isinstance(value, list) else str(value)
