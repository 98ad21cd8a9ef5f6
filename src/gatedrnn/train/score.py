"""`gatedrnn evaluate`: scores of finished models, with all that a perplexity depends on, and of predicted labels."""

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support
from transformers import PreTrainedTokenizerFast

from gatedrnn.data import Examples, Lanes, RunningText, Windows
from gatedrnn.data.corpus import read_corpus
from gatedrnn.data.language import EVALUATION_LENGTH
from gatedrnn.data.stream import tokenise_with
from gatedrnn.errors import DataError
from gatedrnn.models import GatedRNNForForecasting
from gatedrnn.records import Json
from gatedrnn.train.evaluate import token_losses
from gatedrnn.train.finished import open_finished, open_tested
from gatedrnn.train.folder import RunFolder
from gatedrnn.train.forecast_scores import tally_streams, tally_windows
from gatedrnn.train.outcomes import of_ranks
from gatedrnn.train.predict import IGNORED, class_names, log_probabilities, outputs_of, read_labelled_rows
from gatedrnn.train.result import Scores
from gatedrnn.train.sample import load_language_model
from gatedrnn.train.so_far import data_of


class ClassScore(NamedTuple):
    """Of one class."""

    name: str
    precision: float
    """The share of those that were predicted to be of it which are; 0 if none was."""
    recall: float
    """The share of those that are of it which were predicted to be; 0 if none is."""
    f1: float
    support: int
    """Labels that are of it."""


class LabelScores(NamedTuple):
    """Of predicted classes."""

    labels: int
    """How many there were; steps without one are left out."""
    accuracy: float
    auroc: float | None
    """Of two classes, where both are there: the area under the ROC curve."""
    loss: float
    """Mean cross-entropy in nats."""
    classes: list[ClassScore]
    confusion: list[list[int]]
    """[true][predicted], in the order of `classes`."""

    def as_json(self) -> dict[str, Json]:
        """With a name for every number."""
        return {**self._asdict(), "classes": [score._asdict() for score in self.classes]}


class NumberScores(NamedTuple):
    """Of predicted numbers."""

    labels: int
    mean_absolute_error: float
    root_mean_squared_error: float
    r_squared: float | None
    """The part of the labels' variance that is explained; None where they are all alike."""

    def as_json(self) -> dict[str, Json]:
        """With a name for every number."""
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
    predicted, numbers = flat.argmax(1), np.arange(len(names))
    by_class = precision_recall_fscore_support(true, predicted, labels=numbers, zero_division=0.0)
    return LabelScores(
        labels=len(true),
        accuracy=float((true == predicted).mean()),
        auroc=of_ranks(flat[:, 1] - flat[:, 0], true).rate if set(true) == {0, 1} == set(numbers) else None,
        loss=float(-log_probabilities(flat)[np.arange(len(true)), true].mean()),
        classes=[
            ClassScore(name, float(precision), float(recall), float(f1), int(support))
            for name, precision, recall, f1, support in zip(names, *by_class, strict=True)
        ],
        confusion=confusion_matrix(true, predicted, labels=numbers).tolist(),
    )


def score_numbers(outputs: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> NumberScores:
    """Scores of numbers: outputs (1,) and labels (), a row each."""
    found, true = np.array([output[0] for output in outputs]), np.array(labels, dtype=np.float64)
    squared, spread = np.square(found - true), np.square(true - true.mean()).sum()
    return NumberScores(
        labels=len(true),
        mean_absolute_error=float(np.abs(found - true).mean()),
        root_mean_squared_error=float(np.sqrt(squared.mean())),
        r_squared=float(1 - squared.sum() / spread) if spread else None,
    )


def score_run(path: Path, split: str, file: Path | None, text_column: str | None) -> dict[str, Json]:
    """One row of a table: the run, what the score counts, the score; `identity` is the vocabulary's.

    Raises:
        DataError: no finished language model, no such split, or data that have changed since the run.
    """
    model, tokenizer = load_language_model(path)
    text = _split_of(RunFolder(path), split) if file is None else _whole(tokenizer, file, text_column)
    stream = text.stream
    nats = float(token_losses(model, text).sum())
    ends = int((stream.tokens[1:] == tokenizer.eos_token_id).sum())
    return {
        "run": path.name,
        "cell": model.config.cell,
        "text": f"{stream.text_bytes:,} bytes, documents: {len(stream.starts):,}",
        "vocabulary": len(tokenizer),
        "tokens": stream.predictions,
        "<eos>": ends,
        "<unk>": f"{stream.unknown / stream.predictions:.2%}",
        "perplexity": math.exp(min(nats / stream.predictions, 700.0)),
        "bits per byte": nats / math.log(2) / stream.text_bytes,
        "identity": _identity(tokenizer),
    }


class Scored(NamedTuple):
    """What a model's predicted labels score."""

    run: str
    cell: str
    source: str
    """The split or file, by name."""
    rows: int
    scores: LabelScores | NumberScores
    notes: list[str]


def score_predictions(
    path: Path, split: str, file: Path | None, text_column: str | None, label_column: str | None,
    data_root: Path | None = None,
) -> Scored:  # fmt: skip
    """Scores of a classifier, a labeller of steps or a regression, on a split of its own data or on a labelled file.

    Raises:
        DataError: no finished model, no such split, data that have changed, or a file that does not fit the model.
    """
    finished, notes = open_finished(path), list[str]()
    if file is None:
        folder = RunFolder(path)
        data = data_of(folder)
        splits = {
            name: found for name, found in {**data.evaluation, "train": data.train}.items()
            if isinstance(found, Examples)
        }  # fmt: skip
        if split not in splits:
            raise DataError(f"{path}: has no split {split!r}; there are {', '.join(splits)}")
        inputs, labels, gaps = splits[split].inputs, list(splits[split].labels), splits[split].gaps
    else:
        rows = read_labelled_rows(finished, file, text_column, label_column, data_root, labelled=True)
        assert rows.labels is not None
        inputs, labels, gaps, notes = rows.inputs, rows.labels, rows.gaps, rows.notes
    if all(bool((label == IGNORED).all()) for label in labels):
        raise DataError(f"{file or split}: has no label to hold a prediction against")
    outputs, config = outputs_of(finished, inputs, gaps), finished.model.config
    regression = config.problem_type == "regression"
    scores = score_numbers(outputs, labels) if regression else score_labels(outputs, labels, class_names(config))
    return Scored(path.name, config.cell, split if file is None else file.name, len(inputs), scores, notes)


class ForecastsScored(NamedTuple):
    """What a model's forecasts of a split score."""

    run: str
    cell: str
    fresh: Scores
    """Every window in units of its own context."""
    streamed: Scores
    """Each series as a stream, in units of the context before its first forecast."""

    def as_json(self) -> dict[str, Json]:
        """With a name for every number."""
        both = {name: getattr(self, name).model_dump(exclude_none=True) for name in ("fresh", "streamed")}
        return {"run": self.run, "cell": self.cell, **both}


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
    found = {**data.evaluation, "train": data.train}.get(split)
    if not isinstance(found, RunningText):
        raise DataError(f"{folder.path}: has no split {split!r}; there are {', '.join(data.evaluation)}, train")
    return Lanes(found.stream, EVALUATION_LENGTH, found.resets)


def _whole(tokenizer: PreTrainedTokenizerFast, file: Path, text_column: str | None) -> Lanes:
    return Lanes(tokenise_with(tokenizer, read_corpus(file, text_column, None)), EVALUATION_LENGTH, False)


def _identity(tokenizer: PreTrainedTokenizerFast) -> str:
    return hashlib.sha256(json.dumps(tokenizer.get_vocab(), sort_keys=True).encode()).hexdigest()
