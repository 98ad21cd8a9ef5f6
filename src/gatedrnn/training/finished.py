"""A finished model of any task, from a run's folder or from a Hugging Face folder that one wrote."""

import json
import logging
from pathlib import Path
from typing import NamedTuple

from transformers import PreTrainedTokenizerFast

from gatedrnn import manifest
from gatedrnn.data import TaskData
from gatedrnn.errors import DataError, reason
from gatedrnn.models.backbones import BACKBONES
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.models.opening import open_model, open_tokenizer
from gatedrnn.registry import CELLS
from gatedrnn.training.evaluate import evaluate
from gatedrnn.training.folder import RunFolder, check_model
from gatedrnn.training.loop import accelerator_for
from gatedrnn.training.model import HEADS
from gatedrnn.training.outcomes import Outcomes, read_outcomes, write_outcomes
from gatedrnn.training.so_far import is_under_way, model_so_far

LOG = logging.getLogger("gatedrnn")


class Finished(NamedTuple):
    """A model that was trained, in `eval()`."""

    model: GatedRNNPreTrainedModel
    tokenizer: PreTrainedTokenizerFast | None
    """The tokenizer; None where the model reads numbers, or tokens that are numbers already."""
    labelled: str
    """The unit of its predictions: "sequence", a label or number for each; "step", a label for every step; "next",
    tokens."""


def open_tested(folder: Path) -> Finished:
    """The model of a finished run that was scored on the test: of a forecaster that was trained again on everything,
    the one before.

    Raises:
        DataError: as `open_finished`.
    """
    tested = RunFolder(folder).tested
    return open_finished(tested if tested.exists() else folder)


def open_finished(folder: Path) -> Finished:
    """The model of a finished run, or of a folder that one wrote, whatever it predicts.

    Raises:
        DataError: there is none, or it is another library's, or it is damaged.
    """
    place = model_place(folder)
    labelled = labelled_by(folder)
    try:
        tokenizer = open_tokenizer(place) if (place / "tokenizer.json").exists() else None
        model = open_model(HEADS[labelled], place)
    except Exception as error:  # the libraries raise many kinds for a torn or foreign folder
        raise DataError(f"{place}: cannot be loaded: {reason(error)}") from error
    return Finished(model, tokenizer, labelled)


def outcomes_of(path: Path, data: TaskData) -> dict[str, Outcomes]:
    """The outcomes of a finished run by split; of one that an earlier version trained, its model is evaluated again.

    Raises:
        Damaged: the file is not as it was written.
    """
    folder = RunFolder(path)
    if not folder.outcomes.exists() and not folder.lists(folder.outcomes.name):
        LOG.info("%s: has no outcomes of single examples; its model is evaluated again", path)
        model, accelerator = open_tested(path).model, accelerator_for(folder.settings())
        model.to(accelerator.device)
        outcomes = {split: evaluate(model, part, accelerator).outcomes for split, part in data.evaluation.items()}
        write_outcomes(folder.outcomes, outcomes)
        manifest.add(path, folder.outcomes.name)
    folder.check(folder.outcomes.name)
    return read_outcomes(folder.outcomes)


def labelled_by(folder: Path) -> str:
    """The unit of the predictions of a folder's model, as its configuration says; nothing is loaded.

    Raises:
        DataError: there is no model, or it is another library's.
    """
    place = model_place(folder)
    try:
        config = json.loads((place / "config.json").read_text(encoding="utf-8"))
        named = config["architectures"][0]
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(f"{place / 'config.json'}: names no architecture, so that it cannot be loaded") from error
    kinds = {head.__name__: kind for kind, head in HEADS.items()}
    if named not in kinds:
        raise DataError(f"{place}: is a {named}; must be one of {', '.join(kinds)}")
    return kinds[named]


def label_names(folder: Path) -> list[str]:
    """The names of a finished run's classes or labels, in the order of its model's outputs; nothing is loaded."""
    config = json.loads((model_place(folder) / "config.json").read_text(encoding="utf-8"))
    named: dict[str, str] = config.get("id2label", {})
    return [named[number] for number in sorted(named, key=int)]


def model_place(folder: Path) -> Path:
    """The Hugging Face folder: below a run's, or the folder itself; its files are checked. Of a run that has not ended
    one is made of its newest checkpoint.

    Raises:
        DataError: there is none.  Damaged: a file of it is not as it was written.
        UntrustedCode: it is of a contender of a user's own file, which may not be run.
    """
    if not folder.exists():
        raise DataError(f"{folder}: there is no such folder")
    place = model_so_far(folder) if is_under_way(folder) else check_model(folder)
    if not (place / "config.json").exists():
        raise DataError(f"{folder}: holds no model; a run without a checkpoint has none yet")
    if not _is_known(place):
        RunFolder(folder).enter_cells()
    return place


def _is_known(place: Path) -> bool:
    """Whether a model's cells have names here; a contender of a user's own file has one once that is run."""
    try:
        cells = str(json.loads((place / "config.json").read_text(encoding="utf-8"))["cell"])
    except (ValueError, LookupError, TypeError):  # which is said where the model is opened
        return True
    return all(cell.strip().partition(":")[0] in (*CELLS, *BACKBONES) for cell in cells.split(","))
