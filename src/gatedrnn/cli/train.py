"""gatedrnn train."""

import logging
import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.panel import Panel
from rich.text import Text

from gatedrnn.cli.arguments import (
    DATA,
    MODEL,
    RUN,
    TRAINING,
    Baselines,
    Log,
    TrainMinutes,
    given,
    not_negative,
    use_large_pages,
)
from gatedrnn.cli.evaluate import print_classes_of
from gatedrnn.cli.interrupted import SAME, goes_on, of_run
from gatedrnn.data import LANGUAGE
from gatedrnn.data.settings import TaskSettings
from gatedrnn.errors import DataError
from gatedrnn.processes import may_oversubscribe
from gatedrnn.progress import NOTICES, RunsDisplay
from gatedrnn.records import read_yaml
from gatedrnn.runs import Run, default_folder
from gatedrnn.runs import train as train_run
from gatedrnn.terminal import Console, plain
from gatedrnn.training.settings import CellSettings, ModelSettings, TrainSettings
from gatedrnn.trust import Trust, trust

LENGTH = ("epochs", "total_steps")
"""Settings that a run may be given anew while it is stopped."""


def train(
    *,
    data: Annotated[TaskSettings, Parameter(name="*", group=DATA)] = TaskSettings(task=LANGUAGE),
    one: Annotated[CellSettings, Parameter(name="*", group=MODEL)] = CellSettings(),
    model: Annotated[ModelSettings, Parameter(name="*", group=MODEL)] = ModelSettings(),
    train: Annotated[TrainSettings, Parameter(name="*", group=TRAINING)] = TrainSettings(),
    output: Annotated[Path | None, Parameter(group=RUN)] = None,
    resume: Annotated[Path | None, Parameter(group=RUN)] = None,
    finish: Annotated[Path | None, Parameter(group=RUN)] = None,
    wait: Annotated[bool, Parameter(group=RUN)] = False,
    workers: Annotated[int, Parameter(validator=not_negative, group=RUN)] = 0,
    train_minutes: TrainMinutes = None,
    log: Log = (),
    push_to_hub: Annotated[str | None, Parameter(group=RUN)] = None,
    baselines: Annotated[Baselines, Parameter(group=RUN)] = "plain",
) -> None:
    """Train one model on a task and save it as a Hugging Face folder; a language model, if no task is named.

    `gatedrnn train FILE` is short for --train-file FILE, and the file tells the task.

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
        log: Log losses and scores with these trackers: tensorboard, wandb, mlflow, trackio.
        push_to_hub: Upload the model to the Hugging Face hub in the end, under this name, such as me/digits-mingru.
        baselines: plain: after training, plain methods on the same data, begun within a fifth of its time; none: leave
            them out.
    """
    use_large_pages()
    settings: dict[str, Any] = {**given(data, one, model, train)}
    first = os.environ.get("RANK", "0") == "0"
    restarted = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"  # by torchrun: the run is there, and goes on
    if not first:
        NOTICES.setLevel(logging.WARNING)
    folder = resume or finish or output or default_folder(data.task, one.cell, one.seed)
    again = {
        "baselines": baselines, "workers": workers, "log": log, "push_to_hub": push_to_hub,
        "trust_code": trust() != Trust(), "oversubscribe": may_oversubscribe(),
    }  # fmt: skip
    again = {name: value for name, value in again.items() if value not in ("plain", 0, (), None, False)}
    goes_on(lambda: SAME if finish is not None else of_run(folder, {**again, **_new_length(resume, settings)}))
    console = Console()
    title = f"{data.task} {one.cell}" if resume is None and finish is None else str(resume or finish)
    with RunsDisplay(console, title) if first else nullcontext() as display:
        how: dict[str, Any] = {"wait": wait, "workers": workers, "baselines": baselines, "log": log}
        if display is not None:
            how |= {"on_step": display.show_one, "on_notes": display.show_notes}
        if resume is not None or finish is not None:
            if train_minutes is not None:
                raise DataError("--train-minutes is of a run that begins; a stopped one goes on with its own steps")
            stopped, length = _stopped(resume, finish, settings, output)
            run = stopped.resume(**length, **how) if finish is None else stopped.finish(**how)
        else:
            run = train_run(
                task=data.task, output=folder, exist_ok=restarted or not first, train_minutes=train_minutes, **how,
                **settings,
            )  # fmt: skip
    if first:
        print_run(run, console)
        if push_to_hub is not None:
            console.print(f"hub: {run.push_to_hub(push_to_hub)}", soft_wrap=True, highlight=False)


def _new_length(resume: Path | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The length that is given to a run that was stopped, where its folder does not hold it yet."""
    if resume is None or not (resume / "config.yaml").exists() or (resume / "result.json").exists():
        return {}
    held: Any = read_yaml(resume / "config.yaml")
    return {name: settings[name] for name in LENGTH if name in settings and settings[name] != held.get(name)}


def _stopped(
    resume: Path | None, finish: Path | None, settings: Mapping[str, Any], output: Path | None
) -> tuple[Run, dict[str, Any]]:
    """Return a run that was stopped, and the other length that is given for it."""
    folder, flag = (resume, "--resume") if resume is not None else (finish, "--finish")
    assert folder is not None
    if resume is not None and finish is not None:
        raise DataError("--resume goes on with a run, --finish ends it; give one of them")
    length = {name: settings[name] for name in LENGTH if name in settings and flag == "--resume"}
    others = [*sorted(settings.keys() - length.keys()), *(["output"] if output is not None else [])]
    if others:
        raise DataError(f"{flag} continues with the run's own settings; leave out --{others[0].replace('_', '-')}")
    return Run(folder), length


def print_run(run: Run, console: Console) -> None:
    """Print the scores of a finished run, its classes or samples, how it compares, and where its files are."""
    from gatedrnn.training.model import scores_in_words
    from gatedrnn.training.sample import sample_to_show

    result = run.result
    if result.plain_part is not None:
        console.print(result.plain_part.sentence(), highlight=False)
    for split, scores in scores_in_words(result).items():
        for name, value in scores.items():
            if name not in ("loss", "tokens"):
                console.print(f"{split} {name}: {value:.4f}", highlight=False)
    print_classes_of(run.folder, result, console)
    if run.settings.data.task == LANGUAGE:
        heat, text = sample_to_show(run.samples)
        title = f"what it writes at temperature {heat}"
        console.print(Panel(Text(plain(text)), title=title, title_align="left"))
    for sentence in [] if run.standing is None else run.standing.sentences():
        console.print(sentence, highlight=False)
    for what, place in (("report", run.report), ("model", run.folder / "model")):
        console.print(f"{what}: {place}", soft_wrap=True, highlight=False)
