"""A suite of probes: one comparison a task, all cells with the same number of recurrent parameters."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import cast

from gatedrnn import manifest
from gatedrnn.data import Examples, load_task, tasks_kept
from gatedrnn.errors import DataError
from gatedrnn.executors import HERE, Executor, OnProgress
from gatedrnn.kinds.kind import Tracking
from gatedrnn.locks import sole_writer
from gatedrnn.records import environment
from gatedrnn.study.experiment import Comparison
from gatedrnn.study.match import core_parameters
from gatedrnn.study.report import write_report
from gatedrnn.study.results import CellAnswers, ComparisonResults, Measured, ProbeResults, ProbesAsked, TaskAnswers
from gatedrnn.study.settings import CompareSettings, ContenderSettings, ProbeSettings
from gatedrnn.tasks.probes.settings import ProbeTaskSettings
from gatedrnn.tasks.probes.suite import PROBES, labels_in
from gatedrnn.training.recipes import with_options, with_recipe
from gatedrnn.training.settings import ModelSettings, TrainSettings

_MEASURE = "lstm"
"""The cell whose parameters, at the width of a task's recipe, all others are matched to."""
LENGTHS = (256, 1024, 4096, 16_384, 65_536)
_SHORTER = LENGTHS[:3]
"""The lengths where a row has few labels whatever its length: enough labels would take too many long rows."""
SPEED_SECONDS = 1.0
"""The seconds for which the speed of each cell of a task is measured."""


@tasks_kept()
def probe(
    settings: ProbeSettings, folder: Path, *, executor: Executor = HERE, fresh: bool = False, wait: bool = False,
    command: str = "", on_progress: OnProgress = lambda *_: None,
) -> ProbeResults:  # fmt: skip
    """Run what is not finished yet and assemble the results.

    Args:
        settings: the whole suite.
        folder: the suite's folder, with one a task: a comparison with its own report.
        executor: where runs run, one after another in this process by default; scores do not depend on it.
        fresh: remove the comparisons of these tasks that are in `folder` first.
        wait: wait for another process that writes into the folder, instead of giving up.
        command: the command line, for the record.
        on_progress: called with the progress of each run.

    Returns:
        The content of probes.json, which is written into `folder`.

    Raises:
        DataError: no length is above a task's training length.
        and what `compare` raises; finished runs are kept, and the same call resumes.
    """
    comparisons = {task: Comparison(_comparison(settings, task), folder / task) for task in settings.tasks}
    for comparison in comparisons.values():  # all of them, before anything is removed or written
        comparison.check(fresh=fresh)
    with ExitStack() as held:
        for place in (folder, *(comparison.folder for comparison in comparisons.values())):
            held.enter_context(sole_writer(place, wait=wait))
        for comparison in comparisons.values():
            comparison.claim(fresh=fresh)
        manifest.say_what_is_made_again(folder)
        return _run(settings, comparisons, folder, executor, command, on_progress)


def _run(
    settings: ProbeSettings, comparisons: dict[str, Comparison], folder: Path, executor: Executor, command: str,
    on_progress: OnProgress,
) -> ProbeResults:  # fmt: skip
    """All runs of all comparisons, their reports, and probes.json, which is returned."""
    whole, started = not any(comparison.has_begun() for comparison in comparisons.values()), time.perf_counter()
    # All tasks' runs in one queue, so that no process is idle at the end of a task.
    runs = {f"{task}/{name}": run for task, comparison in comparisons.items() for name, run in comparison.runs.items()}
    records, diverged = executor.run_all(runs, folder, on_progress)
    answers: dict[str, TaskAnswers] = {}
    classes: dict[str, Tracking] = {}
    for task, comparison in comparisons.items():
        records_of_task = {name: records[f"{task}/{name}"] for name in comparison.runs if f"{task}/{name}" in records}
        if len(records_of_task) < len(comparison.runs):
            continue
        compared = comparison.assemble(records_of_task, executor, speed_seconds=SPEED_SECONDS, command=command)
        write_report(folder / task)
        answers[task], classes = _answers(task, settings.cells, comparison, compared), compared.classes
    if diverged:  # the other tasks have their reports by now
        raise diverged[0]
    results = ProbeResults(
        settings=ProbesAsked.model_validate(settings.model_dump(mode="json")),
        tasks=answers,
        classes=classes,
        measured=Measured(
            wall_seconds=time.perf_counter() - started if whole else None,  # None: some runs were begun before
            on=executor.on,
            jobs=executor.jobs,
            command=command,
            **environment(),
        ),
    )
    results.write(folder / ProbeResults.FILE)
    manifest.add(folder, ProbeResults.FILE)
    return results


def _comparison(settings: ProbeSettings, task: str) -> CompareSettings:
    """The task's recipe, every cell with as many recurrent parameters as `_MEASURE` has in it."""
    recipe = with_recipe(task, "contenders", ContenderSettings())
    cells = [with_options(task, cell) for cell in settings.cells]
    who = ContenderSettings(cells=cells, match=["params"], seeds=list(settings.seeds))
    comparison = CompareSettings(
        contenders=who,
        threads=settings.threads,
        data=with_recipe(task, "data", ProbeTaskSettings(task=task, test_lengths=_longer(settings, task))),
        model=with_recipe(task, "model", ModelSettings()),
        train=with_recipe(task, "train", TrainSettings()),
    )
    core = core_parameters(comparison, load_task(comparison.data), _MEASURE, recipe.hidden_size)
    return comparison.model_copy(update={"contenders": who.model_copy(update={"core": core})})


def _longer(settings: ProbeSettings, task: str) -> tuple[int, ...]:
    trained = with_recipe(task, "data", ProbeTaskSettings(task=task)).length
    asked = settings.lengths or (_SHORTER if PROBES[task].answers else LENGTHS)
    longer = tuple(sorted(length for length in asked if length > trained))
    if not longer:
        raise DataError(f"{task} is trained at {trained}: name one of --lengths above it")
    return longer


def _answers(task: str, cells: Sequence[str], comparison: Comparison, results: ComparisonResults) -> TaskAnswers:
    """The part of a comparison that a page or a table of probes needs."""
    probe, data = PROBES[task], comparison.settings.data
    evaluation = cast(dict[str, Examples], comparison.data.evaluation)
    assert isinstance(data, ProbeTaskSettings)
    splits = {data.length: "test"} | {length: f"test_{length}" for length in data.test_lengths}
    assert comparison.settings.contenders.core is not None
    return TaskAnswers(
        asks=probe.asks,
        source=probe.source,
        chance=probe.chance,
        trained_at=data.length,
        core=comparison.settings.contenders.core,
        rows={length: len(evaluation[split]) for length, split in splits.items()},
        labels={length: labels_in(evaluation[split]) for length, split in splits.items()},
        cells={
            cell: CellAnswers(
                hidden_size=row.structure.hidden_size,
                core=row.parameters.core,
                accuracy={
                    run.seed: {length: run.score(split, "accuracy") for length, split in splits.items()}
                    for run in row.runs
                },
                tokens_per_second=results.measured.speed[row.name].median,
            )
            for cell, row in zip(cells, results.contenders, strict=True)
        },
    )
