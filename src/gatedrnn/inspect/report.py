"""The page and the terminal table of `gatedrnn diagnose`, from its record alone."""

from pathlib import Path

import plotly.graph_objects as go
from rich.table import Table

from gatedrnn.inspect.diagnose import BINS, DEAD, OPEN, SHUT, Diagnosis, LayerDiagnosis
from gatedrnn.pages import COLOURS, GREY, environment_rows, plural, write_page
from gatedrnn.terminal import Console

_ENDLESS = "endless"


def write_report(diagnosis: Diagnosis, path: Path) -> Path:
    """Write one page (one file, no network), and return its path."""
    drawn = {f"{layer.name}: gates": _gates(layer) for layer in diagnosis.layers}
    if any(layer.half_life is not None for layer in diagnosis.layers):
        drawn["Memory"] = _memory(diagnosis)
    if any(layer.negative is not None for layer in diagnosis.layers):
        drawn["Signs of the decays"] = _signs(diagnosis)
    drawn["Reach of the gradient"] = _reach(diagnosis)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_page(
        "gatedrnn.inspect", "report.html", path, drawn, diagnosis=diagnosis, rows=layer_rows(diagnosis),
        sentences=sentences(diagnosis), shut=SHUT, open=OPEN, dead=DEAD,
        environment=environment_rows(diagnosis.measured.date, diagnosis.measured.environment),
    )  # fmt: skip
    return path


def print_summary(diagnosis: Diagnosis, console: Console) -> None:
    """Print the table and the sentences in the terminal."""
    rows = layer_rows(diagnosis)
    table = Table(title=f"{diagnosis.source}, {diagnosis.rows} x {diagnosis.steps} steps", title_justify="left")
    for column in rows[0]:
        table.add_column(column, justify="left" if column == "layer" else "right")
    for row in rows:
        table.add_row(*row.values())
    console.print(table)
    for sentence in sentences(diagnosis):
        console.print(f"• {sentence}", highlight=False)


def layer_rows(diagnosis: Diagnosis) -> list[dict[str, str]]:
    """Return a row of text for each layer, by column."""
    rows = []
    for layer in diagnosis.layers:
        row = {"layer": layer.name, "cell": layer.cell, "channels": f"{layer.channels:,}"}
        gates = (
            f"{name} {gate.shut:.0%} shut, {gate.open:.0%} {'open' if gate.lowest == 0 else 'kept'}"
            for name, gate in layer.gates.items()
        )
        row["gates"] = "; ".join(gates) or "–"
        lives = layer.half_life
        # The lower median: the mean of two would be endless where one of them is.
        row["half-life"] = "–" if lives is None else _steps(lives[(len(lives) - 1) // 2])
        row["longest"] = "–" if lives is None else _steps(lives[-1])
        negative = layer.negative
        row["flip"] = "–" if negative is None else str(sum(share > 0 for share in negative))
        row["dead"] = str(layer.dead)
        rows.append(row)
    return rows


def sentences(diagnosis: Diagnosis) -> list[str]:
    """Sentences on the abilities of the model's cells, the reach of its gradient, and dead channels."""
    lines = [
        f"{cell} is {tracking.name}: {tracking.transition}. One layer can track {tracking.follows}; it cannot track, "
        f"at every length, {tracking.fails} ({tracking.source})."
        for cell, tracking in diagnosis.classes.items()
    ]
    reach = max((lag for lag, norm in enumerate(diagnosis.reach) if norm > 0.01 * max(diagnosis.reach)), default=None)
    if reach is None:
        lines.append("The gradient of the last step is zero at every step.")
    else:
        lines.append(
            f"The gradient of the last step stays above a hundredth of its greatest norm for {reach:,} of the "
            f"{len(diagnosis.reach) - 1:,} steps before it."
        )
    dead = sum(layer.dead for layer in diagnosis.layers)
    if dead:
        lines.append(f"{plural(dead, 'channel')} hardly {'moves' if dead == 1 else 'move'} on these inputs.")
    return lines


def _steps(life: float | None) -> str:
    if life is None:
        return _ENDLESS
    return f"{life:,.1f}" if life < 100 else f"{life:,.0f}"


def _gates(layer: LayerDiagnosis) -> go.Figure:
    figure = go.Figure()
    for number, (name, gate) in enumerate(layer.gates.items()):
        width = (1 - gate.lowest) / BINS
        figure.add_scatter(
            x=[gate.lowest + (i + 0.5) * width for i in range(BINS)], y=gate.share, mode="lines",
            line={"shape": "hvh", "color": COLOURS[number % len(COLOURS)], "width": 2}, name=name,
            hovertemplate="about %{x:.2f}: %{y:.1%}",
        )  # fmt: skip
    signed = any(gate.lowest < 0 for gate in layer.gates.values())
    for edge in (-OPEN, -SHUT, SHUT, OPEN) if signed else (SHUT, OPEN):
        figure.add_vline(x=edge, line={"dash": "dot", "color": GREY})
    figure.update_xaxes(
        title="value of the gate; dotted: bounds of shut and open", range=[-1.03 if signed else -0.02, 1.03]
    )
    figure.update_yaxes(title="share of channels and steps", tickformat=".0%", rangemode="tozero")
    figure.update_layout(height=340, showlegend=True)
    return figure


def _memory(diagnosis: Diagnosis) -> go.Figure:
    """Draw half-lives, shortest first; endless ones on a line above all others."""
    figure = go.Figure()
    decaying = [(layer, lives) for layer in diagnosis.layers if (lives := layer.half_life) is not None]
    finite = [life for _, lives in decaying for life in lives if life is not None]
    top = 10 * max([*finite, diagnosis.steps])
    for number, (layer, lives) in enumerate(decaying):
        figure.add_scatter(
            x=[(i + 1) / len(lives) for i in range(len(lives))], y=[top if life is None else life for life in lives],
            text=[_steps(life) for life in lives], mode="lines+markers", name=layer.name, marker={"size": 4},
            line={"color": COLOURS[number % len(COLOURS)]}, hovertemplate="%{text} steps",
        )  # fmt: skip
    figure.update_xaxes(title="share of the channels", tickformat=".0%")
    endless = any(None in lives for _, lives in decaying)
    title = f"half-life, steps; {top:,.0f}: {_ENDLESS}" if endless else "half-life, steps"
    figure.update_yaxes(type="log", nticks=8, title=title)
    figure.update_layout(height=420, showlegend=True)
    return figure


def _signs(diagnosis: Diagnosis) -> go.Figure:
    figure = go.Figure()
    signed = [(layer, shares) for layer in diagnosis.layers if (shares := layer.negative) is not None]
    for number, (layer, shares) in enumerate(signed):
        figure.add_scatter(
            x=[(i + 1) / len(shares) for i in range(len(shares))], y=shares, mode="lines", name=layer.name,
            line={"color": COLOURS[number % len(COLOURS)], "width": 2}, hovertemplate="%{y:.1%} of the steps",
        )  # fmt: skip
    figure.update_xaxes(title="share of the channels", tickformat=".0%")
    figure.update_yaxes(title="steps at which the decay is negative", tickformat=".0%", range=[-0.02, 1.02])
    figure.update_layout(height=420, showlegend=True)
    return figure


def _reach(diagnosis: Diagnosis) -> go.Figure:
    figure = go.Figure()
    figure.add_scatter(
        x=list(range(len(diagnosis.reach))), y=diagnosis.reach, mode="lines", line={"color": COLOURS[0], "width": 2},
        name="norm", hovertemplate="%{x} steps back: %{y:.3g}",
    )  # fmt: skip
    figure.update_xaxes(title="T - t, steps back")
    figure.update_yaxes(type="log", nticks=8, title="‖d h<sub>T</sub> / d x<sub>t</sub>‖", exponentformat="power")
    figure.update_layout(height=420)
    return figure
