"""Callbacks, which watch a run and may end it: a caller's own objects, and the trackers of Accelerate."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from gatedrnn.errors import UsageError, unknown
from gatedrnn.training.model import scores_of
from gatedrnn.training.result import RunResult
from gatedrnn.training.settings import RunSettings

_TRACKERS = ("tensorboard", "wandb", "mlflow", "trackio")
"""The names of trackers, which are those of their packages."""


@dataclass(frozen=True)
class StepRecord:
    """One step of a run."""

    step: int
    """Steps so far."""
    steps: int
    """Steps in all."""
    epoch: int
    loss: float
    learning_rate: float
    gradient_norm: float
    """Before clipping."""


@dataclass(frozen=True)
class ValidationRecord:
    """One validation of a run."""

    step: int
    scores: "MappingProxyType[str, float]"
    """The scores by name."""
    is_best: bool
    """Whether these weights are the best so far."""


class Callback(Protocol):
    """Methods of an object that watches a run; it needs no more of them than it uses.

    `on_step` and `on_validation` may return True, which ends the run there as if it had no further steps: its best
    weights are tested and kept. They are called in the first of several processes.
    """

    def on_step(self, record: StepRecord) -> bool | None:
        """Called after each step."""
        ...

    def on_validation(self, record: ValidationRecord) -> bool | None:
        """Called after each validation."""
        ...

    def on_end(self, result: RunResult) -> None:
        """Called when the run has ended, with what result.json holds."""
        ...


Callbacks: TypeAlias = Sequence[object]
"""Objects with some of the methods of `Callback`."""


def told(callbacks: Callbacks, method: str, record: object) -> bool:
    """Call a method of all that have it, and return whether one of them asks for the end."""
    answers = [getattr(one, method)(record) for one in callbacks if hasattr(one, method)]
    return any(answer is True for answer in answers)


@contextmanager
def tracked(names: Sequence[str], folder: Path, settings: RunSettings) -> Iterator[list["Tracker"]]:
    """Open trackers by name, as callbacks; they are finished whatever ends the run.

    Raises:
        UsageError: there is no such tracker, or its package is not installed.
    """
    check_trackers(names)
    opened = [Tracker(name, folder, settings) for name in names]
    try:
        yield opened
    finally:
        for one in opened:
            one.finish()


def check_trackers(names: Sequence[str]) -> None:
    """Check that there are such trackers, and that they are installed.

    Raises:
        UsageError: one is not.
    """
    for name in names:
        if name not in _TRACKERS:
            raise UsageError(f"--log: {unknown('tracker', name, _TRACKERS)}")
        if find_spec(name) is None:
            raise UsageError(f"--log {name}: {name} is not installed; pip install {name}")


class Tracker:
    """One of Accelerate's trackers as a callback.

    Names are train/loss, train/learning_rate, train/gradient_norm, train/epoch, validation/… and test/…, each at its
    step. TensorBoard's files are in the run's folder; for the others the run has the folder's name, in the project
    gatedrnn.
    """

    def __init__(self, name: str, folder: Path, settings: RunSettings) -> None:
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS

        how: dict[str, Any] = {"run_name" if name == "mlflow" else "name": folder.name}
        if name == "tensorboard":
            how = {"logging_dir": folder}
        self._tracker = LOGGER_TYPE_TO_CLASS[name]("tensorboard" if name == "tensorboard" else "gatedrnn", **how)
        self._every = settings.train.log_every
        self._tracker.start()
        shown = {k: v if isinstance(v, str | int | float | bool) else str(v) for k, v in settings.shown().items()}
        self._tracker.store_init_configuration(shown)

    def on_step(self, record: StepRecord) -> None:
        if record.step % self._every == 0 or record.step == record.steps:
            names = ("loss", "learning_rate", "gradient_norm", "epoch")
            self._tracker.log({f"train/{name}": getattr(record, name) for name in names}, step=record.step)

    def on_validation(self, record: ValidationRecord) -> None:
        self._tracker.log({f"validation/{name}": value for name, value in record.scores.items()}, step=record.step)

    def on_end(self, result: RunResult) -> None:
        scores = {
            f"{split}/{name}": value for split, of_split in scores_of(result).items()
            for name, value in of_split.items() if split != "validation"
        }  # fmt: skip
        self._tracker.log(scores, step=result.steps)

    def finish(self) -> None:
        """Write what is left."""
        self._tracker.finish()
