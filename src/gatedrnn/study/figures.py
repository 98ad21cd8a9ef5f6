"""The report's figures, from results.json alone."""

from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from gatedrnn.pages import COLOURS
from gatedrnn.study.ladder import BESIDE, rungs
from gatedrnn.study.statistics import Estimate
from gatedrnn.study.summary import best_on_validation, mean_measured

CONFUSABLE = 20
"""Classes of which a table of confusions can still be read."""
SYMBOLS = {"baseline": "diamond", "layers": "circle", "params": "square"}


def figures(results: dict[str, Any]) -> dict[str, go.Figure]:
    """Title and figure, in the order in which a reader wants them."""
    drawn = {
        f"Test {results['metric']['name']}, every seed": _scores(results),
        "Score against parameters of the recurrent core": _against(
            results, "parameters of the recurrent core", lambda row: row["parameters"]["core"]
        ),
        "Score against training time": _against(
            results, "training time in seconds", lambda row: mean_measured(row, results["measured"], "training_seconds")
        ),
        "Learning curves": _curves(results),
    }
    if 1 < len(results["data"]["label_names"]) <= CONFUSABLE:
        drawn["Confusion on the test split"] = _confusion(results)
    if results["settings"]["contenders"]["ladder"] is not None:
        drawn = {"Down the ladder": _ladder(results), **drawn}
    return drawn


def _colours(results: dict[str, Any]) -> dict[str, str]:
    """Cells keep theirs in every figure."""
    cells = dict.fromkeys(row["cell"] for row in results["contenders"])
    return {cell: COLOURS[i % len(COLOURS)] for i, cell in enumerate(cells)}


def _error_bar(estimate: Estimate, colour: str) -> dict[str, Any] | None:
    """From the mean to either end of its interval; None where there is none."""
    low, high = estimate["low"], estimate["high"]
    if low is None or high is None:
        return None
    above, below = [high - estimate["mean"]], [estimate["mean"] - low]
    return {"type": "data", "array": above, "arrayminus": below, "color": colour, "thickness": 2}


def _within_bounds(results: dict[str, Any]) -> dict[str, Any]:
    """Options of an axis of scores: one of accuracies shows nothing beyond 0 and 1."""
    return {"autorangeoptions": {"clipmin": 0, "clipmax": 1}} if results["metric"]["name"] == "accuracy" else {}


def _scores(results: dict[str, Any]) -> go.Figure:
    figure, colours = go.Figure(), _colours(results)
    for row in results["contenders"]:
        estimate = row["scores"]["test"]
        values = [run[f"test_{results['metric']['name']}"] for run in row["runs"]]
        colour = colours[row["cell"]]
        figure.add_scatter(
            x=values, y=[row["name"]] * len(values), mode="markers", showlegend=False,
            marker={"color": colour, "size": 8, "opacity": 0.4}, name=row["name"],
            text=[f"seed {run['seed']}" for run in row["runs"]], hovertemplate="%{text}: %{x:.4f}", cliponaxis=False,
        )  # fmt: skip
        figure.add_scatter(
            x=[estimate["mean"]], y=[row["name"]], mode="markers", showlegend=False, name=row["name"],
            marker={"color": colour, "size": 12, "symbol": SYMBOLS[row["match"]], "line": {"color": "white"}},
            error_x=_error_bar(estimate, colour), hovertemplate="mean %{x:.4f}", cliponaxis=False,
        )  # fmt: skip
    linear = results["baseline"]["linear"]
    if linear is not None:
        figure.add_vline(
            x=linear["test_accuracy"], line={"dash": "dash", "color": "#555"},
            annotation={"text": linear["name"], "font": {"size": 12}},
        )  # fmt: skip
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(
        title=f"test {results['metric']['name']}; large marks are means with 95 % intervals", **_within_bounds(results)
    )
    figure.update_layout(height=90 + 42 * len(results["contenders"]))
    return figure


def _ladder(results: dict[str, Any]) -> go.Figure:
    """Score, parameters and speed by step, a line for each way of matching."""
    titles = (
        f"test {results['metric']['name']}, 95 % interval",
        "parameters of the recurrent core",
        "training tokens a second",
    )
    figure = make_subplots(rows=1, cols=3, subplot_titles=titles, horizontal_spacing=0.09)
    top, measured = results["contenders"][0], results["measured"]
    beside = BESIDE.get(results["settings"]["contenders"]["ladder"], ())
    for number, match in enumerate(results["settings"]["contenders"]["match"]):
        rows = [top] + [row for row, _ in rungs(results, match) if row["cell"] not in beside]
        estimates = [row["scores"]["test"] for row in rows]
        heights = [
            [estimate["mean"] for estimate in estimates],
            [row["parameters"]["core"] for row in rows],
            [measured["speed"][row["name"]]["median"] for row in rows],
        ]
        above = [0 if e["high"] is None else e["high"] - e["mean"] for e in estimates]
        below = [0 if e["low"] is None else e["mean"] - e["low"] for e in estimates]
        for column, height in enumerate(heights, start=1):
            figure.add_scatter(
                x=[row["cell"] for row in rows], y=height, mode="lines+markers", name=f"equal {match}",
                line={"color": COLOURS[number], "width": 2}, marker={"size": 9, "symbol": SYMBOLS[match]},
                error_y={"type": "data", "array": above, "arrayminus": below} if column == 1 else None,
                showlegend=column == 1, row=1, col=column, cliponaxis=column > 1,
            )  # fmt: skip
    figure.update_yaxes(**_within_bounds(results), row=1, col=1)
    figure.update_yaxes(rangemode="tozero", row=1, col=2)
    figure.update_yaxes(rangemode="tozero", row=1, col=3)
    figure.update_xaxes(tickangle=30)
    figure.update_layout(height=420)
    return figure


def _against(results: dict[str, Any], title: str, measure: Any) -> go.Figure:
    figure, colours = go.Figure(), _colours(results)
    for row in results["contenders"]:
        estimate, x = row["scores"]["test"], measure(row)
        figure.add_scatter(
            x=[x], y=[estimate["mean"]], mode="markers", name=row["name"],
            marker={"color": colours[row["cell"]], "size": 12, "symbol": SYMBOLS[row["match"]]},
            error_y=_error_bar(estimate, colours[row["cell"]]), hovertemplate="%{x:,.4~g}: %{y:.4f}", cliponaxis=False,
        )  # fmt: skip
    figure.update_xaxes(title=title, rangemode="tozero")
    figure.update_yaxes(title=f"test {results['metric']['name']}", **_within_bounds(results))
    figure.update_layout(height=420)
    return figure


def _curves(results: dict[str, Any]) -> go.Figure:
    figure, colours = go.Figure(), _colours(results)
    dashes = {"baseline": "solid", "layers": "solid", "params": "dash"}
    for row in results["contenders"]:
        steps = [point["step"] for point in row["runs"][0]["curve"]]
        by_seed = [[point[f"validation_{results['metric']['name']}"] for point in run["curve"]] for run in row["runs"]]
        figure.add_scatter(
            x=steps, y=[sum(values) / len(values) for values in zip(*by_seed, strict=True)], mode="lines",
            name=row["name"], line={"color": colours[row["cell"]], "dash": dashes[row["match"]], "width": 2},
            hovertemplate="step %{x}: %{y:.4f}",
        )  # fmt: skip
    figure.update_xaxes(title="step", rangemode="tozero")
    figure.update_yaxes(title=f"validation {results['metric']['name']}, mean over seeds", **_within_bounds(results))
    figure.update_layout(height=420)
    return figure


def _confusion(results: dict[str, Any]) -> go.Figure:
    """One heat map a contender, the best on validation shown first; a menu changes between them."""
    figure, names = go.Figure(), results["data"]["label_names"]
    best = best_on_validation(results)["name"]
    for row in results["contenders"]:
        tables = [run["confusion"]["test"] for run in row["runs"]]
        summed = [[sum(table[i][j] for table in tables) for j in range(len(names))] for i in range(len(names))]
        shares = [[value / max(1, sum(line)) for value in line] for line in summed]
        figure.add_heatmap(
            z=shares, x=names, y=names, text=summed, texttemplate="%{text}", name=row["name"],
            visible=row["name"] == best,
            colorscale="Blues", zmin=0, zmax=1, showscale=False, hovertemplate="true %{y}, predicted %{x}: %{text}",
        )  # fmt: skip
    order = [row["name"] for row in results["contenders"]]
    figure.update_layout(
        height=140 + 38 * max(4, len(names)),
        updatemenus=[
            {
                "active": order.index(best), "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom",
                "buttons": [
                    {"label": name, "method": "update", "args": [{"visible": [other == name for other in order]}]}
                    for name in order
                ],
            }
        ],
    )  # fmt: skip
    figure.update_xaxes(title="predicted; counts summed over seeds", type="category")
    figure.update_yaxes(title="true", autorange="reversed", type="category")
    return figure
