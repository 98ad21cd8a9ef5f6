"""gatedrnn compare."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gatedrnn.cli.arguments import (
    COMPARISON,
    DATA,
    MODEL,
    RUN,
    TRAINING,
    at_least_one,
    command_line,
    use_large_pages,
)
from gatedrnn.cli.progress import RunsDisplay
from gatedrnn.data.settings import TaskSettings
from gatedrnn.study.settings import CompareSettings, ContenderSettings
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
        }
    )  # fmt: skip
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
