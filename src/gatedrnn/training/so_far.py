"""The model of a run that has not ended: the best weights of its newest checkpoint, in a folder that lives as long as
this process."""

import atexit
import logging
import shutil
import tempfile
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file

from gatedrnn.data import TaskData, load_task
from gatedrnn.errors import DataError
from gatedrnn.training import checkpoint
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.model import build_model, write_model
from gatedrnn.training.optimise import put_into
from gatedrnn.training.sharing import AVERAGE, BEST

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
        raise DataError(f"{path}: each process holds a part of its weights; train --finish {path} ends it first")
    state = torch.load(newest / STATE, weights_only=True)
    step, which = (state["best_step"], "best on validation so far") if file.stem == BEST else (state["step"], "newest")
    LOG.info("%s: has not ended; the weights of step %d are taken, the %s", path, step, which)
    data = data_of(folder)
    model = build_model(folder.settings(), data)
    put_into(model, load_file(file))
    place = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    write_model(model, data, place / "model", f"Step {step} of a run that has not ended.\n")
    return place / "model"


def _has(newest: Path, name: str) -> bool:
    return (newest / f"{name}.safetensors").exists()
