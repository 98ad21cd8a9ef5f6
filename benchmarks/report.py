"""The tables of a run in the terminal, and a page that plots time against length, from its record alone."""

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

import plotly.graph_objects as go
from plotly.io import to_html
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from benchmarks.record import BenchRecord, Disagreement, Timing
from gatedrnn.pages import COLOURS, FONT, apply_style
from gatedrnn.records import write_whole
from gatedrnn.terminal import Console


def print_report(record: BenchRecord, titles: Mapping[str, str], console: Console) -> None:
    """Print times, ratios and counts by section, the bars, and contenders that were wrong or left out.

    Args:
        titles: sections in the order of the report, with the titles of their tables.
    """
    for section, title in titles.items():
        for mode in _modes(record, section):
            _times(record, section, mode, f"{title}, {mode}: milliseconds, and quartiles", console)
            _ratios(record, section, mode, f"{title}, {mode}: ratios, and quartiles", console)
        for mode, unit in dict.fromkeys((row.mode, row.unit) for row in record.counts if row.section == section):
            rows = [row for row in record.counts if row.section == section and row.mode == mode]
            cells = {(row.contender, _shape(row.shape)): Text(_number(row.value)) for row in rows}
            _matrix(f"{title}, {mode}: {unit}", "contender", cells, console)
    _bars(record, console)
    for missing in record.left_out:
        console.print(f"left out: {missing.what}: {missing.why}", highlight=False, soft_wrap=True)
    for row in record.wrong:
        console.print(f"WRONG: {_wrong(row)}", style="bold red", highlight=False, soft_wrap=True)


def verdict(record: BenchRecord) -> str:
    """Summarise the run in one sentence."""
    measured = [bar for bar in record.bars if bar.holds is not None]
    short = sum(not bar.holds for bar in measured)
    passed = f"{len(record.wrong)} results are WRONG" if record.wrong else "every result is right"
    bars = f"{len(measured) - short} of {len(measured)} bars hold" if measured else "no bar was measured"
    return f"{passed}; {bars}"


def _times(record: BenchRecord, section: str, mode: str, title: str, console: Console) -> None:
    rows = [row for row in record.timings if row.section == section and row.mode == mode]
    cells = {(row.contender, _shape(row.shape)): _time(row) for row in rows}
    wrong = [row for row in record.wrong if row.section == section and mode in row.modes]
    cells |= {(row.contender, _shape(row.shape)): Text("WRONG", style="bold red") for row in wrong}
    _matrix(title, "contender", cells, console)


def _ratios(record: BenchRecord, section: str, mode: str, title: str, console: Console) -> None:
    rows = [row for row in record.ratios if row.section == section and row.mode == mode]
    cells = {}
    for row in rows:
        other = row.denominator_shape
        shape = _shape(row.shape) + ("" if other is None else f" ÷ {_shape(other)}")
        cells[f"{row.numerator} ÷ {row.denominator}", shape] = _spread(row.ratio, row.low, row.high)
    _matrix(title, "ratio", cells, console)


def _bars(record: BenchRecord, console: Console) -> None:
    bars = [(bar, bar.value) for bar in record.bars if bar.value is not None]
    if not bars:
        return
    table = _table("Bars", "measure", ("at", "bound", "measured", ""))
    for bar, value in bars:
        bound = f"≤ {bar.at_most:g}" if bar.at_most is not None else f"≥ {bar.at_least:g}"
        holds = Text("holds") if bar.holds else Text("falls short", style="bold red")
        table.add_row(bar.measure, _shape(bar.shape), bound, _number(value), holds)
    console.print(table)


def _matrix(title: str, first: str, cells: dict[tuple[str, str], Text], console: Console) -> None:
    """Print a line for each contender and a column for each shape."""
    if not cells:
        return
    columns = _once(column for _, column in cells)
    table = _table(title, first, columns)
    for line in _once(line for line, _ in cells):
        table.add_row(line, *(cells.get((line, column), Text()) for column in columns))
    console.print(table)


def _table(title: str, first: str, others: Iterable[str]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(first, overflow="fold")
    for column in others:
        table.add_column(column, justify="right", overflow="fold")
    return table


def _time(row: Timing) -> Text:
    rate = ""
    if row.rate is not None:
        rate = f"\n{row.rate / 1e9:.3g} GB/s" if row.unit == "B/s" else f"\n{row.rate:,.0f} {row.unit}"
    part = "" if row.times == 1 else f"\n× {row.times:g}, from a part"
    return _spread(row.median_ms, row.low_ms, row.high_ms).append(rate + part)


def _spread(value: float, low: float, high: float) -> Text:
    return Text.assemble(f"{_number(value)}\n", (f"{_number(low)}–{_number(high)}", "dim"))


def _number(value: float) -> str:
    """Write three digits or, from a thousand up, all."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _wrong(row: Disagreement) -> str:
    where = f"{row.section}, {row.contender} at {_shape(row.shape)}: {row.what}"
    return where if row.error is None else f"{where} off by {row.error:.1e}, allowed {row.allowed:.1e}"


def _modes(record: BenchRecord, section: str) -> list[str]:
    timed = [row.mode for row in record.timings if row.section == section]
    return _once(timed + [mode for row in record.wrong if row.section == section for mode in row.modes])


def _once(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _shape(shape: Iterable[int] | None) -> str:
    return "" if shape is None else "(" + ", ".join(str(size) for size in shape) + ")"


def write_page(record: BenchRecord, folder: Path) -> Path | None:
    """Write report.html (one file, no network); None, without a file, if no lengths were measured."""
    if not any(row.section == "length" for row in record.timings):
        return None
    where = record.measured
    device = where.gpu or f"{where.environment['processor']}, {where.threads} threads"
    drawn = to_html(_length_figure(record), include_plotlyjs=True, full_html=False, config={"displaylogo": False})
    page = folder / "report.html"
    write_whole(
        page,
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>python -m benchmarks</title></head>\n'
        f'<body style="font-family: {escape(FONT)}; max-width: 60rem; margin: 2rem auto">\n'
        f"<section><h2>Time against length</h2>\n<p>Forward and backward, {escape(device)}</p>\n{drawn}</section>"
        "</body></html>\n",
    )
    return page


def _length_figure(record: BenchRecord) -> go.Figure:
    """Plot median milliseconds with quartiles over steps, on logarithmic axes, a line for each cell."""
    figure, rows = go.Figure(), [row for row in record.timings if row.section == "length"]
    for number, cell in enumerate(dict.fromkeys(row.contender for row in rows)):
        timings = [row for row in rows if row.contender == cell]
        figure.add_scatter(
            x=[row.shape[1] for row in timings], y=[row.median_ms for row in timings], mode="lines+markers", name=cell,
            line={"color": COLOURS[number % len(COLOURS)], "width": 2}, marker={"size": 8},
            error_y={
                "type": "data", "symmetric": False, "array": [row.high_ms - row.median_ms for row in timings],
                "arrayminus": [row.median_ms - row.low_ms for row in timings],
            },
            hovertemplate="%{x:,} steps: %{y:.4g} ms",
        )  # fmt: skip
    lengths = sorted({row.shape[1] for row in rows})
    width = rows[0].shape[2]
    figure.update_xaxes(
        type="log", title=f"steps of one sequence, width {width}", tickvals=lengths,
        ticktext=[f"{length:,}" for length in lengths],
    )  # fmt: skip
    figure.update_yaxes(type="log", title="milliseconds, median and quartiles", dtick=1)
    figure.update_layout(height=480)
    return apply_style(figure)
