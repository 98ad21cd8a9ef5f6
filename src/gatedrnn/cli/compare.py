"""gatedrnn compare."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

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
from gatedrnn.data import DataSettings, load_task, tasks_kept
from gatedrnn.data.settings import Settings, TaskSettings
from gatedrnn.errors import UsageError
from gatedrnn.study.settings import CompareSettings, ContenderSettings
from gatedrnn.study.space import search_settings
from gatedrnn.terminal import Console
from gatedrnn.training.recipes import with_options
from gatedrnn.training.settings import ModelSettings, TrainSettings, threads_for


@tasks_kept()
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
    from gatedrnn.executors import executor_for
    from gatedrnn.study import report as reports
    from gatedrnn.study.experiment import compare as run_comparison
    from gatedrnn.study.printing import print_comparison, print_joined
    from gatedrnn.study.suite import read_suite, run_suite

    console, threads = Console(), threads or (threads_for(jobs or 1) if on == "local" else 1)
    search: dict[str, Any] = {"trials": trials, "space": space, "minutes": minutes, "search_seed": search_seed}
    with executor_for(on, jobs, threads) as executor, RunsDisplay(console, "compare") as display:
        run = partial(
            run_comparison, executor=executor, memory=memory, fresh=fresh, wait=wait, margin=margin,
            command=command_line(), on_progress=display.show,
        )  # fmt: skip
        if suite is not None:
            _refuse_settings([data, contenders, model, train], search)
            folder = output or Path("runs") / suite.stem
            folders = run_suite(read_suite(suite, threads), folder, run, fresh=fresh)
        else:
            who = contenders.model_dump()
            if contenders.ladder is None:
                who["cells"] = [with_options(data.task, cell) for cell in contenders.cells]
            if contenders.recipes:
                data, model, train = _with_chosen(data, model, train)
            settings = CompareSettings.model_validate(
                {
                    "contenders": who, "threads": threads, "data": data.model_dump(), "model": model.model_dump(),
                    "train": train.model_dump(),
                    "search": search_settings(model, train, **search),
                }
            )  # fmt: skip
            ladder = settings.contenders.ladder
            folder = output or Path("runs") / (f"ladder-{ladder}-{data.task}" if ladder else f"compare-{data.task}")
            display.show_notes(load_task(settings.data).notes)
            results = run(settings, folder)
    if suite is not None:
        joined = reports.joined_comparisons(folders)
        page = reports.report_of_joined(joined, folders, folder).write(folder)
        print_joined(joined, console)
    else:
        page = reports.write_report(folder)
        print_comparison(results, console)
    console.print(f"report: {page}", soft_wrap=True, highlight=False)


def _with_chosen(
    data: TaskSettings, model: ModelSettings, train: TrainSettings
) -> tuple[TaskSettings, ModelSettings, TrainSettings]:
    """Settings with what the data decide of those that nobody gave, as `train` takes them; but a validation part is set
    apart, as in every comparison."""
    from gatedrnn.training.chosen import chosen

    named = {name for part in (data, model, train) for name in part.model_fields_set} | {"validation_fraction"}
    decided = {
        name: choice.value for name, choice in chosen(load_task(cast(DataSettings, data))).items() if name not in named
    }
    if "epochs" in named:
        decided["total_steps"] = 0
    choices = [
        part.model_copy(update={name: value for name, value in decided.items() if name in type(part).model_fields})
        for part in (data, model, train)
    ]
    return cast(tuple[TaskSettings, ModelSettings, TrainSettings], tuple(choices))


def _refuse_settings(parts: Sequence[Settings], search: Mapping[str, object]) -> None:
    """Refuse flags that a suite's file has the place for."""
    named = [name for part in parts for name in sorted(part.model_fields_set)]
    named += [name for name, value in search.items() if value is not None]
    if named:
        flag = named[0].replace("_", "-")
        raise UsageError(f"--{flag}: with --suite all settings stand in its file; write '{flag}: …' there")
