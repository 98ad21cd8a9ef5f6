"""gatedrnn train."""

import logging
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from pydantic import Field
from rich.panel import Panel
from rich.text import Text

from gatedrnn.cli.arguments import DATA, MODEL, RUN, TRAINING, Baselines, TrainMinutes, not_negative, use_large_pages
from gatedrnn.cli.classes import print_classes_of
from gatedrnn.cli.progress import NOTICES, RunsDisplay
from gatedrnn.data import FORECAST, LANGUAGE, Settings, tasks_kept
from gatedrnn.data.settings import Seed, TaskSettings
from gatedrnn.errors import DataError, UsageError
from gatedrnn.terminal import Console, plain
from gatedrnn.training.recipes import with_options
from gatedrnn.training.settings import ModelSettings, RunSettings, StackWord, TrainSettings, threads_for

if TYPE_CHECKING:
    from gatedrnn.training.result import RunResult


def is_first_process() -> bool:
    """Whether this process prints and writes for all."""
    return os.environ.get("RANK", "0") == "0"


def is_restarted() -> bool:
    """Whether torchrun has started this command again because processes were lost: its run is there, and goes on."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


class OneRun(Settings):
    """The cell of a single run."""

    expert = ("shard",)

    cell: StackWord = "mingru"
    """Name of the cell, as `gatedrnn describe` lists it, with options as in gru:reset_after=false; or one a layer,
    joined by commas."""
    hidden_size: int = Field(64, ge=1)
    """Channels of its state."""
    seed: Seed = 0
    """Initialisation, data order and dropout follow from it."""
    threads: int = Field(default_factory=threads_for, ge=1)
    """Threads of torch; all cores, or OMP_NUM_THREADS, if not given. Part of the run, since another number may sum in
    another order."""
    shard: bool = False
    """Under torchrun, each process keeps a part of the weights, their gradients and moments (FSDP2), not all."""


@tasks_kept()
def train(
    *,
    data: Annotated[TaskSettings, Parameter(name="*", group=DATA)] = TaskSettings(task=LANGUAGE),
    one: Annotated[OneRun, Parameter(name="*", group=MODEL)] = OneRun(),
    model: Annotated[ModelSettings, Parameter(name="*", group=MODEL)] = ModelSettings(),
    train: Annotated[TrainSettings, Parameter(name="*", group=TRAINING)] = TrainSettings(),
    output: Annotated[Path | None, Parameter(group=RUN)] = None,
    resume: Annotated[Path | None, Parameter(group=RUN)] = None,
    finish: Annotated[Path | None, Parameter(group=RUN)] = None,
    wait: Annotated[bool, Parameter(group=RUN)] = False,
    workers: Annotated[int, Parameter(validator=not_negative, group=RUN)] = 0,
    train_minutes: TrainMinutes = None,
    baselines: Annotated[Baselines, Parameter(group=RUN)] = "plain",
) -> None:
    """Train one model on a task and save it as a Hugging Face folder; a language model, if no task is named.

    Flags are those of the task, their defaults its recipe: `--task NAME --help` shows them.

    Args:
        output: Folder of the run; runs/TASK-CELL-SEED if not given.
        resume: Folder of a run that was stopped: continue it with its own settings, to the same bits; with other
            --epochs or --total-steps, where its learning rates so far do not depend on them.
        finish: Folder of a run that was stopped: end it at its newest checkpoint, with the best weights so far.
        wait: Wait while another process writes into the folder, instead of stopping.
        workers: Processes that prepare batches ahead of the step; for data whose steps would wait for them.
        train_minutes: Minutes that training may take on this machine: measured before it begins, and written into
            config.yaml as steps, and as members where they pay more.
        baselines: plain: after training, plain methods on the same data, begun within a fifth of its time; none: leave
            them out.
    """
    use_large_pages()
    from gatedrnn.locks import sole_writer
    from gatedrnn.training.chosen import completed
    from gatedrnn.training.loop import run
    from gatedrnn.training.model import scores_of
    from gatedrnn.training.report import write_report

    console = Console()
    if resume is not None or finish is not None:
        settings, folder = _stopped(resume, finish, [data, one, model, train], output)
    else:
        settings = RunSettings.model_validate(
            {
                **one.model_dump(), "cell": with_options(data.task, one.cell), "data": data.model_dump(),
                "model": model.model_dump(), "train": train.model_dump(),
            }
        )  # fmt: skip
        folder = output or Path("runs") / f"{data.task}-{settings.cell.replace(':', '-')}-{one.seed}"
        if (folder / "config.yaml").exists() and is_first_process() and not is_restarted():
            with sole_writer(folder, wait=wait):  # first, so that a run under way is reported as such
                raise DataError(f"{folder}: there is a run already; continue it by --resume, or give another --output")
    given = {name for part in (data, one, model, train) for name in part.model_fields_set}
    begun = resume is not None or finish is not None
    if begun and train_minutes is not None:
        raise DataError("--train-minutes is of a run that begins; a stopped one goes on with its own steps")
    if not is_first_process():
        NOTICES.setLevel(logging.WARNING)
        run(settings if begun else completed(settings, given), folder, workers=workers, end=finish is not None)
        return
    with RunsDisplay(console, f"{settings.data.task} {settings.cell}") as display:
        if not begun:
            settings = begin(settings, given, train_minutes, display)
        result = run(
            settings,
            folder,
            display.show_one,
            wait=wait,
            workers=workers,
            on_notes=display.show_notes,
            end=finish is not None,
        )
    say_plain_part(console, result)
    for split, scores in scores_of(result).items():
        for name, value in scores.items():
            if name not in ("loss", "tokens"):
                console.print(f"{split} {name}: {value:.4f}", highlight=False)
    print_classes_of(folder, result, console)
    with sole_writer(folder, wait=True):
        if settings.data.task == LANGUAGE:
            from gatedrnn.training.sample import write_samples

            console.print(Panel(Text(plain(write_samples(folder))), title="what it writes", title_align="left"))
        elif settings.data.task == FORECAST:
            from gatedrnn.training.forecasts import write_forecasts

            write_forecasts(folder)
        else:
            from gatedrnn.training.hardest import write_hardest

            write_hardest(folder)
        say_standing(console, folder, baselines)
        page = write_report(folder)
    for what, place in (("report", page), ("model", folder / "model")):
        console.print(f"{what}: {place}", soft_wrap=True, highlight=False)


def begin(settings: RunSettings, given: Collection[str], minutes: float | None, display: RunsDisplay) -> RunSettings:
    """Settings of a new run with what its data and its minutes decide, which is said.

    Args:
        given: names of settings that stay as they are.

    Raises:
        UsageError: minutes and a length are both given, or the minutes are too few.
    """
    from gatedrnn.training.chosen import completed

    settings = completed(settings, given)
    if minutes is None:
        return settings
    from gatedrnn.training.budget import within

    if both := next((name for name in ("epochs", "total_steps") if name in given), None):
        raise UsageError(f"--train-minutes and --{both.replace('_', '-')} both say how long; give one")
    budgeted = within(settings, minutes)
    display.show_notes([budgeted.said])
    return budgeted.settings


def _stopped(
    resume: Path | None, finish: Path | None, given: Sequence[Settings], output: Path | None
) -> tuple[RunSettings, Path]:
    """The settings and the folder of a run that was stopped; with another length, where one is given."""
    folder, flag = (resume, "--resume") if resume is not None else (finish, "--finish")
    assert folder is not None
    if resume is not None and finish is not None:
        raise DataError("--resume goes on with a run, --finish ends it; give one of them")
    named = {name: value for part in given for name, value in part.model_dump(include=part.model_fields_set).items()}
    length = {name: value for name, value in named.items() if name in ("epochs", "total_steps") and flag == "--resume"}
    others = [*sorted(named.keys() - length.keys()), *(["output"] if output is not None else [])]
    if others:
        raise DataError(f"{flag} continues with the run's own settings; leave out --{others[0].replace('_', '-')}")
    settings = _settings_of(folder)
    if length:
        if os.environ.get("WORLD_SIZE", "1") != "1":
            raise DataError("--resume with another length is for one process; torchrun can go on with it afterwards")
        from gatedrnn.training.loop import with_length

        settings = with_length(folder, length)
    return settings, folder


def _settings_of(folder: Path) -> RunSettings:
    from gatedrnn.training.folder import RunFolder

    if not (folder / "config.yaml").exists():
        raise DataError(f"{folder}: holds no run to resume (no config.yaml)")
    return RunFolder(folder).settings()


def say_plain_part(console: Console, result: "RunResult") -> None:
    """Whether the plain part of the model would do."""
    if result.plain_part is not None:
        console.print(result.plain_part.sentence(), highlight=False)


def say_standing(console: Console, folder: Path, baselines: Baselines) -> None:
    """Print how a finished run compares with plain methods, and what would help it."""
    if baselines == "none":
        return
    from gatedrnn.study.standing import write_standing

    standing = write_standing(folder)
    for sentence in [] if standing is None else standing.sentences():
        console.print(sentence, highlight=False)
