"""A run's own page and the picture of its curves, from its folder's records alone."""

import math
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from gatedrnn import manifest
from gatedrnn.pages import COLOURS, environment_rows, write_page
from gatedrnn.records import environment, read_json
from gatedrnn.train.folder import RunFolder, read_metrics
from gatedrnn.train.forecast_figures import forecast_figures
from gatedrnn.train.forecasts import Forecasts
from gatedrnn.train.model import scores_of
from gatedrnn.train.result import RunResult, read_record
from gatedrnn.train.standing import Standing

Points = tuple[list[float], list[float]]
"""Steps, and what was found there."""


def write_report(path: Path) -> Path:
    """Write report.html (one file, no network) and curves.svg into a finished run's folder; the path of the page."""
    folder = RunFolder(path)
    folder.check_all()
    result, lines = read_record(folder.result, RunResult), read_metrics(folder.metrics)
    settings, here = folder.settings().flat(), environment()
    here["environment"]["commit"] = result.measured.commit
    curves = _curves(lines)
    _draw(curves, folder.curves)
    write_page(
        "gatedrnn.train", "report.html", folder.report,
        _forecasts(folder) | {name: _figure(lines) for name, lines in curves.items()},
        title=f"{settings['task']}: {settings['cell']}", scores=scores_of(result), result=result,
        settings={k: Path(str(v)).name if k.endswith("_file") else v for k, v in settings.items()},
        sources=folder.sources(),
        samples=read_json(folder.samples) if folder.samples.exists() else {},
        standing=read_record(folder.standing, Standing).sentences() if folder.standing.exists() else [],
        environment=environment_rows(**here),
    )  # fmt: skip
    manifest.add(path, folder.report.name, folder.curves.name)
    return folder.report


def _forecasts(folder: RunFolder) -> dict[str, go.Figure]:
    """Of a model that forecasts; none of any other."""
    if not folder.forecasts.exists():
        return {}
    return forecast_figures(read_record(folder.forecasts, Forecasts))


def _curves(lines: list[dict[str, Any]]) -> dict[str, dict[str, Points]]:
    """Lines by figure: the loss, the score where it is another number, the learning rate."""

    def of(name: str) -> Points:
        found = [(line["step"], line[name]) for line in lines if name in line]
        return [step for step, _ in found], [value for _, value in found]

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
    """The same curves side by side as one picture."""
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
