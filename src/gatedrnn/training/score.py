"""`gatedrnn evaluate`: scores of finished models, with all that a perplexity depends on, and of predicted labels."""

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    f1_score,
    multilabel_confusion_matrix,
)
from transformers import PreTrainedTokenizerFast

from gatedrnn.data import Examples, Lanes, RunningText, Windows
from gatedrnn.data.corpus import read_corpus
from gatedrnn.data.frames import OnDisk
from gatedrnn.data.language import EVALUATION_LENGTH
from gatedrnn.data.stream import tokenise_with
from gatedrnn.errors import DataError, UsageError
from gatedrnn.models import GatedRNNConfig, GatedRNNForForecasting
from gatedrnn.records import Json
from gatedrnn.training.evaluate import token_losses
from gatedrnn.training.finished import data_of, labelled_by, open_finished, open_tested
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.forecast_scores import tally_streams, tally_windows
from gatedrnn.training.metrics import (
    Answers,
    ClassScore,
    auroc,
    average_precision,
    balanced_accuracy,
    class_scores,
    label_scores,
    log_losses,
    macro_f1,
    rank_correlation,
)
from gatedrnn.training.predict import (
    IGNORED,
    SEVERAL,
    class_names,
    log_probabilities,
    outputs_of,
    read_labelled_rows,
    rows_of_series,
)
from gatedrnn.training.result import Scores
from gatedrnn.training.sample import load_language_model


class LabelScores(NamedTuple):
    """The scores of predicted classes."""

    labels: int
    """The number of labels; steps without one are left out."""
    accuracy: float
    balanced_accuracy: float
    """The mean over classes of the share of their labels that is right."""
    macro_f1: float
    """The mean of F1 over the classes that are true or predicted."""
    auroc: float | None
    """The area under the ROC curve, for two classes where both occur."""
    average_precision: float | None
    """The average precision, for two classes where both occur: the mean over true ones of the precision at their
    output."""
    loss: float
    """Mean cross-entropy in nats."""
    classes: list[ClassScore]
    confusion: list[list[int]]
    """[true][predicted], in the order of `classes`."""

    def as_json(self) -> dict[str, Json]:
        """The scores with a name for every number."""
        return {**self._asdict(), "classes": [score._asdict() for score in self.classes]}


class SeveralScores(NamedTuple):
    """The scores of predicted labels, several a row."""

    labels: int
    """Rows."""
    accuracy: float
    """The share of rows all of whose labels are right."""
    micro_f1: float
    """F1 of all labels of all rows together."""
    macro_f1: float
    """The mean of F1 over labels."""
    auroc: float
    """The area under the ROC curve, in the mean over labels that some rows have and some lack."""
    average_precision: float
    """The average precision, in the mean over labels that some rows have and some lack: the mean over true ones of the
    precision at their output."""
    loss: float
    """Mean cross-entropy of a label in nats."""
    classes: list[ClassScore]
    each_label: list[list[list[int]]]
    """The table of each label: [lacks it, has it][not predicted, predicted]."""

    def as_json(self) -> dict[str, Json]:
        """The scores with a name for every number."""
        return {**self._asdict(), "classes": [score._asdict() for score in self.classes]}


class NumberScores(NamedTuple):
    """The scores of predicted numbers."""

    labels: int
    mean_absolute_error: float
    root_mean_squared_error: float
    r_squared: float | None
    """The part of the labels' variance that is explained; None where they are all alike."""
    spearman: float
    """The correlation of ranks; 0 where labels or predictions are all alike."""

    def as_json(self) -> dict[str, Json]:
        """The scores with a name for every number."""
        return self._asdict()


def score_labels(outputs: Sequence[np.ndarray], labels: Sequence[np.ndarray], names: Sequence[str]) -> LabelScores:
    """Scores of classes.

    Args:
        outputs: of a model, a row each: (classes,), or (time, classes).
        labels: a number of a class each, (), or (time,); -100 where there is none.
        names: of the classes.
    """
    flat = np.concatenate([output.reshape(-1, len(names)) for output in outputs])
    true = np.concatenate([np.atleast_1d(label) for label in labels]).astype(np.int64)
    flat, true = flat[true != IGNORED], true[true != IGNORED]
    predicted, numbers, answers = flat.argmax(1), np.arange(len(names)), Answers(flat, true)
    confusion = confusion_matrix(true, predicted, labels=numbers).tolist()
    two = set(true) == {0, 1} == set(numbers)
    return LabelScores(
        labels=len(true),
        accuracy=float((true == predicted).mean()),
        balanced_accuracy=float(balanced_accuracy(answers).mean()),
        macro_f1=float(macro_f1(answers).mean()),
        auroc=float(auroc(answers).mean()) if two else None,
        average_precision=float(average_precision(answers).mean()) if two else None,
        loss=float(-log_probabilities(flat)[np.arange(len(true)), true].mean()),
        classes=class_scores(confusion, names),
        confusion=confusion,
    )


def score_several(outputs: Sequence[np.ndarray], labels: Sequence[np.ndarray], names: Sequence[str]) -> SeveralScores:
    """Scores of several labels a row.

    Args:
        outputs: of a model, a row each, (labels,).
        labels: 1 for each that a row has, 0 for all others, (labels,).
        names: of the labels.
    """
    answers = Answers(np.stack(outputs), np.stack(labels))
    each = multilabel_confusion_matrix(answers.true, answers.predicted).tolist()
    return SeveralScores(
        labels=len(outputs),
        accuracy=float(accuracy_score(answers.true, answers.predicted)),
        micro_f1=float(f1_score(answers.true, answers.predicted, average="micro", zero_division=0.0)),
        macro_f1=float(f1_score(answers.true, answers.predicted, average="macro", zero_division=0.0)),
        auroc=float(auroc(answers).mean()),
        average_precision=float(average_precision(answers).mean()),
        loss=float(log_losses(answers).mean()),
        classes=label_scores(each, names),
        each_label=each,
    )


def score_numbers(outputs: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> NumberScores:
    """Scores of numbers: outputs (1,) and labels (), a row each."""
    predicted, true = np.array([output[0] for output in outputs]), np.array(labels, dtype=np.float64)
    squared, spread = np.square(predicted - true), np.square(true - true.mean()).sum()
    return NumberScores(
        labels=len(true),
        mean_absolute_error=float(np.abs(predicted - true).mean()),
        root_mean_squared_error=float(np.sqrt(squared.mean())),
        r_squared=float(1 - squared.sum() / spread) if spread else None,
        spearman=float(rank_correlation(Answers(predicted[:, None], true)).mean()),
    )


class TextScored(NamedTuple):
    """The score of a language model on a text."""

    run: str
    cell: str
    text: str
    """The size of the text."""
    vocabulary: int
    tokens: int
    """Tokens that were predicted."""
    ends: int
    """Predictions that end a document."""
    unknown: float
    """The share of tokens that the vocabulary lacks."""
    perplexity: float
    bits_per_byte: float
    identity: str
    """A sum over the vocabulary: perplexities of different ones have nothing in common."""

    def as_json(self) -> dict[str, Json]:
        """The scores with a name for every number."""
        return self._asdict()


def score_run(path: Path, split: str, file: Path | None, text_column: str | None) -> TextScored:
    """Perplexity and bits per byte of a language model.

    Raises:
        DataError: no finished language model, no such split, or data that have changed since the run.
    """
    model, tokenizer = load_language_model(path)
    text = _split_of(RunFolder(path), split) if file is None else _whole(tokenizer, file, text_column)
    stream = text.stream
    nats = float(token_losses(model, text).sum())
    ends = int((stream.tokens[1:] == tokenizer.eos_token_id).sum())
    return TextScored(
        run=path.name, cell=model.config.cell, text=f"{stream.text_bytes:,} bytes, documents: {len(stream.starts):,}",
        vocabulary=len(tokenizer), tokens=stream.predictions, ends=ends, unknown=stream.unknown / stream.predictions,
        perplexity=math.exp(min(nats / stream.predictions, 700.0)),
        bits_per_byte=nats / math.log(2) / stream.text_bytes, identity=_identity(tokenizer),
    )  # fmt: skip


class Scored(NamedTuple):
    """The scores of a model's predicted labels."""

    run: str
    cell: str
    source: str
    """The split or file, by name."""
    rows: int
    scores: LabelScores | SeveralScores | NumberScores
    notes: list[str]

    def as_json(self) -> dict[str, Json]:
        """The scores with a name for every number."""
        return {**self._asdict(), "scores": self.scores.as_json()}


class ForecastsScored(NamedTuple):
    """The scores of a model's forecasts of a split."""

    run: str
    cell: str
    fresh: Scores
    """Every window in units of its own context."""
    streamed: Scores
    """Each series as a stream, in units of the context before its first forecast."""

    def as_json(self) -> dict[str, Json]:
        """The scores with a name for every number."""
        both = {name: getattr(self, name).model_dump(exclude_none=True) for name in ("fresh", "streamed")}
        return {"run": self.run, "cell": self.cell, **both}


def evaluated(
    path: Path, split: str, held: OnDisk | None, text_column: str | None, label_column: Sequence[str],
    data_root: Path | None,
) -> Scored | TextScored | ForecastsScored:  # fmt: skip
    """Score a model on some data, or on a split of its own.

    Raises:
        UsageError: an argument is not for models of this kind.
        DataError: there is no such split, the data have changed, or do not fit the model.
    """
    labelled = labelled_by(path)
    if labelled == "future":
        if held is not None or text_column is not None or label_column:
            raise UsageError("models that forecast are scored on a split of their own data; give --split alone")
        return score_forecasts(path, split)
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
    return Scored(path.name, config.cell, source, len(inputs), _scores(config, outputs, labels), notes)


def _scores(
    config: GatedRNNConfig, outputs: Sequence[np.ndarray], labels: Sequence[np.ndarray]
) -> LabelScores | SeveralScores | NumberScores:
    if config.problem_type == "regression":
        return score_numbers(outputs, labels)
    score = score_several if config.problem_type == SEVERAL else score_labels
    return score(outputs, labels, class_names(config))


def score_forecasts(path: Path, split: str) -> ForecastsScored:
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
    return ForecastsScored(path.name, model.config.cell, fresh, streamed)


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
