"""gatedrnn train."""

import logging
import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from pydantic import Field
from rich.panel import Panel
from rich.text import Text

from gatedrnn.cli.progress import NOTICES, RunsDisplay
from gatedrnn.data import LANGUAGE, DataSettings, Settings
from gatedrnn.data.settings import Seed
from gatedrnn.errors import DataError
from gatedrnn.terminal import Console, plain
from gatedrnn.train.allocation import use_large_pages
from gatedrnn.train.recipes import with_recipe
from gatedrnn.train.settings import ModelSettings, RunSettings, TrainSettings, threads_for


def processes() -> int:
    """How many torchrun has started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first_process() -> bool:
    """Whether this one speaks for all."""
    return os.environ.get("RANK", "0") == "0"


class OneRun(Settings):
    """The cell of a single run."""

    cell: str = "mingru"
    """Its name, as `gatedrnn describe` lists it; or one for each layer, joined by commas."""
    hidden_size: int = Field(64, ge=1)
    """Channels of its state."""
    seed: Seed = 0
    """Initial weights, data order and dropout follow from it."""
    threads: int = Field(default_factory=threads_for, ge=1)
    """Threads of torch, all cores if not given; part of the run, since another number may sum in another order."""
    processes: int = Field(default_factory=processes, ge=1)
    """Processes that share each batch; as many as torchrun has started, if not given."""


class DataOfRun(DataSettings):
    """The task and its data."""

    task: str = LANGUAGE
    """language-model, text-classification, ag_news, digits, mnist or a probe: parity, s3, mqar, adding, …"""


def train(
    *,
    data: Annotated[DataOfRun, Parameter(name="*")] = DataOfRun(),
    one: Annotated[OneRun, Parameter(name="*")] = OneRun(),
    model: Annotated[ModelSettings, Parameter(name="*")] = ModelSettings(),
    train: Annotated[TrainSettings, Parameter(name="*")] = TrainSettings(),
    output: Path | None = None,
    resume: Path | None = None,
    wait: bool = False,
) -> None:
    """Train one model on a task and keep it as a Hugging Face folder; a language model, if no task is named.

    Where a setting is not given, the task's own recipe holds; `--task NAME --help` shows its defaults.

    Args:
        output: Folder of the run; runs/TASK-CELL-SEED if not given.
        resume: Folder of a run that was stopped: go on with it, with its own settings and to the same bits.
            Resume only runs of your own: a checkpoint holds pickled random states.
        wait: Wait for another process that writes into the folder, instead of giving up.
    """
    use_large_pages()
    from gatedrnn.locks import sole_writer
    from gatedrnn.train.loop import run
    from gatedrnn.train.report import write_report

    console = Console()
    if resume is not None:
        given = [name for part in (data, one, model, train) for name in sorted(part.model_fields_set)]
        if given or output is not None:
            raise DataError(f"--resume goes on with the run's own settings; leave out --{(given or ['output'])[0]}")
        settings, folder = _settings_of(resume), resume
    else:
        asked = DataSettings(task=data.task, **data.model_dump(include=data.model_fields_set - {"task"}))
        settings = RunSettings(
            **with_recipe(data.task, "contenders", one).model_dump(),
            data=with_recipe(data.task, "data", asked),
            model=with_recipe(data.task, "model", model),
            train=with_recipe(data.task, "train", train),
        )
        folder = output or Path("runs") / f"{data.task}-{one.cell}-{one.seed}"
        if (folder / "config.yaml").exists() and is_first_process():
            with sole_writer(folder, wait=wait):  # first, so that one that is under way is said to be
                raise DataError(
                    f"{folder}: there is a run already; go on with it by --resume, or give another --output"
                )
    if not is_first_process():
        NOTICES.setLevel(logging.WARNING)
        run(settings, folder)
        return
    with RunsDisplay(console, f"{settings.data.task} {settings.cell}") as display:
        result = run(settings, folder, display.show_one, wait=wait)
    for split, scores in result.scores.items():
        for name in ("accuracy", "perplexity", "bits_per_byte"):
            if (value := getattr(scores, name)) is not None:
                console.print(f"{split} {name}: {value:.4f}".replace("_", " "), highlight=False)
    with sole_writer(folder, wait=True):
        if settings.data.task == LANGUAGE:
            from gatedrnn.train.sampling import write_samples

            console.print(Panel(Text(plain(write_samples(folder))), title="what it writes", title_align="left"))
        page = write_report(folder)
    for what, place in (("report", page), ("model", folder / "model")):
        console.print(f"{what}: {place}", soft_wrap=True, highlight=False)


def _settings_of(folder: Path) -> RunSettings:
    from gatedrnn.train.folder import RunFolder

    if not (folder / "config.yaml").exists():
        raise DataError(f"{folder}: holds no run to resume (no config.yaml)")
    return RunFolder(folder).settings()
