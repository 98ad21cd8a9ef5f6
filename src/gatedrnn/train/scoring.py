"""Scores of finished language models, with everything a perplexity depends on beside it."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import yaml
from transformers import PreTrainedTokenizerFast

from gatedrnn.data import DataError, Lanes, TaskData, load_task
from gatedrnn.data.corpus import read_corpus
from gatedrnn.data.language import EVALUATION_LENGTH
from gatedrnn.data.stream import tokenise_with
from gatedrnn.train.evaluate import token_losses
from gatedrnn.train.folder import RunFolder
from gatedrnn.train.sampling import load_language_model
from gatedrnn.train.settings import RunSettings


def score_run(path: Path, split: str, file: Path | None, text_column: str | None) -> dict[str, Any]:
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
        "text": f"{stream.text_bytes:,} bytes, {len(stream.starts):,} document(s)",
        "vocabulary": len(tokenizer),
        "tokens": stream.predictions,
        "<eos>": ends,
        "<unk>": f"{stream.unknown / stream.predictions:.2%}",
        "perplexity": math.exp(min(nats / stream.predictions, 700.0)),
        "bits per byte": nats / math.log(2) / stream.text_bytes,
        "identity": _identity(tokenizer),
    }


def data_of(folder: RunFolder) -> TaskData:
    """The data that a run was trained on.

    Raises:
        DataError: it is no run's folder, or its data have changed since.
    """
    if not folder.config.exists():
        raise DataError(f"{folder.path}: is no run's folder (no config.yaml); name a text with --file")
    settings = RunSettings.from_flat(yaml.safe_load(folder.config.read_text(encoding="utf-8")))
    data = load_task(settings.data)
    if json.loads(folder.data.read_text(encoding="utf-8")) != data.sources:
        raise DataError(f"{folder.path}: the data have changed since this run; name a text with --file")
    return data


def _split_of(folder: RunFolder, split: str) -> Lanes:
    data = data_of(folder)
    found = {**data.evaluation, "train": data.train}.get(split)
    if not isinstance(found, Lanes):
        raise DataError(f"{folder.path}: has no split {split!r}; there are {', '.join(data.evaluation)}, train")
    return Lanes(found.stream, EVALUATION_LENGTH, found.resets)


def _whole(tokenizer: PreTrainedTokenizerFast, file: Path, text_column: str | None) -> Lanes:
    return Lanes(tokenise_with(tokenizer, read_corpus(file, text_column, None)), EVALUATION_LENGTH, False)


def _identity(tokenizer: PreTrainedTokenizerFast) -> str:
    return hashlib.sha256(json.dumps(tokenizer.get_vocab(), sort_keys=True).encode()).hexdigest()
