"""The figures of reports, from records alone."""

import math
from typing import Any

import plotly.graph_objects as go

from gatedrnn.pages import COLOURS, GREY
from gatedrnn.study.probe_summary import curves as scaled_curves
from gatedrnn.study.results import (
    ComparisonResults,
    Confusion,
    ContenderResults,
    Curves,
    PlainScores,
    SearchResults,
    TaskAnswers,
    run_name,
)
from gatedrnn.study.settings import BESIDE
from gatedrnn.study.statistics import Estimate
from gatedrnn.study.verdict import SAID, difference_in_words, plain_score, steps_below

_CONFUSABLE = 20
"""The most classes of which a confusion table is still legible."""
SYMBOLS = {
    "baseline": "diamond", "layers": "circle", "params": "square", "multiply-adds": "triangle-up", "time": "pentagon",
}  # fmt: skip
PARAMETERS = "parameters of the recurrent core"
_HEIGHT = 420
FAR = 5
"""A method this many times as far from the best as those that may be as good lies beyond the axis."""
_PLAIN_SYMBOLS = ("x", "cross", "star", "hourglass", "bowtie", "asterisk-open", "hash-open", "y-up-open")


DIFFERENCES = "Difference to the best"


def figures(results: ComparisonResults, curves: Curves | None, confusion: Confusion | None) -> dict[str, go.Figure]:
    """Title and figure, in the order in which a reader wants them; without the curves or the tables that are None."""
    drawn = {
        DIFFERENCES: _differences(results),
        "Score against price": _against_price(results),
        **({} if results.settings.contenders.ladder is None else _ladder(results)),
        f"Test {results.metric.name}, every seed": _scores(results),
    }
    if results.search is not None:
        drawn["Best validation score against trials"] = _tuning(results, results.search)
    if curves is not None:
        drawn["Learning curves"] = _curves(results, curves)
    if confusion is not None and shows_confusion(results):
        drawn["Confusion on the test split"] = _confusion(results, confusion)
    return drawn


def shows_confusion(results: ComparisonResults) -> bool:
    """Whether the task has classes, and few enough for a table."""
    return 1 < len(results.data.label_names) <= _CONFUSABLE


def _colours(results: ComparisonResults) -> dict[str, str]:
    """Cells keep theirs in every figure."""
    cells = dict.fromkeys(row.cell for row in results.contenders)
    return {cell: COLOURS[i % len(COLOURS)] for i, cell in enumerate(cells)}


def _error_bar(estimate: Estimate, colour: str) -> dict[str, Any] | None:
    """An error bar from the mean to either end of its interval; None where there is none."""
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        return None
    above, below = [high - estimate.mean], [estimate.mean - low]
    return {"type": "data", "array": above, "arrayminus": below, "color": colour, "thickness": 2}


def _within_bounds(results: ComparisonResults) -> dict[str, Any]:
    """Options of an axis of scores: one of accuracies shows nothing beyond 0 and 1."""
    return {"autorangeoptions": {"clipmin": 0, "clipmax": 1}} if results.metric.score == "accuracy" else {}


def _mark(results: ComparisonResults, row: ContenderResults | PlainScores) -> dict[str, str]:
    """Colour and symbol, the same in every figure: plain baselines are crosses, in greys."""
    if isinstance(row, PlainScores):
        place = results.baseline.plain.index(row)
        return {"color": GREY, "symbol": _PLAIN_SYMBOLS[place % len(_PLAIN_SYMBOLS)]}
    return {"color": _colours(results)[row.cell], "symbol": SYMBOLS[row.match]}


def _title(results: ComparisonResults) -> str:
    """The title of an axis of scores."""
    name = SAID.get(results.metric.name, results.metric.name)
    return f"test {name}{'' if results.metric.higher_is_better else '<br>lower is better'}"


def _differences(results: ComparisonResults) -> go.Figure:
    """Each method's difference to the best on test with the interval on which its verdict rests, the margin as a band,
    and its score at the right. What lies far beyond the others is an arrow at the edge.
    """
    best, *others = results.ranked()
    rows, pairs = [best, *others], [results.pair(row.name, best.name) for row in others]
    relative = results.metric.score == "perplexity"
    figure = go.Figure()
    band = (1 / (1 + results.margin) - 1 if relative else -results.margin, results.margin)
    figure.add_vrect(*band, fillcolor=GREY, opacity=0.25, line_width=0, layer="below")
    figure.add_vline(0, line={"color": GREY, "width": 1})
    near = [pair for n, pair in enumerate(pairs) if n == 0 or pair.verdict != "worse"]
    ends = [end for pair in near for end in (pair.difference.mean, pair.difference.low, pair.difference.high)]
    known = [end for end in (*band, *ends) if end is not None and math.isfinite(end)]
    edge = FAR * max(map(abs, known))
    beyond = [pair for pair in pairs if abs(pair.difference.mean) > edge]
    for place, (row, pair) in enumerate(zip(rows, [None, *pairs], strict=True)):
        estimate = Estimate(0.0, None, None, 0) if pair is None else pair.difference
        said = "the best" if pair is None else f"{difference_in_words(estimate, results)}: {pair.verdict}"
        mark, far = _mark(results, row), pair in beyond
        if far:
            right = estimate.mean > 0
            mark = {**mark, "symbol": f"triangle-{'right' if right else 'left'}"}
        figure.add_scatter(
            x=[(edge if estimate.mean > 0 else -edge) if far else estimate.mean], y=[place], mode="markers",
            name=row.name, showlegend=False, marker={**mark, "size": 12, "line": {"color": "white"}},
            error_x=None if far else _error_bar(estimate, mark["color"]), hovertemplate=f"{said}<extra></extra>",
            cliponaxis=False,
        )  # fmt: skip
    # The scores are the labels of an axis at the right, which is there where something is drawn on it.
    figure.add_scatter(x=[None], y=[None], yaxis="y2", showlegend=False, hoverinfo="skip")
    axis = {"tickvals": list(range(len(rows))), "range": [len(rows) - 0.5, -0.5], "showgrid": False, "zeroline": False}
    scores = [plain_score(row, results).removeprefix(SAID.get(results.metric.name, "")).strip() for row in rows]
    names = [row.name for row in rows]
    figure.update_layout(
        height=110 + 34 * len(rows), yaxis={**axis, "ticktext": names},
        yaxis2={**axis, "ticktext": scores, "overlaying": "y", "side": "right"},
    )  # fmt: skip
    name, *lower = _title(results).split("<br>")
    title = "<br>".join([f"{name}, relative to the best" if relative else f"{name} less that of the best", *lower])
    figure.update_xaxes(
        title={"text": title, "font": {"size": 13}}, zeroline=False, tickformat=".0%" if relative else "~g"
    )
    if beyond:
        # The best is at one side: all others are worse in the mean.
        bounds = [-1.1 * edge, 1.5 * max(known)] if results.metric.higher_is_better else [1.5 * min(known), 1.1 * edge]
        figure.update_xaxes(range=bounds)
    return figure


def _scores(results: ComparisonResults) -> go.Figure:
    figure = go.Figure()
    for row in results.ranked():
        estimate, mark = row.scores["test"], _mark(results, row)
        if isinstance(row, ContenderResults):
            values = [run.score("test", results.metric.name) for run in row.runs]
            figure.add_scatter(
                x=values, y=[row.name] * len(values), mode="markers", showlegend=False,
                marker={"color": mark["color"], "size": 8, "opacity": 0.4}, name=row.name,
                text=[f"seed {run.seed}" for run in row.runs], hovertemplate="%{text}: %{x:.4f}", cliponaxis=False,
            )  # fmt: skip
        figure.add_scatter(
            x=[estimate.mean], y=[row.name], mode="markers", showlegend=False, name=row.name,
            marker={**mark, "size": 12, "line": {"color": "white"}}, error_x=_error_bar(estimate, mark["color"]),
            hovertemplate="mean %{x:.4f}", cliponaxis=False,
        )  # fmt: skip
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title=_title(results), **_within_bounds(results))
    figure.update_layout(height=90 + 42 * (len(results.contenders) + len(results.baseline.plain)))
    return figure


def _ladder(results: ComparisonResults) -> dict[str, go.Figure]:
    """Score, parameters and speed by step, each with a line for each kind of match."""
    asked, words = results.settings.contenders, {"layers": "equal layers", "params": "equal parameters"}
    figures = {name: go.Figure() for name in (f"test {results.metric.name}", PARAMETERS, "training tokens a second")}
    scores = next(iter(figures.values()))
    for number, match in enumerate(asked.match):
        steps = [row for row, _ in steps_below(results, match) if row.cell not in BESIDE.get(asked.ladder or "", ())]
        rows = [results.contenders[0], *steps]
        estimates = [row.scores["test"] for row in rows]
        heights = [
            [estimate.mean for estimate in estimates],
            [row.parameters.core for row in rows],
            [results.measured.speed[row.name].median for row in rows],
        ]
        above = [0 if e.high is None else e.high - e.mean for e in estimates]
        below = [0 if e.low is None else e.mean - e.low for e in estimates]
        for figure, height in zip(figures.values(), heights, strict=True):
            figure.add_scatter(
                x=[row.cell for row in rows], y=height, mode="lines+markers", name=words[match],
                line={"color": COLOURS[number], "width": 2}, marker={"size": 9, "symbol": SYMBOLS[match]},
                error_y={"type": "data", "array": above, "arrayminus": below} if figure is scores else None,
                cliponaxis=figure is not scores,
            )  # fmt: skip
    scores.update_yaxes(**_within_bounds(results))
    for title, figure in figures.items():
        figure.update_yaxes(title=title, **({} if figure is scores else {"rangemode": "tozero"}))
        figure.update_xaxes(tickangle=30)
        figure.update_layout(height=420)
    return {f"Down the ladder: {title}": figure for title, figure in figures.items()}


def _prices(results: ComparisonResults) -> dict[str, dict[str, float]]:
    """The cost of each contender and plain baseline, by the title of an axis; rows without such a cost are left out."""
    ranked, memory = results.ranked(), results.measured.memory_mib or {}
    sizes = {row.name: row.parameters if isinstance(row, PlainScores) else row.parameters.total for row in ranked}
    prices = {
        "training time in seconds": {row.name: results.seconds(row.name) for row in ranked},
        "trained parameters": {name: float(size) for name, size in sizes.items() if size is not None},
        "memory of training in MiB": {name: peak for name, peak in memory.items() if peak is not None},
    }
    return {title: price for title, price in prices.items() if price}


def _front(results: ComparisonResults, price: dict[str, float]) -> list[ContenderResults | PlainScores]:
    """The rows whose score no cheaper one reaches, by price."""
    sign, front = results.metric.sign, list[ContenderResults | PlainScores]()
    priced = [row for row in results.ranked() if row.name in price]
    for row in sorted(priced, key=lambda row: (price[row.name], -sign * row.scores["test"].mean)):
        if not front or sign * row.scores["test"].mean > sign * front[-1].scores["test"].mean:
            front.append(row)
    return front


def _against_price(results: ComparisonResults) -> go.Figure:
    """Scores against one price at a time, and the front of those that no cheaper one reaches; a menu changes between
    prices. Without intervals: those of scores do not say which of two is better.
    """
    figure, prices, trace_of = go.Figure(), _prices(results), list[int]()
    scales = ["log" if min(price.values()) > 0 else "linear" for price in prices.values()]
    for number, price in enumerate(prices.values()):
        front = _front(results, price)
        figure.add_scatter(
            x=[price[row.name] for row in front], y=[row.scores["test"].mean for row in front], mode="lines",
            line={"color": GREY, "width": 1.5, "dash": "dot", "shape": "hv"}, name="Pareto front",
            visible=number == 0, hoverinfo="skip",
        )  # fmt: skip
        everyone: list[ContenderResults | PlainScores] = [*results.contenders, *results.baseline.plain]
        rows = [row for row in everyone if row.name in price]
        for row in rows:
            figure.add_scatter(
                x=[price[row.name]], y=[row.scores["test"].mean], mode="markers", name=row.name, visible=number == 0,
                marker={**_mark(results, row), "size": 12}, hovertemplate="%{x:,.4~g}: %{y:.4f}", cliponaxis=False,
            )  # fmt: skip
        trace_of += [number] * (1 + len(rows))
    buttons = [
        {
            "label": title, "method": "update",
            "args": [
                {"visible": [axis == number for axis in trace_of]},
                {"xaxis.title.text": title, "xaxis.type": scales[number], "xaxis.autorange": True},
            ],
        }
        for number, title in enumerate(prices)
    ]  # fmt: skip
    figure.update_xaxes(title=next(iter(prices)), rangemode="tozero", type=scales[0])
    figure.update_yaxes(title=_title(results), **_within_bounds(results))
    menu = {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.04, "yanchor": "bottom"}
    figure.update_layout(height=_HEIGHT + 60, updatemenus=[menu])
    return figure


def _tuning(results: ComparisonResults, search: SearchResults) -> go.Figure:
    """The median of the best score after so many trials, with its band; a menu changes to minutes."""
    figure, colours = go.Figure(), _colours(results)
    dashes, minutes = _dashes(results), {
        name: seconds / 60 for name, seconds in (results.measured.trial_seconds or {}).items()
    }  # fmt: skip
    xs: dict[str, list[list[float]]] = {"trials": [], "minutes of trials (their number times the mean)": []}
    for row in results.contenders:
        curve, colour = search.curves[row.name], colours[row.cell]
        numbers = [n + 1 for n in range(search.trials)]
        bounded = [n for n in numbers if curve.low[n - 1] is not None and curve.high[n - 1] is not None]
        around = [*bounded, *reversed(bounded)]
        band = [curve.high[n - 1] for n in bounded] + [curve.low[n - 1] for n in reversed(bounded)]
        figure.add_scatter(
            y=band, fill="toself", fillcolor=colour, opacity=0.12, line={"width": 0}, hoverinfo="skip",
            showlegend=False,
        )  # fmt: skip
        figure.add_scatter(
            y=curve.median, mode="lines", name=row.name,
            line={"color": colour, "dash": dashes[row.name], "width": 2}, hovertemplate="%{x:.4~g}: %{y:.4f}",
        )  # fmt: skip
        for lines, unit in zip(xs.values(), (1.0, minutes[row.name]), strict=True):
            lines += [[unit * n for n in around], [unit * n for n in numbers]]
    # The far side of a band soon is as far as a score can be: the axis shows the curves and the near side.
    near = "low" if results.metric.higher_is_better else "high"
    curves = [search.curves[row.name] for row in results.contenders]
    shown = [y for curve in curves for y in (*curve.median, *getattr(curve, near)) if y is not None]
    room = 0.25 * ((max(shown) - min(shown)) or 0.01)
    figure.update_yaxes(title=f"best validation {results.metric.name}", range=[min(shown) - room, max(shown) + room])
    _choice_of_axis(figure, xs)
    return figure


def _dashes(results: ComparisonResults) -> dict[str, str]:
    """Kinds of lines, by contender."""
    kinds = {"params": "dash", "multiply-adds": "dot", "time": "dashdot"}
    several = len(results.settings.contenders.match) > 1
    return {row.name: kinds.get(row.match, "solid") if several else "solid" for row in results.contenders}


def _curves(results: ComparisonResults, curves: Curves) -> go.Figure:
    """Means over seeds against steps; a menu changes to minutes at the measured speed, which come first where the time
    of training was matched."""
    figure, colours = go.Figure(), _colours(results)
    dashes, is_text = _dashes(results), results.metric.name == "perplexity"
    xs: dict[str, list[list[float]]] = {"steps": [], "minutes of training": []}
    for row in results.contenders:
        by_seed = [curves.runs[run_name(row.name, run.seed)] for run in row.runs]
        lines = [curve.loss if is_text else curve.score for curve in by_seed]
        minutes = results.training_seconds(row) / 60 / (sum(run.steps for run in row.runs) / len(row.runs))
        for own, unit in zip(xs.values(), (1.0, minutes), strict=True):
            own.append([unit * step for step in by_seed[0].step])
        figure.add_scatter(
            y=[sum(values) / len(values) for values in zip(*lines, strict=True)], mode="lines", name=row.name,
            line={"color": colours[row.cell], "dash": dashes[row.name], "width": 2},
            hovertemplate="%{x:,.4~g}: %{y:.4f}",
        )  # fmt: skip
    figure.update_yaxes(
        title="validation loss in nats per token" if is_text else f"validation {results.metric.name}",
        **_within_bounds(results),
    )
    _choice_of_axis(figure, xs, first=1 if "time" in results.settings.contenders.match else 0)
    return figure


def _choice_of_axis(figure: go.Figure, xs: dict[str, list[list[float]]], first: int = 0) -> None:
    """Let a menu change between horizontal axes.

    Args:
        xs: by the title of an axis, the values of every trace.
        first: which one is shown at first.
    """
    buttons = [
        {"label": title.partition(" (")[0], "method": "update", "args": [{"x": lines}, {"xaxis.title.text": title}]}
        for title, lines in xs.items()
    ]
    title, shown = list(xs.items())[first]
    for trace, values in zip(figure.data, shown, strict=True):
        trace.x = values
    menu = {"buttons": buttons, "active": first, "x": 0, "xanchor": "left", "y": 1.04, "yanchor": "bottom"}
    figure.update_xaxes(title=title, rangemode="tozero")
    figure.update_layout(height=_HEIGHT + 60, updatemenus=[menu])


def _confusion(results: ComparisonResults, confusion: Confusion) -> go.Figure:
    """One heat map a contender, the best on validation first; a menu changes between them."""
    figure, names = go.Figure(), results.data.label_names
    best = results.best_on_validation().name
    for row in results.contenders:
        tables = [confusion.runs[run_name(row.name, run.seed)]["test"] for run in row.runs]
        summed = [[sum(table[i][j] for table in tables) for j in range(len(names))] for i in range(len(names))]
        shares = [[value / max(1, sum(line)) for value in line] for line in summed]
        figure.add_heatmap(
            z=shares, x=names, y=names, text=summed, texttemplate="%{text}", name=row.name,
            visible=row.name == best,
            colorscale="Blues", zmin=0, zmax=1, showscale=False, hovertemplate="true %{y}, predicted %{x}: %{text}",
        )  # fmt: skip
    order = [row.name for row in results.contenders]
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
    figure.update_xaxes(title="predicted", type="category")
    figure.update_yaxes(title="true", autorange="reversed", type="category")
    return figure


def reach_figure(answers: TaskAnswers) -> go.Figure:
    """Scaled accuracy against length: the mean over seeds, and a band from the worst to the best."""
    figure = go.Figure()
    lengths: list[int] = []
    for number, cell in enumerate(answers.cells):
        by_seed = list(scaled_curves(answers, cell).values())
        lengths, colour = list(by_seed[0]), COLOURS[number % len(COLOURS)]
        values = [[curve[length] for curve in by_seed] for length in lengths]
        figure.add_scatter(
            x=[*lengths, *reversed(lengths)],
            y=[*(max(scores) for scores in values), *(min(scores) for scores in reversed(values))],
            fill="toself", fillcolor=colour, opacity=0.15, line={"width": 0}, hoverinfo="skip", showlegend=False,
        )  # fmt: skip
        figure.add_scatter(
            x=lengths, y=[sum(scores) / len(scores) for scores in values], mode="lines+markers", name=cell,
            line={"color": colour, "width": 2}, hovertemplate="%{x:,} steps: %{y:.4f}",
        )  # fmt: skip
    figure.add_vline(x=answers.trained_at, line={"dash": "dot", "color": GREY})
    figure.update_xaxes(
        type="log",
        tickvals=lengths,
        ticktext=[f"{length:,}" for length in lengths],
        title="length; dotted: training length",
    )
    figure.update_yaxes(title="scaled accuracy (chance is 0)", range=[-0.1, 1.05])
    figure.update_layout(height=420)
    return figure
