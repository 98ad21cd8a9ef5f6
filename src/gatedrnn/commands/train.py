"""gatedrnn train."""

from pathlib import Path
from typing import Annotated

import yaml
from cyclopts import Parameter
from pydantic import Field
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from gatedrnn.data import DataError, DataSettings, Settings
from gatedrnn.data.settings import Seed
from gatedrnn.train.settings import ModelSettings, RunSettings, TrainSettings, with_recipe


class OneRun(Settings):
    """The cell of a single run."""

    cell: str = "mingru"
    """Its name, as `gatedrnn describe` lists it."""
    hidden_size: int = Field(64, ge=1)
    """Channels of its state."""
    seed: Seed = 0
    """Initial weights, data order and dropout follow from it."""
    threads: int = Field(1, ge=1)
    """Threads of torch; part of the run, since another number may sum in another order."""


def train(
    *,
    data: Annotated[DataSettings, Parameter(name="*")] = DataSettings(),
    one: Annotated[OneRun, Parameter(name="*")] = OneRun(),
    model: Annotated[ModelSettings, Parameter(name="*")] = ModelSettings(),
    train: Annotated[TrainSettings, Parameter(name="*")] = TrainSettings(),
    output: Path | None = None,
    resume: Path | None = None,
) -> None:
    """Train one model on a task and keep it as a Hugging Face folder.

    Where a setting is not given, the task's own recipe holds, else the default shown here.

    Parameters
    ----------
    output: Folder of the run; runs/TASK-CELL-SEED if not given.
    resume: Folder of a run that was stopped: go on with it, with its own settings and to the same bits.
        Resume only runs of your own: a checkpoint holds pickled random states.
    """
    from gatedrnn.train.loop import run

    console = Console()
    if resume is not None:
        given = [name for part in (data, one, model, train) for name in sorted(part.model_fields_set)]
        if given or output is not None:
            raise DataError(f"--resume goes on with the run's own settings; leave out --{(given or ['output'])[0]}")
        settings, folder = _settings_of(resume), resume
    else:
        settings = RunSettings(
            **one.model_dump(),
            data=with_recipe(data.task, "data", data),
            model=with_recipe(data.task, "model", model),
            train=with_recipe(data.task, "train", train),
        )
        folder = output or Path("runs") / f"{data.task}-{one.cell}-{one.seed}"
        if (folder / "config.yaml").exists():
            raise DataError(f"{folder}: there is a run already; go on with it by --resume, or give another --output")
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), TextColumn("{task.fields[loss]}"))
    with Progress(*columns, console=console, transient=True) as bars:
        bar = bars.add_task(f"{settings.data.task} {settings.cell}", total=None, loss="")

        def show(step: int, total: int, loss: float) -> None:
            bars.update(bar, completed=step, total=total, loss=f"loss {loss:.4f}")

        result = run(settings, folder, show)
    for name, value in result.items():
        if name.endswith("_accuracy"):
            console.print(f"{name.replace('_', ' ')}: {value:.4f}", highlight=False)
    console.print(f"model: {folder / 'model'}", soft_wrap=True, highlight=False)


def _settings_of(folder: Path) -> RunSettings:
    config = folder / "config.yaml"
    if not config.exists():
        raise DataError(f"{folder}: holds no run to resume (no config.yaml)")
    return RunSettings.from_flat(yaml.safe_load(config.read_text(encoding="utf-8")))
