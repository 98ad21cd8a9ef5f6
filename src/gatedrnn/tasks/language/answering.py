"""Scores of texts by a finished language model."""

import hashlib
import json
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from gatedrnn.data import Lanes, RunningText
from gatedrnn.data.corpus import read_corpus
from gatedrnn.data.frames import Frame, NewData
from gatedrnn.data.stream import tokenise_with
from gatedrnn.errors import DataError, UsageError
from gatedrnn.tables.files import Source
from gatedrnn.tasks.language.read import EVALUATION_LENGTH
from gatedrnn.tasks.language.scores import text_scores, token_losses
from gatedrnn.training.finished import data_of
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.predict import Predicted
from gatedrnn.training.sample import load_language_model
from gatedrnn.training.score import Scored, Text
from gatedrnn.training.task import Answering, Asked


class TextAnswering(Answering):
    """A language model scores texts; it predicts no labels."""

    answers = "texts"

    def predict(self, new: NewData, asked: Asked, baseline: str | None = None) -> Predicted:
        raise DataError(
            "this is a language model, which predicts tokens and no labels; `gatedrnn evaluate` scores a text, "
            "`gatedrnn generate` writes one"
        )

    def read(self, file: Path, backend: str) -> Frame:
        raise DataError("a language model writes no table of predictions")

    def score(self, split: str, new: NewData | None, asked: Asked) -> Scored:
        if asked.label_column:
            raise UsageError("--label-column: a language model reads no labels; leave it out")
        if new is not None and new.series is not None:
            raise UsageError("a language model is scored on a text, not on series")
        column = asked.text_column or (None if new is None else new.text_column)
        return score_run(self.path, split, None if new is None else new.source, column)


def score_run(path: Path, split: str, source: Source | None, text_column: str | None) -> Scored:
    """Perplexity and bits per byte of a language model.

    Raises:
        DataError: no finished language model, no such split, or data that have changed since the run.
    """
    model, tokenizer = load_language_model(path)
    text = _split_of(RunFolder(path), split) if source is None else _whole(tokenizer, source, text_column)
    stream, losses = text.stream, token_losses(model, text)
    size = f"{stream.text_bytes:,} bytes, documents: {len(stream.starts):,}"
    ends = int((stream.tokens[1:] == tokenizer.eos_token_id).sum())
    return Scored(
        run=path.name, cell=model.config.cell, source=split if source is None else source.name,
        scores=text_scores(losses, stream.text_bytes),
        text_read=Text(
            size=size, vocabulary=len(tokenizer), tokens=stream.predictions, ends=ends,
            unknown=stream.unknown / stream.predictions, identity=_identity(tokenizer),
        ),
    )  # fmt: skip


def _split_of(folder: RunFolder, split: str) -> Lanes:
    data = data_of(folder)
    part = {**data.evaluation, "train": data.train}.get(split)
    if not isinstance(part, RunningText):
        raise DataError(f"{folder.path}: has no split {split!r}; there are {', '.join(data.evaluation)}, train")
    return Lanes(part.stream, EVALUATION_LENGTH, part.resets)


def _whole(tokenizer: PreTrainedTokenizerFast, source: Source, text_column: str | None) -> Lanes:
    return Lanes(tokenise_with(tokenizer, read_corpus(source, text_column, None)), EVALUATION_LENGTH, False)


def _identity(tokenizer: PreTrainedTokenizerFast) -> str:
    return hashlib.sha256(json.dumps(tokenizer.get_vocab(), sort_keys=True).encode()).hexdigest()
