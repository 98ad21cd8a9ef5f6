"""The model of a run that has ended, or of its newest checkpoint, whatever it predicts."""

import atexit
import json
import logging
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from gatedrnn.data import TaskData, load_task
from gatedrnn.errors import DataError
from gatedrnn.models.backbones import BACKBONES
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.models.opening import AUTO_CLASSES, Finished, open_both
from gatedrnn.registry import CELLS
from gatedrnn.training import checkpoint
from gatedrnn.training.checkpoint import AVERAGE, BEST
from gatedrnn.training.folder import RunFolder, check_model

LOG = logging.getLogger("gatedrnn")
STATE = "custom_checkpoint_0.pkl"
"""The file in a checkpoint that says how far the run was."""


def data_of(folder: RunFolder) -> TaskData:
    """The data that a run was trained on, or is.

    Raises:
        DataError: it is no run's folder, or its data have changed since.
        Damaged: its settings or its record of the data are not as they were written.
    """
    if not folder.config.exists():
        raise DataError(f"{folder.path}: is no run's folder (no config.yaml); name a text with --file")
    data = load_task(folder.settings().data)
    if folder.sources() != data.sources:
        raise DataError(f"{folder.path}: the data have changed since this run; name a text with --file")
    return data


def is_under_way(path: Path) -> bool:
    """Whether a folder is of a run that has a checkpoint and no model yet."""
    folder = RunFolder(path)
    return folder.config.exists() and not folder.model.exists() and any(folder.checkpoints.glob("step-*"))


def model_so_far(path: Path) -> Path:
    """A Hugging Face folder of such a run, with the best weights on validation so far, or the newest where it has not
    validated yet.

    Raises:
        DataError: its data have changed, or each process holds a part of its weights.
        CheckpointDamaged: its checkpoint is not whole.
    """
    folder = RunFolder(path)
    newest = checkpoint.newest(folder.checkpoints)
    if newest is None:
        raise DataError(f"{path}: has no checkpoint yet")
    return _written(path, newest)


@cache
def _written(path: Path, newest: Path) -> Path:
    """The folder of one checkpoint; a later one has its own."""
    folder = RunFolder(path)
    file = next((newest / f"{name}.safetensors" for name in (BEST, AVERAGE, "model") if _has(newest, name)), None)
    if file is None:
        raise DataError(
            f"{path}: each process holds a part of its weights; gatedrnn train --finish {path} ends it first"
        )
    state = torch.load(newest / STATE, weights_only=True)
    step, which = state["step"], "newest"
    if file.stem == BEST:
        by_validation = folder.settings().train.weights == "best"
        step, which = state["best_step"], "best on validation so far" if by_validation else "last validated"
    LOG.info("%s: has not ended; the weights of step %d are taken, the %s", path, step, which)
    # The parts of a training, which a run that has ended is opened without.
    from gatedrnn.training.model import build_model, write_model
    from gatedrnn.training.optimise import put_into

    data = data_of(folder)
    model = build_model(folder.settings(), data)
    put_into(model, load_file(file))
    place = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    write_model(model, data, place / "model", f"Step {step} of a run that has not ended.\n")
    return place / "model"


def _has(newest: Path, name: str) -> bool:
    return (newest / f"{name}.safetensors").exists()


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
    return Finished(*open_both(model_class_of(folder), place), task_of(folder))


def state_of(folder: Path) -> tuple[object, ...]:
    """A value that changes when a folder's model changes: the newest checkpoint of a run that has not ended, else the
    name, size and time of change of each file."""
    if is_under_way(folder):
        return (checkpoint.newest(RunFolder(folder).checkpoints),)
    model = RunFolder(folder).model
    place = model if model.is_dir() else folder
    files = [(entry.name, entry.stat()) for entry in os.scandir(place) if entry.is_file()] if place.is_dir() else []
    return tuple(sorted((name, held.st_size, held.st_mtime_ns) for name, held in files))


def model_class_of(folder: Path) -> type[GatedRNNPreTrainedModel]:
    """The class of a folder's model, as its configuration says; nothing is loaded.

    Raises:
        DataError: there is no model, or it is another library's.
    """
    place = model_place(folder)
    try:
        named = _configuration(place)["architectures"][0]
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(f"{place / 'config.json'}: names no architecture, so that it cannot be loaded") from error
    kinds = {kind.__name__: kind for kind in AUTO_CLASSES}
    if named not in kinds:
        raise DataError(f"{place}: is a {named}; must be one of {', '.join(kinds)}")
    return kinds[named]


_TASKS_OF_MODELS = {
    "GatedRNNForSequenceClassification": "text-classification", "GatedRNNForCausalLM": "language-model",
    "GatedRNNForTokenClassification": "token-classification", "GatedRNNForForecasting": "forecast",
}  # fmt: skip
"""The task of a model whose configuration names none, as those of earlier versions."""


def task_of(folder: Path) -> str:
    """The name of the task that a folder's model was trained on, as its configuration says; nothing is loaded.

    Raises:
        DataError: there is no model, or it is another library's.
    """
    configuration, kind = _configuration(model_place(folder)), model_class_of(folder)
    named: str | None = configuration.get("task")
    # Folders of earlier versions name no task; which models a task had is known of these alone.
    return named or ("series-classification" if configuration.get("series") else _TASKS_OF_MODELS[kind.__name__])


def _configuration(place: Path) -> dict[str, Any]:
    configuration: dict[str, Any] = json.loads((place / "config.json").read_text(encoding="utf-8"))
    return configuration


def label_names(folder: Path) -> list[str]:
    """The names of a finished run's classes or labels, in the order of its model's outputs; nothing is loaded."""
    named: dict[str, str] = _configuration(model_place(folder)).get("id2label", {})
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
        cells = str(_configuration(place)["cell"])
    except (ValueError, LookupError, TypeError):  # which is said where the model is opened
        return True
    return all(cell.strip().partition(":")[0] in (*CELLS, *BACKBONES) for cell in cells.split(","))
