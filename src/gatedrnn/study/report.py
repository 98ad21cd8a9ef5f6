"""Reports of comparisons and probes as pages and Markdown, from the records in a study's folder alone."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import plotly.graph_objects as go
from pydantic import JsonValue

from gatedrnn import manifest
from gatedrnn.errors import Damaged
from gatedrnn.pages import environment_rows, render, write_page
from gatedrnn.records import write_whole
from gatedrnn.study import probe_summary, tables, verdict
from gatedrnn.study.figures import figures, reach_figure, shows_confusion
from gatedrnn.study.joined import Joined, join, left_out, rank_rows, score_rows, sentences, verdict_rows
from gatedrnn.study.results import ComparisonResults, Confusion, Curves, Measured, ProbeResults, beside
from gatedrnn.study.verdict import MATCH_WORDS
from gatedrnn.training.outcomes import OUTCOMES, Outcomes, read_outcomes
from gatedrnn.training.result import read_record

PAGE, TEXT = "report.html", "report.md"


@dataclass(frozen=True)
class Report:
    """The content that a page and its Markdown show."""

    template: str
    """The name of the template, without an ending."""
    shown: dict[str, object]
    draw: Callable[[], dict[str, go.Figure]]

    def write(self, folder: Path) -> Path:
        """Write report.html (one file, no network) and report.md into `folder`; the path of the page."""
        folder.mkdir(parents=True, exist_ok=True)
        self.write_page(folder / PAGE)
        write_whole(folder / TEXT, self.markdown())
        return folder / PAGE

    def write_page(self, path: Path) -> None:
        """Write the page alone."""
        write_page("gatedrnn.study", f"{self.template}.html", path, self.draw(), **self.shown)

    def markdown(self) -> str:
        """The report in Markdown, without figures."""
        return render("gatedrnn.study", f"{self.template}.md", **self.shown)


def write_report(folder: Path) -> Path:
    """Write report.html and report.md of the study whose records are in `folder`; the path of the page.

    Raises:
        Damaged: its record is missing, or cannot be read.
    """
    page = report_of(folder).write(folder)
    manifest.add(folder, PAGE, TEXT)
    return page


def report_of(folder: Path) -> Report:
    """The report of the study whose records are in `folder`.

    Raises:
        Damaged: its record is missing, or cannot be read.
    """
    return _probes(folder) if (folder / ProbeResults.FILE).exists() else _comparison(folder)


def read_comparison(folder: Path) -> ComparisonResults:
    """The record of a finished comparison.

    Raises:
        Damaged: there is none, or it cannot be read.
    """
    if not (folder / ComparisonResults.FILE).exists():
        begun = (folder / "comparison.yaml").exists()
        raise Damaged(
            f"{folder}: " + ("this comparison is not finished; its command continues it" if begun else "no comparison")
        )
    return read_record(folder / ComparisonResults.FILE, ComparisonResults)


def comparisons_in(folders: Sequence[Path]) -> list[Path]:
    """Folders of single studies: those given, and in the place of a suite's its comparisons."""
    comparisons = []
    for folder in folders:
        is_study = any(
            (folder / file).exists() for file in (ComparisonResults.FILE, ProbeResults.FILE, "comparison.yaml")
        )
        inside = [] if is_study else sorted(path.parent for path in folder.glob("*/comparison.yaml"))
        comparisons += inside or [folder]
    return comparisons


def joined_comparisons(folders: Sequence[Path]) -> Joined:
    """Comparisons as one.

    Raises:
        Damaged: one is not finished, or cannot be read.  UsageError: they do not go together.
    """
    return join([(folder, read_comparison(folder)) for folder in folders])


def report_of_joined(joined: Joined, folders: Sequence[Path], home: Path) -> Report:
    """The report of several comparisons, which links to their own.

    Args:
        joined: `joined_comparisons` of these folders.
        folders: of the comparisons, in the same order.
        home: the folder where the report will be written.
    """
    pages = {task: folder / PAGE for task, folder in zip(joined.tasks, folders, strict=True)}
    shown: dict[str, object] = {
        "joined": joined,
        "headline": sentences(joined),
        "left_out": left_out(joined),
        "tables": {
            "Test scores": score_rows(joined),
            "Ranks and price": rank_rows(joined),
            "Verdicts": verdict_rows(joined),
        },
        "best": next(iter(joined.average_ranks)),
        "links": {task: os.path.relpath(page, home) for task, page in pages.items() if page.exists()},
    }  # fmt: skip
    return Report("joined", shown, dict)


def _comparison(folder: Path) -> Report:
    results = read_comparison(folder)
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
    shown: dict[str, object] = {
        "results": results,
        "headline": verdict.headline(results),
        "intervals": verdict.intervals_explained(results),
        "missing": missing,
        "held_equal": verdict.held_equal(results),
        "tables": {"Score and price": tables.score_rows(results), **_ladders(results)},
        "details": _details(results, confusion, outcomes),
        "settings": _settings(results),
        "environment": [
            *environment_rows(measured.date, measured.environment), ("processes at a time", _at_a_time(measured)),
        ],
    }  # fmt: skip
    return Report("compare", shown, lambda: figures(results, curves, confusion))


def _probes(folder: Path) -> Report:
    results = read_record(folder / ProbeResults.FILE, ProbeResults)
    shown: dict[str, object] = {
        "results": results,
        "sentences": probe_summary.sentences(results),
        "verdicts": probe_summary.verdict_rows(results),
        "accuracies": {task: probe_summary.accuracy_rows(answers) for task, answers in results.tasks.items()},
        "tested": {task: probe_summary.tested(answers) for task, answers in results.tasks.items()},
        "reasons": probe_summary.reasons(results),
        "holds": probe_summary.HOLDS,
        "environment": environment_rows(results.measured.date, results.measured.environment),
    }
    return Report(
        "probes", shown, lambda: {task: reach_figure(task_answers) for task, task_answers in results.tasks.items()}
    )


def _at_a_time(measured: Measured) -> str:
    if measured.on == "local":
        return str(measured.jobs)
    return f"{measured.jobs or 'as many as there was room for'}, by {measured.on.partition(':')[0]}"


def _details(
    results: ComparisonResults, confusion: Confusion | None, outcomes: Mapping[str, Outcomes] | None
) -> dict[str, list[dict[str, str]]]:
    """Tables for a second look, below the figures."""
    details = {"Structure": tables.structure_rows(results)}
    if results.metric.name == "mase":
        details["All scores of the test forecasts"] = tables.forecast_rows(results)
    if results.search is not None:
        details["Settings that the search chose"] = tables.search_rows(results)
    if confusion is not None and shows_confusion(results):
        details["Right by class"] = tables.class_rows(results, confusion)
    if outcomes is not None:
        details["Hardest examples of the test split"] = tables.hardest_rows(results, outcomes)
    details[f"Each beside each, test {results.metric.name}"] = tables.pair_rows(results)
    return details


def _ladders(results: ComparisonResults) -> dict[str, list[dict[str, str]]]:
    asked = results.settings.contenders
    if asked.ladder is None:
        return {}
    return {f"The ladder with {MATCH_WORDS[match]}": tables.ladder_rows(results, match) for match in asked.match}


def _settings(results: ComparisonResults) -> list[tuple[str, str]]:
    """Names and values of all settings that have one."""
    asked = results.settings
    sections: list[dict[str, JsonValue]] = [asked.contenders.model_dump(mode="json"), {"threads": asked.threads}]
    sections += [asked.data, asked.model, asked.train]
    return [(name, _text(value)) for section in sections for name, value in section.items() if value is not None]


def _text(value: JsonValue) -> str:
    return " ".join(str(item) for item in value) if isinstance(value, list) else str(value)
