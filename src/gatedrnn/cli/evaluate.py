"""gatedrnn evaluate."""

import json
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.table import Table

from gatedrnn.cli.arguments import at_least_one
from gatedrnn.errors import UsageError
from gatedrnn.runs import Run
from gatedrnn.terminal import Console

if TYPE_CHECKING:
    from gatedrnn.training.metrics import ClassScore
    from gatedrnn.training.result import RunResult
    from gatedrnn.training.score import Scored

_MAX_SHOWN = 16
"""Classes whose confusion is shown as a table."""


def print_classes_of(folder: Path, result: "RunResult", console: Console) -> None:
    """The classes of a finished run on its test split, and their confusion; nothing where there are none."""
    from gatedrnn.training.finished import label_names
    from gatedrnn.training.metrics import classes_of

    confusion, each = (result.confusion or {}).get("test"), (result.each_label or {}).get("test")
    if not (classes := classes_of(label_names(folder), confusion, each)):
        return
    if len(classes) > _MAX_SHOWN:
        console.print(f"Precision, recall and F1 of each of {len(classes)} classes are in the report.", highlight=False)
        return
    print_classes("test", classes, console)
    if confusion is not None:
        print_confusion("test", classes, confusion, console, "in the report")


def print_classes(run: str, classes: "Sequence[ClassScore]", console: Console) -> None:
    """A row for each class, or for each of several labels.

    Args:
        run: its name, for the title.
    """
    table = Table(title=f"{run}: each class", title_justify="left")
    for column in ("class", "precision", "recall", "F1", "labels"):
        table.add_column(column, justify="left" if column == "class" else "right")
    for score in classes:
        name, *numbers = astuple(score)
        table.add_row(str(name), *map(shown, numbers))
    console.print(table)


def print_confusion(
    run: str, classes: "Sequence[ClassScore]", confusion: Sequence[Sequence[int]], console: Console, otherwise: str
) -> None:
    """A row for each true class and a column for each predicted one.

    Args:
        run: its name, for the title.
        otherwise: where the confusion of many classes is.
    """
    if len(classes) > _MAX_SHOWN:
        console.print(f"The confusion of {len(classes)} classes is {otherwise}.", highlight=False)
        return
    table = Table(title=f"{run}: confusion, true classes in rows", title_justify="left")
    table.add_column("true \\ predicted")
    for score in classes:
        table.add_column(str(score.name), justify="right")
    for score, row in zip(classes, confusion, strict=True):
        table.add_row(str(score.name), *map(shown, row))
    console.print(table)


def shown(value: object) -> str:
    """A cell of a table."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4f}" if abs(value) < 10 else f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def evaluate(
    *runs: Path,
    split: str = "test",
    file: Path | None = None,
    text_column: str | None = None,
    label_column: Annotated[tuple[str, ...], Parameter(consume_multiple=False)] = (),
    data_root: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
    threads: Annotated[int | None, Parameter(validator=at_least_one)] = None,
) -> None:
    """Score trained models on a split of their own data or on a file.

    Classifiers, and models with a label for every step: accuracy, precision, recall and F1 of each class, confusion.
    Several labels a row: F1, and the same of each label. Regressions: errors, R² and the correlation of ranks.
    Forecasts: errors and coverage, with the scale of each window and with one kept in a stream; of a file, those of the
    last steps of each series, as many as the model forecasts, from the steps before. Language models:
    perplexity and bits per byte. The state is carried from the first token to the last; every token of the text is
    predicted, the first from the <eos> before it. Perplexities of different vocabularies are never put side by side:
    bits per byte are.

    Args:
        runs: Folders of runs of `gatedrnn train`; with --file, also of models that they wrote.
        split: test, validation or train, or another that the run was tested on.
        file: File to score instead. Classifiers: CSV, TSV, JSON lines or Parquet with labels; language models: a text,
            .txt, .txt.gz, JSON lines or Parquet.
        text_column: Column of that file's texts; the one of training, if not given (language models: guessed where one
            is obvious).
        label_column: Column of that file's labels; the one of training, or those, if not given. For each of several
            columns a flag of its own.
        data_root: Folder of the files that a table names; the table's own, if not given.
        as_json: Print all scores as JSON instead of tables.
        threads: Threads of torch; all cores, or OMP_NUM_THREADS, if not given.
    """
    if not runs:
        raise UsageError("name at least one run")
    from gatedrnn.training.finished import task_of
    from gatedrnn.training.task import task_named

    kinds = {task_named(task_of(run)).answering().answers for run in runs}
    if len(kinds) > 1:
        raise UsageError(f"models of {' and '.join(sorted(kinds))} have no score in common; name them apart")
    scored = [
        Run(run).evaluate(
            file, split=split, text_column=text_column, label_column=label_column, data_root=data_root, threads=threads
        )
        for run in runs
    ]
    if as_json:
        print(json.dumps([record.model_dump(mode="json", exclude_none=True) for record in scored], indent=1))
        return
    console = Console()
    show = {"forecasts": _forecast_table, "texts": _text_table}
    console.print(show.get(kinds.pop(), _label_table)(scored, console))
    for result in scored:
        for note in result.notes:
            console.print(note, markup=False, highlight=False)
        if result.classes:
            print_classes(result.run, result.classes, console)
        if result.confusion is not None:
            print_confusion(result.run, result.classes, result.confusion, console, "in what --json prints")


def _forecast_table(scored: "list[Scored]", console: Console) -> Table:
    """A column a run, with the scale of each window; of a split one more, with that of the first one in a stream."""
    streams = all(result.streamed is not None for result in scored)
    title = f"forecasts of the last steps of {scored[0].source}, {scored[0].rows} series"
    if streams:
        title = f"forecasts, {scored[0].source} split: in units of each window, and of the first one, kept in a stream"
    table = Table(title=title, title_justify="left")
    table.add_column("score")
    for result in scored:
        table.add_column(result.run, justify="right")
        if streams:
            table.add_column("in a stream", justify="right")
    for name in scored[0].scores.model_dump(exclude={"loss"}, exclude_none=True):
        sides = [(result.scores, *([result.streamed] if streams else [])) for result in scored]
        values = [getattr(scores, name) for side in sides for scores in side]
        table.add_row(name.replace("_", " "), *(f"{value:.4g}" for value in values))
    return table


def _text_table(scored: "list[Scored]", console: Console) -> Table:
    """A row for each language model; perplexities of one vocabulary alone."""
    texts = [record.text_read for record in scored if record.text_read is not None]
    names = ["perplexity"] if len({text.identity for text in texts}) == 1 else []
    if not names:
        console.print(
            "The vocabularies differ, and a perplexity is one per token of its own: compare bits per byte.",
            highlight=False,
        )
    table = Table(title=f"{scored[0].source}: {texts[0].size}", title_justify="left")
    for column in ("run", "cell", "vocabulary", "tokens", "<eos>", "<unk>", *names, "bits per byte"):
        table.add_column(column, justify="left" if column == "run" else "right")
    for record, text in zip(scored, texts, strict=True):
        sizes = [shown(count) for count in (text.vocabulary, text.tokens, text.ends)]
        scores = [shown(getattr(record.scores, name)) for name in (*names, "bits_per_byte")]
        table.add_row(record.run, record.cell, *sizes, f"{text.unknown:.2%}", *scores)
    return table


def _label_table(scored: "list[Scored]", console: Console) -> Table:
    """A row for each model."""
    whole = [{"labels": record.labels, **record.scores.model_dump(exclude_none=True)} for record in scored]
    if any(scores.keys() != whole[0].keys() for scores in whole):
        raise UsageError("classes and numbers have no score in common; name the runs apart")
    table = Table(title=f"{scored[0].source}: {scored[0].rows:,} rows", title_justify="left")
    for column in ("run", "cell", *whole[0]):
        table.add_column(column.replace("_", " "), justify="left" if column in ("run", "cell") else "right")
    for result, scores in zip(scored, whole, strict=True):
        table.add_row(result.run, result.cell, *map(shown, scores.values()))
    return table
