"""The checks of all cells, the tables in the terminal, and verify.json."""

import re
import warnings
from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from gatedrnn.laws.report import Report
from gatedrnn.records import environment, write_whole
from gatedrnn.registry import CELLS
from gatedrnn.terminal import Console
from gatedrnn.verify.contract import DTYPES, Check, check_cell
from gatedrnn.verify.length import check_lengths

_STYLES = {None: "bold", "fails": "red", "stopped": "red", "noted": "yellow", "not applicable": "dim"}
"""Styles of lines by the verdict that they are about."""


def verify(cells: Sequence[str] = (), dtypes: Sequence[str] = tuple(DTYPES)) -> Iterator[Check]:
    """Check the named cells, with options or without, or every registered cell.

    Raises:
        ValueError: there is no cell or no dtype of that name.
    """
    names = tuple(cells or CELLS)
    for name in names:
        with warnings.catch_warnings():
            # torch's own remark, in float32.
            warnings.filterwarnings("ignore", message="LSTM with projections is not supported with oneDNN")
            rows = list(check_cell(name, tuple(dtypes)))
        yield from rows
    if "float32" in dtypes:
        yield from check_lengths(names)


def as_record(rows: Sequence[Check], reports: Sequence[Report] = ()) -> dict[str, object]:
    """Return the content of verify.json."""
    return {
        "passed": all(row.holds for row in rows) and not any(report.failures for report in reports),
        # JSON knows no infinity, which a NaN counts as.
        "rows": [
            {**row._asdict(), "error": row.error if isfinite(row.error) else None, "holds": row.holds} for row in rows
        ],
        "subjects": [report.as_record() for report in reports],
        "measured": environment(),
    }


def write_scripts(reports: Sequence[Report], folder: Path) -> list[Path]:
    """Write the script of every law that fails, `SUBJECT/LAW.py`, and return where they are."""
    written = []
    for report in reports:
        for outcome in report.failures:
            if outcome.script:
                names = [re.sub(r"\W+", "-", name).strip("-") for name in (report.subject, outcome.law)]
                path = folder / names[0] / f"{names[1]}.py"
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, outcome.script)
                written.append(path)
    return written


def print_tables(rows: Sequence[Check], console: Console, full: bool) -> None:
    """Print error / allowed by dtype: the worst mode of each cell and backend, or all with `full`; then by length."""
    modes, lengths = [row for row in rows if not _is_length_row(row)], [row for row in rows if _is_length_row(row)]
    columns = [dtype for dtype in DTYPES if any(row.dtype == dtype for row in modes)]
    if full:
        for cell, backend in dict.fromkeys((row.cell, row.backend) for row in modes):
            of_both = [row for row in modes if (row.cell, row.backend) == (cell, backend)]
            title = f"{cell}, backend {backend}: error / allowed"
            _print(title, ("execution mode",), of_both, "dtype", columns, console)
    else:
        title = "Largest error / what is allowed there, of all execution modes"
        _print(title, ("cell", "backend"), modes, "dtype", columns, console)
    if lengths:
        columns = list(dict.fromkeys(row.mode for row in sorted(lengths, key=lambda row: len(row.mode))))
        _print("Error / allowed by length, float32", ("cell", "backend"), lengths, "mode", columns, console)
    for row in rows:
        if not row.holds:
            where = f"{row.cell} {row.dtype} {row.backend}, {row.mode}"
            fault = row.rule or f"{row.worst} is off by {row.error:.2e}, allowed {row.allowed:.2e}"
            console.print(f"FAILS: {where}: {fault}", style="bold red", highlight=False)


def print_reports(reports: Sequence[Report], console: Console) -> None:
    """Print the table of one subject with the first script, or a line for each of several and what fails."""
    if len(reports) == 1:
        for about, line in reports[0].lines(console.width):
            console.print(line, style=_STYLES.get(about, ""), highlight=False, soft_wrap=True)
        for one in [one for one in reports[0].failures if one.script][:1]:
            console.print(f"# {one.law}", style="bold")
            console.print(one.script, soft_wrap=True, highlight=False)
        return
    for report in reports:
        console.print(report.verdict(), style="bold red" if report.failures else "", highlight=False)
        for one in report.failures:
            console.print(f"  {one.law}: {one.reason} ({one.case})", style="red", highlight=False)


def verdict(rows: Sequence[Check]) -> str:
    """Summarise all checks in one sentence."""
    judged = [row for row in rows if not row.informative]
    failed = sum(not row.holds for row in judged)
    return f"{failed} of {len(judged)} checks FAIL" if failed else f"all {len(judged)} checks hold"


def _print(
    title: str, names: tuple[str, ...], rows: Sequence[Check], across: str, columns: list[str], console: Console
) -> None:
    """Print a line for each value of `names` and a column for each value of `across`: the worst row in each place."""
    fields = {"cell": "cell", "backend": "backend", "execution mode": "mode"}
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold", min_width=9 if name == "backend" else 19)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True, min_width=11)
    lines: dict[tuple[str, ...], dict[str, Check]] = {}
    for row in rows:
        line = lines.setdefault(tuple(getattr(row, fields[name]) for name in names), {})
        best = line.get(getattr(row, across))
        # Relative to what is allowed: absolute errors of outputs and gradients do not compare.
        if best is None or row.error / row.allowed > best.error / best.allowed:
            line[getattr(row, across)] = row
    for key, line in lines.items():
        table.add_row(*key, *(_error_cell(line.get(column)) for column in columns))
    console.print(table)


def _error_cell(row: Check | None) -> Text:
    if row is None:
        return Text()
    text = f"{abs(row.error):.0e}/{row.allowed:.0e}"
    if row.informative:
        return Text(f"({text})", style="dim")
    return Text(text, style="" if row.holds else "bold red")


def _is_length_row(row: Check) -> bool:
    return row.mode.startswith("T = ")
