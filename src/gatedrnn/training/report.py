"""The report of a run: one page that needs no network, with figures of its forecasts and the hardest examples."""

import math
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from pydantic import Field
from scipy.special import expit

from gatedrnn import manifest
from gatedrnn.data import Examples, TaskData
from gatedrnn.pages import COLOURS, environment_rows, write_page
from gatedrnn.records import environment, read_json, written_beside
from gatedrnn.training.finished import data_of, label_names, open_finished
from gatedrnn.training.folder import RunFolder, read_metrics
from gatedrnn.training.metrics import classes_of
from gatedrnn.training.model import scores_in_words
from gatedrnn.training.outcomes import Outcomes
from gatedrnn.training.predict import class_names, label_of, log_probabilities, outputs_of
from gatedrnn.training.result import Record, RunResult, Standing, read_record
from gatedrnn.training.score import outcomes_of
from gatedrnn.training.task import task_named

SHOWN = 6
_MAX_READ = 1000
"""The number of wrong examples that are read again to find the surest."""
MAX_STEPS, MAX_CHANNELS, MAX_LETTERS = 2000, 100, 300
"""The most steps, channels and letters of an example that is shown."""
NONE = "–"
"""The mark of a text without a label."""


class Hard(Record):
    """One example."""

    row: int
    """The row of the test split, from 1."""
    true: str
    predicted: str
    probability: float | None
    """The probability that the model gave to its answer; None for a number."""
    words: str | None = None
    """The beginning of a text."""
    values: list[list[float | None]] = []
    """(channels, time), of a series; empty of anything else."""


class Hardest(Record):
    """The wrong ones that the model was surest of, or the numbers that it missed most."""

    VERSION: ClassVar[int] = 1

    version: int = Field(VERSION, alias="schema")
    examples: list[Hard]


def write_hardest(path: Path) -> Hardest | None:
    """Write hardest.json into a finished run's folder, and return it; None where a page has nothing to show.

    Raises:
        DataError: the data have changed since the run.
        Damaged: a file of the folder is not as it was written.
    """
    folder = RunFolder(path)
    data = data_of(folder)
    test = data.evaluation.get("test")
    if not isinstance(test, Examples) or test.of_steps or not _can_be_shown(data, test):
        return None
    worst = _may_be_hardest(test, outcomes_of(path, data)["test"])
    finished = open_finished(path)
    gaps = None if test.gaps is None else [test.gaps[row] for row in worst]
    outputs = outputs_of(finished, [test.inputs[row] for row in worst], gaps)
    names, wrong = class_names(finished.model.config), list[tuple[float, Hard]]()
    for row, output in zip(worst.tolist(), outputs, strict=True):
        off, answer = _answer(test, row, output, names)
        if off:
            text = data.texts["test"].texts[row][:MAX_LETTERS] if data.texts else None
            values = [] if data.texts else _values(test.inputs[row])
            wrong.append((off, Hard(row=row + 1, words=text, values=values, **answer._asdict())))
    wrong.sort(key=lambda example: -example[0])
    hardest = Hardest(examples=[example for _, example in wrong[:SHOWN]])
    hardest.write(folder.hardest)
    manifest.add(path, folder.hardest.name)
    return hardest


def _may_be_hardest(test: Examples, outcomes: Outcomes) -> np.ndarray:
    """Rows to read again: those with the largest errors, those that were wrong, or the first ones where outcomes say
    neither."""
    if test.metric not in (None, "scaled_mae"):
        return np.arange(min(len(test), _MAX_READ))
    are_errors = test.are_numbers and not test.within
    off = outcomes.values if are_errors else outcomes.counts - outcomes.values
    worst = np.argsort(-off, kind="stable")[: SHOWN if are_errors else _MAX_READ]
    return worst[off[worst] > 0]


class _Answer(NamedTuple):
    true: str
    predicted: str
    probability: float | None


def _answer(test: Examples, row: int, output: np.ndarray, names: list[str]) -> tuple[float, _Answer]:
    """The error of the model on a row, 0 where it is right, and its answer. The error of classes and labels is how sure
    the model was of what is wrong.
    """
    true = test.labels[row]
    if test.are_numbers:
        off = abs(float(output[0]) - float(true))
        return off if off >= test.within else 0.0, _Answer(f"{true:.4g}", f"{output[0]:.4g}", None)
    if test.several:
        wrong = (output > 0) != (true == 1)
        sure = float(expit(np.abs(output[wrong])).max(initial=0.0))
        return sure, _Answer(label_of(true, names) or NONE, label_of(output, names) or NONE, sure)
    chosen, shares = int(output.argmax()), np.exp(log_probabilities(output))
    sure = float(shares.max())
    return sure * (chosen != true), _Answer(names[true], names[chosen], sure)


def _can_be_shown(data: TaskData, test: Examples) -> bool:
    return bool(data.texts) or np.issubdtype(test.inputs[0].dtype, np.floating)


def _values(series: np.ndarray) -> list[list[float | None]]:
    shown = series[:MAX_STEPS, :MAX_CHANNELS].T
    return [[None if np.isnan(value) else float(value) for value in channel] for channel in shown]


_MAX_CONFUSED = 30
"""Classes whose confusion is shown."""
_CURVES = 3
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
    shown = task_named(str(settings["task"])).ending().shown(path)
    standing = read_record(folder.standing, Standing) if folder.standing.exists() else None
    hardest = read_record(folder.hardest, Hardest).examples if folder.hardest.exists() else []
    figures = dict(shown.figures) | {name: _figure(of_run) for name, of_run in curves.items()}
    if any(example.values for example in hardest):
        figures["Hardest of the test"] = _hard_series(hardest)
    write_page(
        "gatedrnn.training", "report.html", folder.report,
        figures,
        title=f"{settings['task']}: {settings['cell']}", scores=scores_in_words(result), result=result,
        settings={k: Path(str(v)).name if k.endswith("_file") else v for k, v in settings.items()},
        sources=folder.sources(),
        samples=read_json(folder.samples) if folder.samples.exists() else {},
        said=[
            *shown.first,
            *([result.plain_part.sentence()] if result.plain_part else []),
            *(standing.sentences(scores=False) if standing else []),
            *map(_sentence, shown.sentences),
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
            "class": str(score.name), "precision": f"{score.precision:.3f}", "recall": f"{score.recall:.3f}",
            "F1": f"{score.f1:.3f}", "labels": f"{score.support:,}",
        }
        for score in classes_of(names, (result.confusion or {}).get("test"), (result.each_label or {}).get("test"))
    ]  # fmt: skip


def _confusion_rows(result: RunResult, names: list[str]) -> list[dict[str, str]]:
    """One row of text for each true class of the test; none where there are very many."""
    table = (result.confusion or {}).get("test", [])
    if len(table) > _MAX_CONFUSED:
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
        if len(example.values) > _CURVES:
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
        curves["Scaled error while training, before calibration"] = {"validation": of("validation_mase")}
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
    from matplotlib.figure import Figure  # and not pyplot, whose backend is the caller's: a notebook would draw no more
    from matplotlib.style import context

    with context("default"), written_beside(path) as temporary:  # whatever a file of the user's, or the caller, has set
        figure = Figure(figsize=(4.5 * len(curves), 3.2), layout="constrained")
        for place, (title, lines) in zip(figure.subplots(1, len(curves)), curves.items(), strict=True):
            for colour, (name, (steps, values)) in zip(COLOURS, lines.items(), strict=False):
                place.plot(steps, values, color=colour, label=name, linewidth=1.2)
            if title == "Perplexity":
                place.set_yscale("log")
            place.set(title=title, xlabel="step")
            place.legend(frameon=False)
            place.spines[["top", "right"]].set_visible(False)
        figure.savefig(temporary, format="svg", metadata={"Date": None})
