"""The protocol of executors, and the simplest of them: one run after another in this process."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from gatedrnn.errors import NonFiniteLoss
from gatedrnn.progress import Progress
from gatedrnn.training.loop import run
from gatedrnn.training.resources import compile_kernels
from gatedrnn.training.result import RunResult
from gatedrnn.training.settings import RunSettings

OnProgress = Callable[[str, Progress | None, int, int], None]
"""Called with (run, how far it is or None where it has ended, finished runs, runs in all)."""
Records = dict[str, RunResult]
"""Results by the names of the runs."""


class Ended(NamedTuple):
    """The outcome of runs."""

    records: Records
    diverged: list[NonFiniteLoss]
    """The errors of runs whose loss is no number any more; they have no record."""


class Executor(Protocol):
    """Runs the folders of runs to their ends; used in a `with` block, in which it may be asked several times."""

    on: str
    """The executor's name, as `--on` has it."""
    jobs: int | None
    """Runs at a time; None for as many as a cluster takes."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def run_all(self, runs: Mapping[str, RunSettings], folder: Path, on_progress: OnProgress) -> Ended:
        """Every run, each in a folder of its name in `folder`; what is finished there is not run again.

        A loss that is not finite ends only its own run, and so does a worker that is lost too often or runs out of
        memory: all others end first. Any other error ends all of them, and the same call resumes.

        Raises:
            NoCluster: it cannot be reached.  WorkerDiffers: a worker has other versions, or does not see the folder.
            WorkerLost, OutOfMemory: of a run, once all others have ended; and any other error of a run.
        """
        ...


def finished(runs: Mapping[str, RunSettings], folder: Path) -> Records:
    """The results that are there already, each run's files checked."""
    return {
        name: run(settings, folder / name)
        for name, settings in runs.items()
        if (folder / name / "result.json").exists()
    }


class Here:
    """The executor of `--jobs 1`."""

    on: str = "local"
    jobs: int | None = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run_all(self, runs: Mapping[str, RunSettings], folder: Path, on_progress: OnProgress) -> Ended:
        """Run each in this process, one after another."""
        compile_kernels(run for name, run in runs.items() if not (folder / name / "result.json").exists())
        on_progress("", None, 0, len(runs))
        records, diverged = Records(), list[NonFiniteLoss]()
        for ended, (name, settings) in enumerate(runs.items()):

            def tell(progress: Progress, name: str = name, ended: int = ended) -> None:
                on_progress(name, progress, ended, len(runs))

            try:
                records[name] = run(settings, folder / name, tell)
            except NonFiniteLoss as error:
                diverged.append(error)
            on_progress(name, None, ended + 1, len(runs))
        return Ended(records, diverged)


HERE = Here()
