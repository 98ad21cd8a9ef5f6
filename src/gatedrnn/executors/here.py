"""One run after another in this process."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from gatedrnn.errors import NonFiniteLoss
from gatedrnn.executors.executor import Ended, OnProgress, Records
from gatedrnn.progress import Progress
from gatedrnn.training.loop import run
from gatedrnn.training.resources import compile_kernels
from gatedrnn.training.settings import RunSettings


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
