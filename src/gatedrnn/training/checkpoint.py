"""Checkpoints that are whole or not there: written under another name, summed, renamed; checked before reading."""

import logging
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError

from gatedrnn import manifest
from gatedrnn.errors import CheckpointDamaged, Damaged
from gatedrnn.records import naming, remove_folder, sync, whole_or_removed

LOG = logging.getLogger("gatedrnn")
_UNFINISHED = "writing-"
BEST, AVERAGE = COPIES = ("best", "average")
"""Copies of weights in a checkpoint: of the best validation, and the moving average."""


class Together(Protocol):
    """Processes that write one checkpoint; Accelerate's accelerator is one."""

    is_main_process: bool

    def wait_for_everyone(self) -> None:
        """Wait until all processes have come this far."""
        ...


def save(folder: Path, step: int, write: Callable[[Path], None], together: Together) -> None:
    """Write the checkpoint of `step` below `folder`, then remove older ones. Called by all processes.

    Killed at any moment, without power or without space on the disk, the newest checkpoint that was whole before is
    still there and still whole.

    Raises:
        OSError: it could not be written; it names the file.
    """
    final = folder / f"step-{step:08d}"
    temporary = folder / f"{_UNFINISHED}{final.name}"
    if together.is_main_process:
        remove_unfinished(folder)
        temporary.mkdir(parents=True)
    together.wait_for_everyone()
    with _kept_so_far(folder), written_whole(temporary, final):
        write(temporary)
    together.wait_for_everyone()
    if together.is_main_process:
        with _kept_so_far(folder), written_whole(temporary, final):
            manifest.write(temporary, {path.name: manifest.entry_at(path) for path in sorted(temporary.iterdir())})
            for path in (*temporary.iterdir(), temporary):
                sync(path)
        remove_folder(final)
        temporary.rename(final)
        sync(folder)  # the new name is on the disk before older checkpoints go
        for older in _steps(folder):
            if older != final:
                remove_folder(older)
    together.wait_for_everyone()


@contextmanager
def _kept_so_far(folder: Path) -> Iterator[None]:
    """Let an error of writing say which checkpoint there is."""
    try:
        yield
    except OSError as error:
        kept = [step.name for step in _steps(folder)[-1:]] or ["no checkpoint"]
        raise OSError(error.errno, f"{error.strerror}; kept so far: {kept[0]}", error.filename) from error


@contextmanager
def written_whole(folder: Path, final: Path) -> Iterator[None]:
    """`whole_or_removed`, for what torch and safetensors raise too.

    Raises:
        OSError: it names the file.
    """
    with whole_or_removed(folder, final, RuntimeError):
        try:
            yield
        except SafetensorError:
            with naming(final / "model.safetensors", SafetensorError):  # which it has removed
                raise


def newest(folder: Path) -> Path | None:
    """The newest checkpoint, its sums checked; None if there is none.

    Raises:
        CheckpointDamaged: the newest is damaged and no older one is whole.
    """
    damage: list[str] = []
    for candidate in reversed(_steps(folder)):
        fault = _fault(candidate)
        if fault is None:
            if damage:
                LOG.warning("%s; going on from %s", damage[0], candidate.name)
            return candidate
        damage.append(f"{candidate}: {fault}")
    if damage:
        raise CheckpointDamaged(f"{damage[0]}; nothing was loaded. Remove the checkpoint to start this run over")
    return None


def step_of(checkpoint: Path) -> int:
    """The steps that a run had done at a checkpoint."""
    return int(checkpoint.name.removeprefix("step-"))


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed run left half-written or half-removed."""
    for leftover in (*folder.glob(f"{_UNFINISHED}*"), *folder.glob("*.removing")):
        shutil.rmtree(leftover)


def _steps(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-????????"))


def _fault(checkpoint: Path) -> str | None:
    try:
        files = manifest.read(checkpoint)
    except Damaged as error:
        return str(error)
    reasons = [f"{name} {fault}" for name, fault in manifest.faults(checkpoint).items()]
    present = {path.name for path in checkpoint.iterdir()} - {manifest.MANIFEST}
    reasons += [f"{name} is not named in {manifest.MANIFEST}" for name in sorted(present - files.keys())]
    return reasons[0] if reasons else _runs(checkpoint)


def _runs(checkpoint: Path) -> str | None:
    """The file of a checkpoint that would run code when read: Accelerate reads what is registered with it as any
    pickle.
    """
    for file in sorted(checkpoint.glob("custom_checkpoint_*.pkl")):
        try:
            torch.load(file, weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError):
            return f"{file.name} holds more than numbers and names, and would be run"
    return None
