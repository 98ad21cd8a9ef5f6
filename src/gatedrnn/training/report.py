"""A run's own page and the picture of its curves, from its folder's records alone."""

import math
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from gatedrnn import manifest
from gatedrnn.pages import COLOURS, environment_rows, write_page
from gatedrnn.records import environment, read_json
from gatedrnn.training.finished import label_names
from gatedrnn.training.folder import RunFolder, read_metrics
from gatedrnn.training.forecast_figures import forecast_figures
from gatedrnn.training.forecasts import Forecasts
from gatedrnn.training.hardest import Hard, Hardest
from gatedrnn.training.metrics import classes_of
from gatedrnn.training.model import scores_of
from gatedrnn.training.result import RunResult, read_record
from gatedrnn.training.standing import Standing

MOST_CONFUSED = 30
"""Classes whose confusion is shown."""
CURVES = 3
"""Channels that are drawn as such."""
Points = tuple[list[float], list[float]]
"""Steps, and what was found there."""


def write_report(path: Path) -> Path:
    """Write report.html (one file, no network) and curves.svg into a finished run's folder; the path of the page."""
    folder = RunFolder(path)
    folder.check_all()
    result, lines = read_record(folder.result, RunResult), read_metrics(folder.metrics)
    settings, here = folder.settings().flat(), environment()
    here["environment"]["commit"] = result.measured.commit
    curves = _curves(lines, result.metric)
    names = label_names(path)
    _draw(curves, folder.curves)
    forecasts = read_record(folder.forecasts, Forecasts) if folder.forecasts.exists() else None
    standing = read_record(folder.standing, Standing) if folder.standing.exists() else None
    hardest = read_record(folder.hardest, Hardest).examples if folder.hardest.exists() else []
    figures = {} if forecasts is None else forecast_figures(forecasts)
    figures |= {name: _figure(of_run) for name, of_run in curves.items()}
    if any(example.values for example in hardest):
        figures["Hardest of the test"] = _hard_series(hardest)
    write_page(
        "gatedrnn.training", "report.html", folder.report,
        figures,
        title=f"{settings['task']}: {settings['cell']}", scores=scores_of(result), result=result,
        settings={k: Path(str(v)).name if k.endswith("_file") else v for k, v in settings.items()},
        sources=folder.sources(),
        samples=read_json(folder.samples) if folder.samples.exists() else {},
        said=[
            *([result.plain_part.sentence()] if result.plain_part else []),
            *(standing.sentences(scores=False) if standing else []),
            *(map(_sentence, forecasts.sentences()) if forecasts else []),
        ],
        beside=standing.rows() if standing else [],
        classes=_class_rows(result, names), confusion=_confusion_rows(result, names),
        hardest=[_row(example) for example in hardest if example.words is not None],
        environment=environment_rows(**here),
    )  # fmt: skip
    manifest.add(path, folder.report.name, folder.curves.name)
    return folder.report


def _class_rows(result: RunResult, names: list[str]) -> list[dict[str, str]]:
    """One row of text for each class, or each of several labels, of the test."""
    return [
        {
            "class": score.name, "precision": f"{score.precision:.3f}", "recall": f"{score.recall:.3f}",
            "F1": f"{score.f1:.3f}", "labels": f"{score.support:,}",
        }
        for score in classes_of(result, names)
    ]  # fmt: skip


def _confusion_rows(result: RunResult, names: list[str]) -> list[dict[str, str]]:
    """One row of text for each true class of the test; none where there are very many."""
    table = (result.confusion or {}).get("test", [])
    if len(table) > MOST_CONFUSED:
        return []
    return [
        {"true \\ predicted": name} | {other: f"{count:,}" for other, count in zip(names, row, strict=True)}
        for name, row in zip(names, table, strict=True)
    ] if table else []  # fmt: skip


def _sentence(said: str) -> str:
    return f"{said[0].upper()}{said[1:]}."


def _row(example: Hard) -> dict[str, str]:
    """The row of a text."""
    sure = "" if example.probability is None else f" ({example.probability:.0%})"
    return {
        "row": str(example.row),
        "true": example.true,
        "predicted": f"{example.predicted}{sure}",
        "text": example.words or "",
    }


def _hard_series(hardest: list[Hard]) -> go.Figure:
    """Each as curves, or where there are many channels as a picture."""
    titles = [f"row {example.row}: {example.true}, predicted {example.predicted}" for example in hardest]
    figure = make_subplots(rows=-(-len(hardest) // 2), cols=2, subplot_titles=titles, vertical_spacing=0.12)
    for place, example in enumerate(hardest):
        where = {"row": 1 + place // 2, "col": 1 + place % 2}
        if len(example.values) > CURVES:
            figure.add_heatmap(z=example.values, colorscale="Blues", showscale=False, **where)
            figure.update_yaxes(autorange="reversed", **where)
            continue
        for colour, channel in zip(COLOURS, example.values, strict=False):
            figure.add_scatter(y=channel, mode="lines", line={"color": colour, "width": 1.5}, showlegend=False, **where)
    figure.update_layout(height=80 + 240 * -(-len(hardest) // 2))
    return figure


def _curves(lines: list[dict[str, Any]], metric: str | None) -> dict[str, dict[str, Points]]:
    """Lines by figure: the loss, the score where it is another number, the learning rate."""

    def of(name: str) -> Points:
        points = [(line["step"], line[name]) for line in lines if name in line]
        return [step for step, _ in points], [value for _, value in points]

    curves = {"Loss": {"training": of("loss"), "validation": of("validation_loss")}}
    if of("validation_perplexity")[0]:
        # The training loss is that of single batches with dropout: e to it is the perplexity there.
        steps, losses = of("loss")
        trained = steps, [math.exp(min(loss, 50.0)) for loss in losses]
        curves["Perplexity"] = {"training": trained, "validation": of("validation_perplexity")}
    if of("validation_mase")[0]:
        curves["Scaled error"] = {"validation": of("validation_mase")}
    if of("validation_accuracy")[0]:
        curves["Accuracy"] = {"validation": of("validation_accuracy")}
    if metric not in (None, "accuracy", "perplexity", "mase", "scaled_mae") and of(f"validation_{metric}")[0]:
        curves[str(metric).replace("_", " ").capitalize()] = {"validation": of(f"validation_{metric}")}
    return curves | {"Learning rate": {"learning rate": of("learning_rate")}}


def _figure(curves: dict[str, Points]) -> go.Figure:
    figure = go.Figure()
    for colour, (name, (steps, values)) in zip(COLOURS, curves.items(), strict=False):
        few = name == "validation"
        figure.add_scatter(
            x=steps, y=values, name=name, mode="lines+markers" if few else "lines",
            line={"color": colour, "width": 2 if few else 1}, hovertemplate="step %{x:,}: %{y:.4g}",
        )  # fmt: skip
    figure.update_xaxes(title="step", rangemode="tozero")
    figure.update_layout(height=420)
    return figure


def _draw(curves: dict[str, dict[str, Points]], path: Path) -> None:
    """Draw the curves side by side as one picture."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, places = pyplot.subplots(1, len(curves), figsize=(4.5 * len(curves), 3.2), layout="constrained")
    for place, (title, lines) in zip(places, curves.items(), strict=True):
        for colour, (name, (steps, values)) in zip(COLOURS, lines.items(), strict=False):
            place.plot(steps, values, color=colour, label=name, linewidth=1.2)
        if title == "Perplexity":
            place.set_yscale("log")
        place.set(title=title, xlabel="step")
        place.legend(frameon=False)
        place.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
