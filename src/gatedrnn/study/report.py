"""report.html, report.md and the terminal's table, from results.json alone."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from gatedrnn import manifest
from gatedrnn.pages import environment_rows, write_page
from gatedrnn.study import summary
from gatedrnn.study.figures import figures

TERMINAL_STRUCTURE = ("contender", "layers", "width", "core", "to baseline's", "total", "state")
TERMINAL_LADDER = ("step", "takes away", "core to step above", "score to step above", "speed to step above")
TERMINAL_SCORES = ("contender", "test", "to baseline", "seconds", "tokens/s")


def write_report(results: dict[str, Any], folder: Path) -> Path:
    """Write report.html (one file, no network) and report.md; the path of the page."""
    shared = {
        "results": results,
        "headline": summary.headline(results),
        "intervals": summary.what_intervals_are(results),
        "tables": _tables(results),
        "settings": _settings(results),
        "environment": [
            *environment_rows(results["measured"]["date"], results["measured"]["environment"]),
            ("processes at once", str(results["measured"]["jobs"])),
        ],
    }
    page = folder / "report.html"
    write_page("gatedrnn.study", "report.html", page, figures(results), **shared)
    write_page("gatedrnn.study", "report.md", folder / "report.md", {}, **shared)
    manifest.add(folder, "report.html", "report.md")
    return page


def _tables(results: dict[str, Any]) -> dict[str, list[dict[str, str]]]:
    tables = {"Structure": summary.structure_rows(results), "Score and price": summary.score_rows(results)}
    contenders = results["settings"]["contenders"]
    if contenders["ladder"] is not None:
        for match in contenders["match"]:
            tables[f"The ladder with {summary.MATCH_WORDS[match]}"] = summary.ladder_rows(results, match)
    return tables


def print_summary(results: dict[str, Any], console: Console) -> None:
    """The main columns and the headline in the terminal."""
    task = results["task"]
    _print_table(f"{task}: structure", TERMINAL_STRUCTURE, summary.structure_rows(results), console)
    title = f"{task}: test {results['metric']['name']}, mean and 95 % interval"
    _print_table(title, TERMINAL_SCORES, summary.score_rows(results), console)
    contenders = results["settings"]["contenders"]
    if contenders["ladder"] is not None:
        for match in contenders["match"]:
            title = f"{task}: the ladder with {summary.MATCH_WORDS[match]}"
            _print_table(title, TERMINAL_LADDER, summary.ladder_rows(results, match), console)
    for sentence in summary.headline(results):
        console.print(f"• {sentence}", highlight=False)


def _print_table(title: str, columns: tuple[str, ...], rows: list[dict[str, str]], console: Console) -> None:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in ("contender", "step", "takes away") else "right")
    for row in rows:
        table.add_row(*(row[column] for column in columns))
    console.print(table)


def _settings(results: dict[str, Any]) -> list[tuple[str, str]]:
    flat: list[tuple[str, str]] = []
    for part, values in results["settings"].items():
        if isinstance(values, dict):
            flat += [(key, _text(value)) for key, value in values.items() if value is not None]
        else:
            flat.append((part, _text(values)))
    return flat


def _text(value: Any) -> str:
    return " ".join(str(item) for item in value) if isinstance(value, list) else str(value)
