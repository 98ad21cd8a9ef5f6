"""The figures of a run's forecasts."""

import plotly.graph_objects as go

from gatedrnn.pages import COLOURS, GREY
from gatedrnn.tasks.forecast.forecasts import Drawn, Forecasts

_BEFORE = 3
"""Horizons of the past that are drawn."""
BLUE, ORANGE = COLOURS[:2]


def forecast_figures(forecasts: Forecasts) -> dict[str, go.Figure]:
    """The figures by title: the future first, where it is known what to forecast it from."""
    figures = {f"{drawn.series}: the next steps": _bands(drawn, forecasts.levels) for drawn in forecasts.future}
    figures |= {f"{drawn.series}: the last of the test": _bands(drawn, forecasts.levels) for drawn in forecasts.test}
    for place, drawn in enumerate(forecasts.hardest, start=1):
        figures[f"{drawn.series}: furthest off in the test, {place}"] = _bands(drawn, forecasts.levels)
    if not forecasts.error_by_step:
        return figures
    return figures | {
        "Error against horizon": _error(forecasts.error_by_step), "Coverage of the test": _coverage(forecasts.coverage),
    }  # fmt: skip


def _bands(drawn: Drawn, levels: list[float]) -> go.Figure:
    """The past, the median, and a band for each pair of quantiles around it."""
    figure, horizon = go.Figure(), len(drawn.quantiles)
    past, ahead = drawn.times[:-horizon], drawn.times[-horizon:]
    shown = _BEFORE * horizon
    columns = list(zip(*drawn.quantiles, strict=True))
    for place in range(levels.index(0.5)):
        low, high = columns[place], columns[-1 - place]
        figure.add_scatter(
            x=[*ahead, *reversed(ahead)], y=[*high, *reversed(low)], fill="toself", mode="lines", line={"width": 0},
            fillcolor=BLUE, opacity=0.25, hoverinfo="skip",
            name=f"{levels[place]!r} to {levels[-1 - place]!r}",
        )  # fmt: skip
    figure.add_scatter(x=past[-shown:], y=drawn.past[-shown:], name="past", line={"color": GREY, "width": 1.5})
    if drawn.truth:
        figure.add_scatter(x=ahead, y=drawn.truth, name="truth", line={"color": ORANGE, "width": 1.5})
    figure.add_scatter(
        x=ahead, y=columns[levels.index(0.5)], name="forecast (median)", line={"color": BLUE, "width": 2}
    )
    figure.update_layout(height=380)
    return figure


def _error(by_step: dict[str, list[float]]) -> go.Figure:
    figure = go.Figure()
    for colour, (name, errors) in zip((BLUE, GREY, ORANGE), by_step.items(), strict=True):
        figure.add_scatter(x=list(range(1, len(errors) + 1)), y=errors, name=name, line={"color": colour})
    figure.update_xaxes(title="steps ahead")
    figure.update_yaxes(title="mean scaled error", rangemode="tozero")
    figure.update_layout(height=380)
    return figure


def _coverage(coverage: dict[str, float]) -> go.Figure:
    """A figure of the coverage: on the dashed line, as many values lie below a quantile as should."""
    figure = go.Figure()
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line={"color": GREY, "dash": "dash"}, showlegend=False)
    figure.add_scatter(
        x=[float(level) for level in coverage], y=list(coverage.values()), mode="lines+markers", line={"color": BLUE},
        showlegend=False,
    )  # fmt: skip
    figure.update_xaxes(title="quantile", range=[0, 1])
    figure.update_yaxes(title="share of values at or below it", range=[0, 1])
    figure.update_layout(height=380)
    return figure
