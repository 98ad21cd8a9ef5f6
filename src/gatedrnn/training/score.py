"""`gatedrnn evaluate`: scores of finished models, with all that a perplexity depends on, and of predicted labels."""

import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
from transformers import PreTrainedTokenizerFast

from gatedrnn.data import Examples, Lanes, RunningText, TaskData, Windows
from gatedrnn.data.corpus import read_corpus
from gatedrnn.data.frames import OnDisk
from gatedrnn.data.language import EVALUATION_LENGTH
from gatedrnn.data.stream import tokenise_with
from gatedrnn.errors import DataError, UsageError
from gatedrnn.models import GatedRNNConfig, GatedRNNForForecasting
from gatedrnn.training.evaluate import text_scores, token_losses
from gatedrnn.training.finished import data_of, labelled_by, open_finished, open_tested
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.forecast_scores import tally_streams, tally_windows
from gatedrnn.training.forecasts import last_windows_of_file
from gatedrnn.training.metrics import Answers, ClassScore, classes_of, every_score, tables_of
from gatedrnn.training.outcomes import Outcomes, read_outcomes
from gatedrnn.training.predict import (
    IGNORED,
    SEVERAL,
    class_names,
    class_values,
    outputs_of,
    read_labelled_rows,
    rows_of_series,
)
from gatedrnn.training.result import Record, Scores
from gatedrnn.training.sample import load_language_model

LOG = logging.getLogger("gatedrnn")


class Text(Record):
    """A text and a vocabulary, which a perplexity depends on."""

    size: str
    """Bytes and documents, in words."""
    vocabulary: int
    tokens: int
    """Tokens that were predicted."""
    ends: int
    """Predictions that end a document."""
    unknown: float
    """The share of tokens that the vocabulary lacks."""
    identity: str
    """A sum over the vocabulary: perplexities of different ones have nothing in common."""


class Scored(Record):
    """The scores of a model on a split or on other data."""

    run: str
    cell: str
    source: str
    """The split or file, by name."""
    scores: Scores
    """The scores; those of forecasts with every window in units of its own context."""
    rows: int | None = None
    """Rows of labels."""
    labels: int | None = None
    """Labels; steps without one are left out."""
    classes: list[ClassScore] = []
    confusion: list[list[int]] | None = None
    """[true][predicted], in the order of `classes`."""
    each_label: list[list[list[int]]] | None = None
    """The table of each of several labels a row: [lacks it, has it][not predicted, predicted]."""
    streamed: Scores | None = None
    """Scores of forecasts with each series as a stream, in units of the context before its first forecast."""
    text_read: Text | None = None
    """The text that a language model was scored on."""
    notes: list[str] = []


def score_run(path: Path, split: str, file: Path | None, text_column: str | None) -> Scored:
    """Perplexity and bits per byte of a language model.

    Raises:
        DataError: no finished language model, no such split, or data that have changed since the run.
    """
    model, tokenizer = load_language_model(path)
    text = _split_of(RunFolder(path), split) if file is None else _whole(tokenizer, file, text_column)
    stream, losses = text.stream, token_losses(model, text)
    size = f"{stream.text_bytes:,} bytes, documents: {len(stream.starts):,}"
    ends = int((stream.tokens[1:] == tokenizer.eos_token_id).sum())
    return Scored(
        run=path.name, cell=model.config.cell, source=split if file is None else file.name,
        scores=text_scores(losses, stream.text_bytes),
        text_read=Text(
            size=size, vocabulary=len(tokenizer), tokens=stream.predictions, ends=ends,
            unknown=stream.unknown / stream.predictions, identity=_identity(tokenizer),
        ),
    )  # fmt: skip


def evaluated(
    path: Path, split: str, held: OnDisk | None, text_column: str | None, label_column: Sequence[str],
    data_root: Path | None,
) -> Scored:  # fmt: skip
    """Score a model on some data, or on a split of its own.

    Raises:
        UsageError: an argument is not for models of this kind.
        DataError: there is no such split, the data have changed, or do not fit the model.
    """
    labelled = labelled_by(path)
    if labelled == "future":
        if text_column is not None or label_column or (held is not None and held.series is not None):
            raise UsageError("models that forecast are scored on a split of their own data or on a table; give --file")
        return score_forecasts(path, split) if held is None else score_forecasts_of_file(path, held.file)
    if labelled != "next":
        return score_predictions(path, split, held, text_column, label_column, data_root)
    if label_column:
        raise UsageError("--label-column: a language model reads no labels; leave it out")
    if held is not None and held.series is not None:
        raise UsageError("a language model is scored on a text, not on series")
    text_column = text_column or (None if held is None else held.text_column)
    return score_run(path, split, None if held is None else held.file, text_column)


def score_predictions(
    path: Path, split: str, held: OnDisk | None = None, text_column: str | None = None,
    label_column: Sequence[str] = (), data_root: Path | None = None,
) -> Scored:  # fmt: skip
    """Scores of a classifier, a labeller of steps or a regression, on a split of its own data or on labelled ones.

    Raises:
        DataError: no finished model, no such split, data that have changed, or data that do not fit the model.
    """
    finished, notes = open_finished(path), list[str]()
    if held is None:
        folder = RunFolder(path)
        data = data_of(folder)
        splits = {
            name: part for name, part in {**data.evaluation, "train": data.train}.items()
            if isinstance(part, Examples)
        }  # fmt: skip
        if split not in splits:
            raise DataError(f"{path}: has no split {split!r}; there are {', '.join(splits)}")
        inputs, labels, gaps = splits[split].inputs, splits[split].own_labels(), splits[split].gaps
    else:
        if held.series is not None:
            rows = rows_of_series(finished, held.series, held.labels)
        else:
            column = text_column or held.text_column
            rows = read_labelled_rows(finished, held.file, column, label_column, data_root, labelled=True)
        if rows.labels is None:
            raise DataError(f"{held.name}: there are no labels to hold predictions against; give (series, labels)")
        inputs, labels, gaps, notes = rows.inputs, rows.labels, rows.gaps, rows.notes
    source = split if held is None else held.file.name
    if all(bool((label == IGNORED).all()) for label in labels):
        raise DataError(f"{source}: has no label to hold a prediction against")
    outputs, config = outputs_of(finished, inputs, gaps), finished.model.config
    answers = _answers(config, outputs, labels)
    confusion, each = tables_of(answers)
    names = [] if answers.numbers else [
        value if isinstance(value, bool | int | float) else name
        for name, value in zip(class_names(config), class_values(config), strict=True)
    ]  # fmt: skip
    return Scored(
        run=path.name, cell=config.cell, source=source, scores=every_score(answers), rows=len(inputs),
        labels=len(answers.true), classes=classes_of(names, confusion, each), confusion=confusion, each_label=each,
        notes=notes,
    )  # fmt: skip


def _answers(config: GatedRNNConfig, outputs: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> Answers:
    """Outputs of a model, a row each: (labels,), or (time, classes); with the labels of each."""
    if config.problem_type == "regression":
        return Answers(np.stack(outputs), np.array(labels, np.float64))
    if config.problem_type == SEVERAL:
        return Answers(np.stack(outputs), np.stack(labels))
    flat = np.concatenate([output.reshape(-1, output.shape[-1]) for output in outputs])
    true = np.concatenate([np.atleast_1d(label) for label in labels]).astype(np.int64)
    return Answers(flat[true != IGNORED], true[true != IGNORED])


def score_forecasts(path: Path, split: str) -> Scored:
    """Scores of forecasts on a split of a run's own data.

    Raises:
        DataError: no finished run, no such split, or data that have changed.
    """
    folder = RunFolder(path)
    data = data_of(folder)
    windows = data.evaluation.get(split)
    if not isinstance(windows, Windows):
        raise DataError(f"{path}: has no split {split!r}; there are {', '.join(data.evaluation) or 'none'}")
    if split == "validation" and folder.tested.exists():
        raise DataError(
            f"{path}: its models were trained on the validation part in the end; what it scored there before stands in "
            "result.json; --no-refit leaves such training out"
        )
    model = cast(GatedRNNForForecasting, open_tested(path).model)
    fresh, streamed = (
        tally.scores(loss) for tally, loss in (tally_windows(model, windows), tally_streams(model, windows))
    )
    return Scored(run=path.name, cell=model.config.cell, source=split, scores=fresh, streamed=streamed)


def score_forecasts_of_file(path: Path, file: Path) -> Scored:
    """Scores of the last steps of each series of a table, as many as the model forecasts, from those before.

    Raises:
        DataError: no finished model, or the table does not fit it.
    """
    model = cast(GatedRNNForForecasting, open_finished(path).model)
    windows, notes = last_windows_of_file(model, file)
    tally, loss = tally_windows(model, windows)
    return Scored(
        run=path.name,
        cell=model.config.cell,
        source=file.name,
        scores=tally.scores(loss),
        rows=len(windows),
        notes=notes,
    )


def _split_of(folder: RunFolder, split: str) -> Lanes:
    data = data_of(folder)
    part = {**data.evaluation, "train": data.train}.get(split)
    if not isinstance(part, RunningText):
        raise DataError(f"{folder.path}: has no split {split!r}; there are {', '.join(data.evaluation)}, train")
    return Lanes(part.stream, EVALUATION_LENGTH, part.resets)


def _whole(tokenizer: PreTrainedTokenizerFast, file: Path, text_column: str | None) -> Lanes:
    return Lanes(tokenise_with(tokenizer, read_corpus(file, text_column, None)), EVALUATION_LENGTH, False)


def _identity(tokenizer: PreTrainedTokenizerFast) -> str:
    return hashlib.sha256(json.dumps(tokenizer.get_vocab(), sort_keys=True).encode()).hexdigest()


def outcomes_of(path: Path, data: TaskData) -> dict[str, Outcomes]:
    """The outcomes of a finished run by split.

    Raises:
        Damaged: the file is not as it was written.
    """
    folder = RunFolder(path)
    folder.check(folder.outcomes.name)
    return read_outcomes(folder.outcomes)
