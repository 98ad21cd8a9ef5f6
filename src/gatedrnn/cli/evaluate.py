"""gatedrnn evaluate."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from gatedrnn.cli.arguments import at_least_one
from gatedrnn.errors import UsageError
from gatedrnn.terminal import Console

if TYPE_CHECKING:
    from gatedrnn.train.score import LabelScores, Scored

MOST_SHOWN = 16
"""Classes whose confusion is shown as a table."""


def evaluate(
    *runs: Path,
    split: str = "test",
    file: Path | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    data_root: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
    threads: Annotated[int | None, Parameter(validator=at_least_one)] = None,
) -> None:
    """Score trained models on a split of their own data or on a file.

    Classifiers, and models with a label for every step: accuracy, precision, recall and F1 of each class, confusion.
    Regressions: errors. Forecasts: errors and coverage, with the scale of each window and with one kept in a stream.
    Language models: perplexity and bits per byte. The state is carried from the first token to the
    last; every token of the text is predicted, the first from the <eos> before it. Perplexities of different
    vocabularies are never put side by side: bits per byte are.

    Args:
        runs: Folders of runs of `gatedrnn train`; with --file, also of models that they wrote.
        split: test, validation or train, or another that the run was tested on.
        file: What to score instead. Classifiers: CSV, TSV, JSON lines or Parquet with labels; language models: a text,
            .txt, .txt.gz, JSON lines or Parquet.
        text_column: Of that file; the one of training, if not given (language models: guessed where one is obvious).
        label_column: Of that file; the one of training, if not given.
        data_root: Folder of the files that a table names; the table's own, if not given.
        as_json: Print all scores as JSON instead of tables.
        threads: Threads of torch; all cores, or OMP_NUM_THREADS, if not given.
    """
    if not runs:
        raise UsageError("name at least one run")
    from gatedrnn.train.finished import labelled_by
    from gatedrnn.train.resources import use_threads
    from gatedrnn.train.score import score_predictions, score_run

    labelled = [labelled_by(run) for run in runs]
    if "future" in labelled:
        if set(labelled) != {"future"}:
            raise UsageError("models that forecast and models that do not have no score in common; name them apart")
        if file is not None or text_column is not None or label_column is not None:
            raise UsageError("models that forecast are scored on a split of their own data; give --split alone")
        use_threads(threads)
        _print_forecasts(runs, split, as_json)
        return
    kinds = [one == "next" for one in labelled]
    if any(kinds) and not all(kinds):
        raise UsageError("language models and models that predict labels have no score in common; name them apart")
    use_threads(threads)
    if all(kinds):
        if label_column is not None:
            raise UsageError("--label-column: a language model reads no labels; leave it out")
        _print_texts([score_run(run, split, file, text_column) for run in runs], file.name if file else split, as_json)
        return
    found = [score_predictions(run, split, file, text_column, label_column, data_root) for run in runs]
    if as_json:
        print(json.dumps([{**one._asdict(), "scores": one.scores.as_json()} for one in found], indent=1))
    else:
        _print_labels(found, Console())


def _print_forecasts(runs: tuple[Path, ...], split: str, as_json: bool) -> None:
    """Two columns a run: with the scale of each window, and with that of the first one in a stream."""
    from gatedrnn.train.score import score_forecasts

    found = [score_forecasts(run, split) for run in runs]
    if as_json:
        print(json.dumps([one.as_json() for one in found], indent=1))
        return
    title = f"forecasts, {split} split: in units of each window, and of the first one, kept in a stream"
    table = Table(title=title, title_justify="left")
    table.add_column("score")
    for one in found:
        table.add_column(one.run, justify="right")
        table.add_column("in a stream", justify="right")
    for name in found[0].fresh.model_dump(exclude={"loss"}, exclude_none=True):
        values = [getattr(scores, name) for one in found for scores in (one.fresh, one.streamed)]
        table.add_row(name.replace("_", " "), *(f"{value:.4g}" for value in values))
    Console().print(table)


def _print_texts(rows: list[dict[str, Any]], source: str, as_json: bool) -> None:
    """One table for all language models."""
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    columns = list(rows[0])
    console = Console()
    if len({row.pop("identity") for row in rows}) > 1:
        columns.remove("perplexity")
        console.print(
            "The vocabularies differ, and a perplexity is one per token of its own: compare bits per byte.",
            highlight=False,
        )
    columns.remove("identity")
    table = Table(title=f"{source}: {rows[0].pop('text')}", title_justify="left")
    columns.remove("text")
    for column in columns:
        table.add_column(column, justify="left" if column == "run" else "right")
    for row in rows:
        table.add_row(*(_shown(row[column]) for column in columns))
    console.print(table)


def _print_labels(found: "list[Scored]", console: Console) -> None:
    """The scores of all models in one table, then each one's classes."""
    from gatedrnn.train.score import LabelScores

    whole = [
        {name: value for name, value in one.scores._asdict().items() if name not in ("classes", "confusion")}
        for one in found
    ]
    table = Table(title=f"{found[0].source}: {found[0].rows:,} rows", title_justify="left")
    for column in ("run", "cell", *whole[0]):
        table.add_column(column.replace("_", " "), justify="left" if column in ("run", "cell") else "right")
    for one, scores in zip(found, whole, strict=True):
        if scores.keys() != whole[0].keys():
            raise UsageError("classes and numbers have no score in common; name the runs apart")
        table.add_row(one.run, one.cell, *map(_shown, scores.values()))
    console.print(table)
    for one in found:
        for note in one.notes:
            console.print(note, markup=False, highlight=False)
        if isinstance(one.scores, LabelScores):
            _print_classes(one.run, one.scores, console)


def _print_classes(run: str, scores: "LabelScores", console: Console) -> None:
    table = Table(title=f"{run}: each class", title_justify="left")
    for column in ("class", "precision", "recall", "F1", "labels"):
        table.add_column(column, justify="left" if column == "class" else "right")
    for score in scores.classes:
        table.add_row(score.name, *map(_shown, score[1:]))
    console.print(table)
    if len(scores.classes) > MOST_SHOWN:
        console.print(f"The confusion of {len(scores.classes)} classes is in what --json prints.", highlight=False)
        return
    table = Table(title=f"{run}: confusion, true classes in rows", title_justify="left")
    table.add_column("true \\ predicted")
    for score in scores.classes:
        table.add_column(score.name, justify="right")
    for score, row in zip(scores.classes, scores.confusion, strict=True):
        table.add_row(score.name, *map(_shown, row))
    console.print(table)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4f}" if abs(value) < 10 else f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
