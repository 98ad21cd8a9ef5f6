"""Tables and sentences of comparisons and probes in the terminal."""

from rich.box import SIMPLE, SIMPLE_HEAD
from rich.table import Table

from gatedrnn.study import joined_summary, probe_summary, tables, verdict
from gatedrnn.study.joined import Joined
from gatedrnn.study.results import ComparisonResults, ProbeResults
from gatedrnn.study.words import MATCH_WORDS
from gatedrnn.terminal import Console

STRUCTURE = ("contender", "layers", "width", "core", "to baseline's", "total", "state")
LADDER = ("step", "removes", "core to step above", "score to step above", "speed to step above")
SCORES = ("method", "test", "verdict", "seconds")
FORECASTS = ("method", "mase", "mae", "smape", "weighted quantile loss", "coverage")
WORDS = ("contender", "method", "step", "removes", "verdict")
"""Columns of words, which are aligned to the left."""


def print_comparison(results: ComparisonResults, console: Console) -> None:
    """The main columns and the headline."""
    task = results.task
    _print_table(f"{task}: structure", tables.structure_rows(results), console, STRUCTURE)
    title = f"{task}: test {results.metric.name}, mean and 95 % interval"
    _print_table(title, tables.score_rows(results), console, SCORES)
    if results.metric.name == "mase":
        _print_table(f"{task}: test scores", tables.forecast_rows(results), console, FORECASTS)
    asked = results.settings.contenders
    for match in asked.match if asked.ladder is not None else ():
        title = f"{task}: the ladder with {MATCH_WORDS[match]}"
        _print_table(title, tables.ladder_rows(results, match), console, LADDER)
    _print_sentences(verdict.headline(results), console)


def print_joined(joined: Joined, console: Console) -> None:
    """Ranks, and what several comparisons show together."""
    _print_table("ranks by test score, and price in parts of the baseline's", joined_summary.rank_rows(joined), console)
    _print_sentences(joined_summary.sentences(joined), console)


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
