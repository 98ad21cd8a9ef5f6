"""gatedrnn compare."""

from pathlib import Path
from typing import Annotated

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
    not_negative,
    use_large_pages,
)
from gatedrnn.cli.progress import RunsDisplay
from gatedrnn.data.settings import TaskSettings
from gatedrnn.errors import UsageError
from gatedrnn.study.settings import CompareSettings, ContenderSettings
from gatedrnn.study.space import default_space, read_space
from gatedrnn.terminal import Console
from gatedrnn.train.recipes import with_options
from gatedrnn.train.settings import ModelSettings, TrainSettings, threads_for


def compare(
    *,
    data: Annotated[TaskSettings, Parameter(name="*", group=DATA)] = TaskSettings(task="digits"),
    contenders: Annotated[ContenderSettings, Parameter(name="*", group=COMPARISON)] = ContenderSettings(),
    model: Annotated[ModelSettings, Parameter(name="*", group=MODEL)] = ModelSettings(),
    train: Annotated[TrainSettings, Parameter(name="*", group=TRAINING)] = TrainSettings(),
    jobs: Annotated[int, Parameter(validator=at_least_one, group=RUN)] = 1,
    threads: Annotated[int | None, Parameter(validator=at_least_one, group=RUN)] = None,
    memory: Annotated[bool, Parameter(group=RUN)] = False,
    margin: Annotated[float | None, Parameter(validator=not_negative, group=COMPARISON)] = None,
    trials: Annotated[int | None, Parameter(validator=at_least_one, group=SEARCH)] = None,
    space: Annotated[Path | None, Parameter(group=SEARCH)] = None,
    minutes: Annotated[float | None, Parameter(group=SEARCH)] = None,
    search_seed: Annotated[int | None, Parameter(group=SEARCH)] = None,
    output: Annotated[Path | None, Parameter(group=RUN)] = None,
    fresh: Annotated[bool, Parameter(group=RUN)] = False,
    wait: Annotated[bool, Parameter(group=RUN)] = False,
) -> None:
    """Compare cells on a task: which one, and at what price?

    Every cell is trained with the baseline's layers and width, and with the baseline's number of recurrent parameters,
    over several seeds. Finished runs are not run again: the same command continues an interrupted comparison.

    Flags are those of the task, their defaults its recipe: `--task NAME --help` shows them.

    Args:
        jobs: Runs in parallel, each in a process of its own.
        threads: Threads of each run; the machine's cores divided by the jobs, if not given.
        memory: Measure the memory that training each contender takes.
        margin: The largest difference that does not matter: in accuracy, or as a part of a perplexity. 0.005 and 0.01
            if not given. Another one judges finished runs anew.
        trials: Trials of a random search for the settings of each contender, judged on validation. The best of each
            is run again with --seeds, and those runs alone read the test split. One recipe for all, if not given.
        space: YAML file of what is searched, by setting: low and high (and scale: log), or choices; under contenders,
            those of single cells. Around the task's recipe, if not given.
        minutes: After these no new round of trials (one of every contender) begins.
        search_seed: Of the draws of the search; 0 if not given.
        output: Folder of the comparison; runs/compare-TASK or runs/ladder-LADDER-TASK if not given.
        fresh: Remove that comparison first and start over.
        wait: Wait while another process writes into the folder, instead of stopping.
    """
    use_large_pages()
    from gatedrnn.study.experiment import compare as run_comparison
    from gatedrnn.study.report import print_comparison, write_comparison

    console = Console()
    who = contenders.model_dump()
    if contenders.ladder is None:
        who["cells"] = [with_options(data.task, cell) for cell in contenders.cells]
    settings = CompareSettings.model_validate(
        {
            "contenders": who, "threads": threads or threads_for(jobs), "data": data.model_dump(),
            "model": model.model_dump(), "train": train.model_dump(),
            "search": search_settings(trials, space, minutes, search_seed, model, train),
        }
    )  # fmt: skip
    ladder = settings.contenders.ladder
    folder = output or Path("runs") / (f"ladder-{ladder}-{data.task}" if ladder else f"compare-{data.task}")
    with RunsDisplay(console, "compare") as display:
        results = run_comparison(
            settings, folder, jobs=jobs, memory=memory, fresh=fresh, wait=wait, margin=margin,
            command=command_line(),
            on_progress=display.show,
        )  # fmt: skip
    page = write_comparison(folder)
    print_comparison(results, console)
    console.print(f"report: {page}", soft_wrap=True, highlight=False)


def search_settings(
    trials: int | None, space: Path | None, minutes: float | None, seed: int | None, model: ModelSettings,
    train: TrainSettings,
) -> dict[str, object] | None:  # fmt: skip
    """What --trials asks for; None without it.

    Raises:
        UsageError: another flag of a search is given without it, or the budget ends before the first trial.
    """
    flags = {"--space": space, "--minutes": minutes, "--search-seed": seed}
    if trials is None:
        given = [flag for flag, value in flags.items() if value is not None]
        if given:
            raise UsageError(f"{given[0]} belongs to a search: give --trials too")
        return None
    if minutes is not None and not minutes > 0:
        raise UsageError(f"--minutes {minutes:g}: the budget ends before the first trial; give more")
    found = default_space(model, train) if space is None else read_space(space)
    return {"trials": trials, "minutes": minutes, "seed": seed or 0, "space": found.model_dump()}
