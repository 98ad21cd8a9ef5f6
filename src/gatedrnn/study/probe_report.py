"""report.html, report.md and the terminal's table, from probes.json alone."""

from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from gatedrnn import manifest
from gatedrnn.pages import COLOURS, environment_rows, write_page
from gatedrnn.study import probe_findings as findings


def write_report(results: dict[str, Any], folder: Path) -> Path:
    """Write report.html (one file, no network) and report.md; the path of the page."""
    shown = {
        "results": results,
        "sentences": findings.sentences(results),
        "verdicts": findings.verdict_rows(results),
        "accuracies": {task: findings.accuracy_rows(answers) for task, answers in results["tasks"].items()},
        "tested": {task: findings.tested(answers) for task, answers in results["tasks"].items()},
        "reasons": findings.reasons(results),
        "holds": findings.HOLDS,
        "environment": environment_rows(results["measured"]["date"], results["measured"]["environment"]),
    }
    page, curves = folder / "report.html", {task: _curves(answers) for task, answers in results["tasks"].items()}
    write_page("gatedrnn.study", "probes.html", page, curves, **shown)
    write_page("gatedrnn.study", "probes.md", folder / "report.md", {}, **shown)
    manifest.add(folder, "report.html", "report.md")
    return page


def print_summary(results: dict[str, Any], console: Console) -> None:
    """The verdicts in the terminal."""
    rows = findings.verdict_rows(results)
    table = Table(
        title="the length up to which a cell is right (seeds); not learned: its scaled accuracy", title_justify="left",
        box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False,
    )  # fmt: skip
    for column in rows[0]:  # narrow enough for a terminal
        first, widest = column == "task", max(len(part) for part in column.split("-"))
        table.add_column(
            column.replace("-", "-\n"), justify="left" if first else "right", no_wrap=first, min_width=widest
        )
    for row in rows:
        table.add_row(*row.values())
    console.print(table)
    for sentence in findings.sentences(results):
        console.print(f"• {sentence}", highlight=False)


def _curves(answers: dict[str, Any]) -> go.Figure:
    """Scaled accuracy against length: the mean over seeds, and a band from the worst to the best."""
    figure = go.Figure()
    lengths: list[int] = []
    for number, cell in enumerate(answers["cells"]):
        by_seed = list(findings.curves(answers, cell).values())
        lengths, colour = list(by_seed[0]), COLOURS[number % len(COLOURS)]
        values = [[curve[length] for curve in by_seed] for length in lengths]
        figure.add_scatter(
            x=[*lengths, *reversed(lengths)],
            y=[*(max(own) for own in values), *(min(own) for own in reversed(values))],
            fill="toself", fillcolor=colour, opacity=0.15, line={"width": 0}, hoverinfo="skip", showlegend=False,
        )  # fmt: skip
        figure.add_scatter(
            x=lengths, y=[sum(own) / len(own) for own in values], mode="lines+markers", name=cell,
            line={"color": colour, "width": 2}, hovertemplate="%{x:,} steps: %{y:.4f}",
        )  # fmt: skip
    figure.add_vline(x=answers["trained_at"], line={"dash": "dot", "color": "#555"})
    figure.update_xaxes(
        type="log", tickvals=lengths, ticktext=[f"{length:,}" for length in lengths], title="length; dotted: trained at"
    )
    figure.update_yaxes(title="scaled accuracy (chance is 0)", range=[-0.1, 1.05])
    figure.update_layout(height=420)
    return figure
