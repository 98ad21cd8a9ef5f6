"""gatedrnn compare."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from gatedrnn.cli.arguments import (
    COMPARISON,
    DATA,
    MODEL,
    RUN,
    SEARCH,
    TRAINING,
    at_least_one,
    command_line,
    given,
    not_negative,
    use_large_pages,
)
from gatedrnn.cli.interrupted import goes_on, now, of_study
from gatedrnn.data.settings import TaskSettings
from gatedrnn.errors import UsageError
from gatedrnn.progress import RunsDisplay
from gatedrnn.studies import compare as compare_cells
from gatedrnn.studies import compare_suite
from gatedrnn.study.settings import ContenderSettings
from gatedrnn.terminal import Console
from gatedrnn.training.settings import ModelSettings, TrainSettings


def compare(
    *,
    data: Annotated[TaskSettings, Parameter(name="*", group=DATA)] = TaskSettings(task="digits"),
    contenders: Annotated[ContenderSettings, Parameter(name="*", group=COMPARISON)] = ContenderSettings(),
    model: Annotated[ModelSettings, Parameter(name="*", group=MODEL)] = ModelSettings(),
    train: Annotated[TrainSettings, Parameter(name="*", group=TRAINING)] = TrainSettings(),
    on: Annotated[str, Parameter(group=RUN)] = "local",
    jobs: Annotated[int | None, Parameter(validator=at_least_one, group=RUN)] = None,
    threads: Annotated[int | None, Parameter(validator=at_least_one, group=RUN)] = None,
    memory: Annotated[bool, Parameter(group=RUN)] = False,
    margin: Annotated[float | None, Parameter(validator=not_negative, group=COMPARISON)] = None,
    trials: Annotated[int | None, Parameter(validator=at_least_one, group=SEARCH)] = None,
    space: Annotated[Path | None, Parameter(group=SEARCH)] = None,
    minutes: Annotated[float | None, Parameter(group=SEARCH)] = None,
    search_seed: Annotated[int | None, Parameter(group=SEARCH)] = None,
    output: Annotated[Path | None, Parameter(group=RUN)] = None,
    suite: Annotated[Path | None, Parameter(group=RUN)] = None,
    fresh: Annotated[bool, Parameter(group=RUN)] = False,
    wait: Annotated[bool, Parameter(group=RUN)] = False,
) -> None:
    """Compare cells on a task: which one, and at what price?

    Every cell is trained with the baseline's layers and width, and with the baseline's number of recurrent parameters,
    over several seeds. Finished runs are not run again: the same command continues an interrupted comparison.

    Flags are those of the task, their defaults its recipe: `--task NAME --help` shows them.

    Args:
        on: Engine of the runs: local, slurm, ray (a cluster on this machine) or ray:HOST:6379; options of the engine
            after commas, as in slurm,slurm_partition=long. The results do not depend on it.
        jobs: Runs in parallel, each in a process of its own; 1 if not given, and on slurm or ray as many as run there.
        threads: Threads of each run; the machine's cores divided by the jobs, or OMP_NUM_THREADS if that is less, if
            not given, and 1 on slurm or ray.
        memory: Measure the memory that training each contender takes.
        margin: The largest difference that does not matter: in accuracy, as a part of a perplexity, or in scaled error.
            0.005, 0.01 and 0.01 if not given. Another one judges finished runs anew.
        trials: Trials of a random search for the settings of each contender, judged on validation. The best of each
            is run again with --seeds, and those runs alone read the test split. One recipe for all, if not given.
        space: YAML file of what is searched, by setting: low and high (and scale: log), or choices; under contenders,
            those of single cells. Around the task's recipe, if not given.
        minutes: After these no new round of trials (one of every contender) begins.
        search_seed: Seed of the draws of the search; 0 if not given.
        output: Folder of the comparison; runs/compare-TASK or runs/ladder-LADDER-TASK if not given, of a suite
            runs/NAME-OF-FILE.
        suite: YAML file of several comparisons with one joined report: under tasks the settings of each, beside it
            those of all. Only flags of this group and --margin go with it.
        fresh: Remove that comparison first and start over.
        wait: Wait while another process writes into the folder, instead of stopping.
    """
    use_large_pages()
    from gatedrnn.study.tables import print_comparison, print_joined

    console = Console()
    search: dict[str, Any] = {"trials": trials, "space": space, "minutes": minutes, "search_seed": search_seed}
    search = {name: value for name, value in search.items() if value is not None}
    ladder, since = contenders.ladder, now()
    called = suite.stem if suite is not None else f"ladder-{ladder}-{data.task}" if ladder else f"compare-{data.task}"
    folder = output or Path("runs") / called
    goes_on(lambda: of_study(folder, fresh=fresh, since=since))
    with RunsDisplay(console, "compare") as display:
        how: dict[str, Any] = {
            "on": on, "jobs": jobs, "threads": threads, "memory": memory, "margin": margin, "fresh": fresh,
            "wait": wait, "command": command_line(), "on_progress": display.show,
        }  # fmt: skip
        if suite is None:
            settings: dict[str, Any] = {**given(data, contenders, model, train), **search}
            study = compare_cells(task=data.task, output=folder, on_notes=display.show_notes, **how, **settings)
        else:
            named = ["task"] if "task" in data.model_fields_set else []
            _refuse_settings([*named, *given(data, contenders, model, train), *search])
            several = compare_suite(suite, output=folder, **how)
    if suite is None:
        page = study.page
        print_comparison(study.comparison, console)
    else:
        page = several.page
        print_joined(several.joined, console)
    console.print(f"report: {page}", soft_wrap=True, highlight=False)


def _refuse_settings(named: Iterable[str]) -> None:
    """Refuse flags that a suite's file has the place for."""
    for name in named:
        flag = name.replace("_", "-")
        raise UsageError(f"--{flag}: with --suite all settings stand in its file; write '{flag}: …' there")
