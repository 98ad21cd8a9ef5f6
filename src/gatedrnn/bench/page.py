"""The plot of time against length as a page by itself, from a run's record alone."""

from html import escape
from pathlib import Path

import plotly.graph_objects as go
from plotly.io import to_html

from gatedrnn.bench.record import BenchRecord
from gatedrnn.pages import COLOURS, FONT, apply_style
from gatedrnn.records import write_whole

TITLE = "Time against length"


def write_page(record: BenchRecord, folder: Path) -> Path | None:
    """Write report.html (one file, no network); None, and no file, where no lengths were measured."""
    if not any(row.section == "length" for row in record.timings):
        return None
    where = record.measured
    device = where.gpu or f"{where.environment['processor']}, {where.threads} threads"
    drawn = to_html(length_figure(record), include_plotlyjs=True, full_html=False, config={"displaylogo": False})
    page = folder / "report.html"
    write_whole(
        page,
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>gatedrnn bench</title></head>\n'
        f'<body style="font-family: {escape(FONT)}; max-width: 60rem; margin: 2rem auto">\n'
        f"<section><h2>{TITLE}</h2>\n<p>Forward and backward, {escape(device)}</p>\n{drawn}</section></body></html>\n",
    )
    return page


def length_figure(record: BenchRecord) -> go.Figure:
    """Median milliseconds with quartiles over steps, both on logarithmic axes, a line for each cell."""
    figure, rows = go.Figure(), [row for row in record.timings if row.section == "length"]
    for number, cell in enumerate(dict.fromkeys(row.contender for row in rows)):
        own = [row for row in rows if row.contender == cell]
        figure.add_scatter(
            x=[row.shape[1] for row in own], y=[row.median_ms for row in own], mode="lines+markers", name=cell,
            line={"color": COLOURS[number % len(COLOURS)], "width": 2}, marker={"size": 8},
            error_y={
                "type": "data", "symmetric": False, "array": [row.high_ms - row.median_ms for row in own],
                "arrayminus": [row.median_ms - row.low_ms for row in own],
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
