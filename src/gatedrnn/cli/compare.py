"""gatedrnn compare."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gatedrnn.cli.arguments import at_least_one, command_line
from gatedrnn.cli.progress import RunsDisplay
from gatedrnn.data import DataSettings
from gatedrnn.study.settings import CompareSettings, ContenderSettings
from gatedrnn.terminal import Console
from gatedrnn.train.allocation import use_large_pages
from gatedrnn.train.recipes import with_recipe
from gatedrnn.train.settings import ModelSettings, TrainSettings, threads_for


def compare(
    *,
    data: Annotated[DataSettings, Parameter(name="*")] = DataSettings(),
    contenders: Annotated[ContenderSettings, Parameter(name="*")] = ContenderSettings(),
    model: Annotated[ModelSettings, Parameter(name="*")] = ModelSettings(),
    train: Annotated[TrainSettings, Parameter(name="*")] = TrainSettings(),
    jobs: Annotated[int, Parameter(validator=at_least_one)] = 1,
    threads: Annotated[int | None, Parameter(validator=at_least_one)] = None,
    memory: bool = False,
    output: Path | None = None,
    fresh: bool = False,
    wait: bool = False,
) -> None:
    """Compare cells on a task: which one, and at what price?

    Every cell is trained with the baseline's layers and width, and with the baseline's number of recurrent parameters,
    over several seeds. What is finished is not run again: the same command goes on where it stopped.

    Where a setting is not given, the task's own recipe holds; `--task NAME --help` shows its defaults.

    Args:
        jobs: Runs at the same time, each in a process of its own.
        threads: Threads of each run; the machine's cores shared out over the jobs, if not given.
        memory: Measure the memory that training each contender takes.
        output: Folder of the comparison; runs/compare-TASK or runs/ladder-LADDER-TASK if not given.
        fresh: Remove that comparison first and start over.
        wait: Wait for another process that writes into the folder, instead of giving up.
    """
    use_large_pages()
    from gatedrnn.study.experiment import compare as run_comparison
    from gatedrnn.study.report import print_comparison, write_comparison

    console = Console()
    settings = CompareSettings(
        contenders=with_recipe(data.task, "contenders", contenders),
        threads=threads or threads_for(jobs),
        data=with_recipe(data.task, "data", data),
        model=with_recipe(data.task, "model", model),
        train=with_recipe(data.task, "train", train),
    )
    ladder = settings.contenders.ladder
    folder = output or Path("runs") / (f"ladder-{ladder}-{data.task}" if ladder else f"compare-{data.task}")
    with RunsDisplay(console, "compare") as display:
        results = run_comparison(
            settings, folder, jobs=jobs, memory=memory, fresh=fresh, wait=wait, command=command_line(),
            on_progress=display.show,
        )  # fmt: skip
    page = write_comparison(folder)
    print_comparison(results, console)
    console.print(f"report: {page}", soft_wrap=True, highlight=False)
