"""A trained model, and rows of the text or task that it is looked at on."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from gatedrnn.data import Examples, Lanes
from gatedrnn.data.corpus import read_corpus
from gatedrnn.data.stream import tokenise_with
from gatedrnn.errors import DataError
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.models.opening import open_model
from gatedrnn.train.folder import RunFolder, check_model
from gatedrnn.train.model import HEADS
from gatedrnn.train.sampling import load_language_model
from gatedrnn.train.scoring import data_of


class Looked(NamedTuple):
    """What is looked at."""

    model: GatedRNNPreTrainedModel
    inputs: dict[str, torch.Tensor]
    """input_ids (rows, steps), or input_values (rows, steps, features)."""
    source: str
    """Where they are from, in words, without a path."""


def of_run(path: Path, split: str, rows: int, steps: int) -> Looked:
    """A finished run's model, on a split of its own data.

    Raises:
        DataError: no finished run, no such split, or data that have changed since the run.
    """
    folder = RunFolder(path)
    data = data_of(folder)
    if not folder.model.exists():
        raise DataError(f"{path}: has no model yet; a run that has not ended has none (train --resume ends it)")
    if split not in data.evaluation:
        raise DataError(f"{path}: has no split {split!r}; there are {', '.join(data.evaluation)}")
    found = data.evaluation[split]
    inputs = _of_lanes(found, rows, steps) if isinstance(found, Lanes) else _of_examples(found, rows, steps)
    return Looked(_loaded(HEADS[data.labelled], check_model(path)), inputs, f"{data.name}, {split} split")


def of_text(path: Path, file: Path, text_column: str | None, rows: int, steps: int) -> Looked:
    """A language model, from a run or a Hugging Face folder, on a text.

    Raises:
        DataError: no language model, or no text.
    """
    model, tokenizer = load_language_model(path)
    text = Lanes(tokenise_with(tokenizer, read_corpus(file, text_column, None)), steps, False)
    return Looked(model, _of_lanes(text, rows, steps), file.name)


def _loaded(head: type[GatedRNNPreTrainedModel], place: Path) -> GatedRNNPreTrainedModel:
    try:
        return open_model(head, place)
    except Exception as error:  # the library raises many kinds for a torn or foreign folder
        raise DataError(f"{place}: cannot be loaded: {str(error).splitlines()[0]}") from error


def _of_lanes(text: Lanes, rows: int, steps: int) -> dict[str, torch.Tensor]:
    """Pieces of a text that follow each other, each read from the initial state; shorter where the text is."""
    tokens = np.asarray(text.stream.tokens[: rows * steps])
    steps = _enough(min(steps, len(tokens)))
    kept = tokens[: len(tokens) // steps * steps].reshape(-1, steps)
    return {"input_ids": torch.from_numpy(kept.astype(np.int64))}


def _of_examples(examples: Examples, rows: int, steps: int) -> dict[str, torch.Tensor]:
    """The longest examples, cut to their median length; what is shorter is left out, so that nothing is padded."""
    chosen = np.argsort(-examples.lengths, kind="stable")[:rows]
    steps = _enough(min(steps, int(np.median(examples.lengths[chosen]))))
    batch = examples.collate(chosen[examples.lengths[chosen] >= steps])
    return {name: values[:, :steps] for name, values in batch.items() if name in ("input_ids", "input_values")}


def _enough(steps: int) -> int:
    if steps < 2:
        raise DataError(
            f"a sequence of {steps} step(s) says nothing about memory; give longer ones, or --steps above 1"
        )
    return steps
