"""Checkpoints that are whole or not there: written under another name, summed, renamed; checked before reading."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

MANIFEST = "manifest.json"
_UNFINISHED = "writing-"


class CheckpointDamaged(Exception):
    """A checkpoint whose contents do not match its sums."""


class Together(Protocol):
    """Processes that write one checkpoint; Accelerate's accelerator is one."""

    is_main_process: bool

    def wait_for_everyone(self) -> None:
        """Until all processes have come this far."""
        ...


def save(folder: Path, step: int, write: Callable[[Path], None], together: Together) -> None:
    """Write the checkpoint of `step` below `folder`, then remove older ones. Called by all processes.

    Killed at any moment, or without room on the disk, the newest checkpoint that was whole before is still there and
    still whole.
    """
    final = folder / f"step-{step:08d}"
    temporary = folder / f"{_UNFINISHED}{final.name}"
    if together.is_main_process:
        remove_unfinished(folder)
        temporary.mkdir(parents=True)
    together.wait_for_everyone()
    write(temporary)
    together.wait_for_everyone()
    if together.is_main_process:
        sums = {path.name: _sum(path) for path in sorted(temporary.iterdir())}
        (temporary / MANIFEST).write_text(json.dumps(sums, indent=1))
        if final.exists():
            shutil.rmtree(final)
        temporary.rename(final)
        for older in _steps(folder):
            if older != final:
                shutil.rmtree(older)
    together.wait_for_everyone()


def newest(folder: Path) -> Path | None:
    """The newest checkpoint, its sums checked; None if there is none.

    Raises:
        CheckpointDamaged: the newest is damaged and no older one is whole.
    """
    damage: list[str] = []
    for candidate in reversed(_steps(folder)):
        fault = _fault(candidate)
        if fault is None:
            return candidate
        damage.append(f"{candidate}: {fault}")
    if damage:
        raise CheckpointDamaged(f"{damage[0]}; nothing was loaded. Remove the checkpoint to start this run over")
    return None


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed run left half-written."""
    for leftover in folder.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(leftover)


def _steps(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-????????"))


def _fault(checkpoint: Path) -> str | None:
    try:
        sums = json.loads((checkpoint / MANIFEST).read_text())
    except (OSError, ValueError):
        return f"{MANIFEST} is missing or unreadable"
    present = {path.name for path in checkpoint.iterdir()} - {MANIFEST}
    if not isinstance(sums, dict) or sums.keys() != present:
        return f"{MANIFEST} does not name the files that are there"
    for name, expected in sums.items():
        if _sum(checkpoint / name) != expected:
            return f"{name} does not match its sha256 sum"
    return None


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
