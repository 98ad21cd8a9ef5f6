"""The length of a run by the minutes that it may take, measured once, before it begins."""

import os
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from gatedrnn.data import TaskData, load_task
from gatedrnn.errors import UsageError
from gatedrnn.records import Json
from gatedrnn.training.chosen import with_values
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.loop import Trainer
from gatedrnn.training.resources import check_room, compile_kernels
from gatedrnn.training.settings import RunSettings
from gatedrnn.training.task import task_named

SHARE = 0.9
"""The share of the minutes for steps of training; the rest is for validations, the test and what is written."""
FIRST, LEAST, MOST, SECONDS = 2, 3, 50, 3.0
"""Steps that are not measured, since a process pays for caches in them; then so many, or as many as take so long."""
_MAX_MEMBERS = 5
"""Networks that a model gets from the time that is left, where more steps do not pay."""


class Budgeted(NamedTuple):
    """A run that takes the minutes that it may."""

    settings: RunSettings
    said: str
    """A sentence on how it uses them."""


def within(settings: RunSettings, minutes: float) -> Budgeted:
    """Steps, and members, of a run for minutes of training on this machine.

    Args:
        settings: of the run; its recipe's steps are the most where more do not pay.
        minutes: that it may take, above 0.

    Raises:
        UsageError: they are too few for one step; or several processes train, of which each would measure its own.
    """
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise UsageError("--train-minutes measures one process; under torchrun give --total-steps")
    data = load_task(settings.data)
    measured = _measured(settings, data)
    seconds = measured.seconds
    runs = task_named(settings.data.task).ending().trainings(settings, data)
    steps = int(SHARE * 60 * minutes / seconds / runs)
    each = f"a step takes {1000 * seconds:.3g} ms here" + (
        f", and the model is trained {runs} times" if runs > 1 else ""
    )
    if not steps:
        raise UsageError(f"--train-minutes {minutes:g}: {each}; give {runs * seconds / SHARE / 60:.2g} at least")
    values: dict[str, Json] = {"total_steps": steps}
    said = f"{steps:,} steps"
    if task_named(settings.data.task).recipe.most_steps and steps > (recipe := measured.recipe):
        values, said = {"total_steps": recipe}, f"{recipe:,} steps, as the recipe has: more do not pay"
        members = min(_MAX_MEMBERS, steps // recipe)
        if "members" not in settings.data.refuses and settings.model.members == 1 < members:
            values["members"], said = members, f"{said}; {members} networks"
    return Budgeted(with_values(settings, values), f"{minutes:g} minutes: {each}: {said}.")


class _Measured(NamedTuple):
    seconds: float
    """The seconds of a step."""
    recipe: int
    """Steps of the whole run, as its settings have them."""


def _measured(settings: RunSettings, data: TaskData) -> _Measured:
    """Measure the first steps of a run; nothing of it is kept."""
    check_room(settings, data)
    compile_kernels([settings])
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(settings, data, RunFolder(Path(folder)))
        trainer.run_steps(FIRST)
        few = _timed(trainer, LEAST)
        steps = min(MOST, max(LEAST, int(SECONDS / few)))
        return _Measured(min(few, _timed(trainer, steps)), trainer.total)


def _timed(trainer: Trainer, steps: int) -> float:
    """Seconds of one of so many steps."""
    started = time.perf_counter()
    trainer.run_steps(steps)
    return (time.perf_counter() - started) / steps
