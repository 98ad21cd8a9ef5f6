"""A comparison from its settings to results.json: contenders, runs, baselines, results."""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from gatedrnn import manifest
from gatedrnn.children import may_have_workers
from gatedrnn.data import TaskData, load_task, tasks_kept
from gatedrnn.errors import Damaged, DataError, FolderTaken, UsageError, reason
from gatedrnn.executors import HERE, Executor, OnProgress, Records
from gatedrnn.layers import RecurrentLayer
from gatedrnn.locks import LOCK, empty, sole_writer
from gatedrnn.records import commit, environment, read_json, read_yaml, write_whole
from gatedrnn.study.assembly import (
    assembled,
    curves_of,
    records_beside,
    tokens_of_step,
    training_memory,
    training_speed,
)
from gatedrnn.study.match import Contender, contenders
from gatedrnn.study.plain import plain_baselines
from gatedrnn.study.results import (
    ComparisonMeasured,
    ComparisonResults,
    PlainFit,
    SearchResults,
    Speed,
    Trials,
    run_name,
)
from gatedrnn.study.settings import CompareSettings
from gatedrnn.study.space import with_values
from gatedrnn.study.tuning import FOLDER as TRIALS
from gatedrnn.study.tuning import Search, mean_seconds
from gatedrnn.training.folder import IN_MEMORY, as_of_now, differences, is_free
from gatedrnn.training.model import build_model
from gatedrnn.training.outcomes import OUTCOMES, Outcomes, read_outcomes, write_outcomes
from gatedrnn.training.resources import check_room
from gatedrnn.training.score import outcomes_of
from gatedrnn.training.settings import RunSettings
from gatedrnn.trust import file_of, is_in_file

LOG = logging.getLogger("gatedrnn")
_RESTORE = "restore it, give another --output, or --fresh to start over"
SPEED_SECONDS = 2.0
"""The seconds for which the speed of each contender is measured."""
TORCH = "torch"
_PLAIN_OUTCOMES = "plain.npz"
PLAIN = TypeAdapter(list[PlainFit])
_SPEEDS = TypeAdapter(dict[str, Speed])
STEPS = TypeAdapter(dict[str, int])
MEMORY = TypeAdapter(dict[str, float | None])
Made = TypeVar("Made")


@tasks_kept()
def compare(
    settings: CompareSettings, folder: Path, *, executor: Executor = HERE, memory: bool = False, fresh: bool = False,
    wait: bool = False, margin: float | None = None, command: str = "", on_progress: OnProgress = lambda *_: None,
) -> ComparisonResults:  # fmt: skip
    """Run what is not finished yet and assemble the results.

    Args:
        settings: the whole comparison.
        folder: the comparison's folder, with one folder a run.
        executor: where runs run, one after another in this process by default; scores do not depend on it.
        memory: measure each contender's memory in a process of its own.
        fresh: remove the comparison that is in `folder` first; not before the new settings are checked.
        wait: wait for another process that writes into the folder, instead of giving up.
        margin: the largest difference that does not matter; that of `MARGINS` if None.
        command: the command line, for the record.
        on_progress: called with the progress of each run.

    Returns:
        The content of results.json, which is written into `folder` with the records beside it.

    Raises:
        FolderTaken: the folder holds another comparison.  InUse: another process writes into it.
        Damaged: a record of it, or of one of its runs, is not as it was written.  NoMatch: a width cannot be found.
        NonFiniteLoss, WorkerLost, OutOfMemory: of a run, after all others are finished; and any other error of a run.
        Finished runs are kept, and the same call resumes.
        UsageError: memory is to be measured, and this process may start no other.
    """
    if memory and not may_have_workers():
        raise UsageError(
            "--memory: is measured in a process of its own, and this one is a worker, which may start none; leave the "
            "flag out"
        )
    comparison = Comparison(settings, folder)
    comparison.check(fresh=fresh)  # before a lock is written into a folder of something else
    with sole_writer(folder, wait=wait):
        comparison.claim(fresh=fresh)
        since = None if comparison.has_begun() else time.perf_counter()
        comparison.plain()
        comparison.prepare(executor, on_progress)
        records, diverged = executor.run_all(comparison.runs, folder, on_progress)
        if diverged:
            raise diverged[0]
        return comparison.assemble(
            records, executor, speed_seconds=SPEED_SECONDS, memory=memory, since=since, margin=margin, command=command
        )


class Comparison:
    """One comparison: its data, its contenders with their widths, and a run for each of them and each seed.

    Where the time of training is matched, or settings are searched, `prepare` comes before the runs.

    Raises:
        DataError: there is no test split.  NoMatch: a width cannot be found.
    """

    def __init__(self, settings: CompareSettings, folder: Path) -> None:
        self.settings, self.data = settings, load_task(settings.data)
        self.folder, self.config = folder, folder / "comparison.yaml"
        commit()  # for the record, as it is now
        self.asked = _written(settings, [*self.data.sources, *_files(settings)])
        if "test" not in self.data.evaluation:
            raise DataError("a comparison ends on a test split; set --test-fraction above 0, or give --test-file")
        if "validation" not in self.data.evaluation:
            raise DataError("a comparison chooses by a validation split, and these data have none: they are too few")
        who = settings.contenders
        check_room(settings.run(who.cells[0], who.hidden_size, who.seeds[0]), self.data)
        self.contenders = contenders(settings, self.data)
        self.steps: dict[str, int] = {}
        """The steps of each contender's runs, where they are not those of the recipe."""
        self.trials: Trials | None = None
        self.found: SearchResults | None = None
        search = settings.search
        # Refuses what no run can have, before anything is written.
        self.search = None if search is None else Search(search, self._bases(), self.data, folder)

    @property
    def runs(self) -> dict[str, RunSettings]:
        """The settings of runs by name, all contenders with the first seed, then with the next."""
        return {
            run_name(contender.name, seed): self._run(contender, seed)
            for seed in self.settings.contenders.seeds
            for contender in self.contenders
        }

    def _run(self, contender: Contender, seed: int) -> RunSettings:
        run = self.settings.run(contender.cell, contender.hidden_size, seed)
        if self.found is not None:
            run = with_values(run, self.found.best[contender.name].values)
        if contender.name in self.steps:
            run = run.model_copy(
                update={"train": run.train.model_copy(update={"total_steps": self.steps[contender.name]})}
            )
        return run

    def _bases(self) -> dict[str, RunSettings]:
        """A run of each contender by the recipe."""
        seed = self.settings.contenders.seeds[0]
        return {
            contender.name: self.settings.run(contender.cell, contender.hidden_size, seed)
            for contender in self.contenders
        }

    def prepare(self, executor: Executor, on_progress: OnProgress) -> None:
        """Whatever the settings of runs depend on: steps that take equal seconds, and the trials of a search.

        Raises:
            NonFiniteLoss: every trial of a contender diverged.
        """
        if "time" in self.settings.contenders.match:
            self.steps = _once(self.folder / "steps.json", STEPS, self._steps_in_equal_seconds)
        if self.search is not None:
            trials = self.search.run(executor, on_progress)
            self.trials, self.found = Trials(trials=trials), self.search.results(trials)

    def _steps_in_equal_seconds(self) -> dict[str, int]:
        """The steps of each contender: as many as take the baseline's seconds for those matched by time, and the
        baseline's for all others. From here on they are settings like any other.
        """
        who, bases = self.settings.contenders, self._bases()
        speed = self._speed(bases, SPEED_SECONDS)
        base = next(iter(bases.values()))
        tokens = tokens_of_step(base, self.data)
        if who.train_minutes is not None:
            seconds = 60 * who.train_minutes
        else:
            batches = self.data.train.steps_per_epoch(base.train.batch_size)
            steps = base.train.total_steps or base.train.epochs * -(-batches // base.train.accumulate)
            seconds = steps * tokens / speed[self.contenders[0].name].median
        rates = {
            contender.name: contender.name if contender.match == "time" else self.contenders[0].name
            for contender in self.contenders
        }
        return {name: max(1, round(seconds * speed[rate].median / tokens)) for name, rate in rates.items()}

    def _speed(self, runs: dict[str, RunSettings], seconds: float) -> dict[str, Speed]:
        """The speed of each contender's training, all in turn; measured once."""
        return _once(self.folder / "speed.json", _SPEEDS, lambda: training_speed(runs, self.data, seconds))

    def check(self, *, fresh: bool) -> None:
        """Check that the folder is free, or holds this comparison: the same settings, the same data.

        Raises:
            FolderTaken: it holds another one, and `fresh` is not given, or something else.
        """
        if not self.config.exists() and not is_free(self.folder):
            raise FolderTaken(f"{self.folder}: is not empty and holds no comparison; give another --output")
        if fresh or not self._holds_work():
            return
        held = self._held_settings()
        theirs = as_of_now(held, lambda: _written(CompareSettings.model_validate(_asked(held)), held["sources"]))
        if theirs != self.asked:
            raise FolderTaken(
                f"{self.config}: holds a comparison with another configuration ({differences(theirs, self.asked)}); "
                "give another --output, or --fresh to start over"
            )

    def claim(self, *, fresh: bool) -> None:
        """`check`, then write the settings into the folder; if `fresh`, empty it first."""
        self.check(fresh=fresh)
        if fresh and self.folder.exists():
            empty(self.folder, keep=IN_MEMORY)
        if self._holds_work():
            if not manifest.is_expected(self.config):
                return
            manifest.say_what_is_made_again(self.folder)
            if not manifest.fault_of(self.config, manifest.of(self.config) or {}):
                return
        self.folder.mkdir(parents=True, exist_ok=True)
        text = manifest.HEADING + yaml.safe_dump(self.asked, sort_keys=False, allow_unicode=True)
        write_whole(self.config, text)
        manifest.add(self.folder, self.config.name)

    def _holds_work(self) -> bool:
        """Whether the folder holds a comparison with more than its settings."""
        ours = {self.config, *(self.folder / name for name in (LOCK, manifest.MANIFEST, *IN_MEMORY))}
        return self.config.exists() and not ours.issuperset(self.folder.iterdir())

    def _held_settings(self) -> Any:
        try:
            held = read_yaml(self.config)
        except yaml.YAMLError as error:
            raise Damaged(f"{self.config}: is damaged ({reason(error)}); {_RESTORE}") from error
        if held is None:
            raise Damaged(f"{self.config}: is empty; {_RESTORE}")
        return held

    def has_begun(self) -> bool:
        """Whether a run of it has begun."""
        return (self.folder / TRIALS).exists() or any(
            (self.folder / contender.name).exists() for contender in self.contenders
        )

    def plain(self) -> list[PlainFit]:
        """The task's plain baselines, fitted once."""
        path, outcomes = self.folder / "plain.json", self.folder / _PLAIN_OUTCOMES
        if not outcomes.exists():
            path.unlink(missing_ok=True)  # half of what is written here

        def fit() -> list[PlainFit]:
            baselines = plain_baselines(self.data, self.settings.threads)
            write_outcomes(outcomes, _by_run_and_split({baseline.name: baseline.outcomes for baseline in baselines}))
            manifest.add(self.folder, outcomes.name)
            return [
                PlainFit(
                    name=baseline.name,
                    parameters=baseline.parameters,
                    seconds=baseline.seconds,
                    further=baseline.scores,
                )
                for baseline in baselines
            ]

        return _once(path, PLAIN, fit)

    def assemble(
        self, records: Records, executor: Executor, *, speed_seconds: float, memory: bool = False,
        since: float | None = None, margin: float | None = None, command: str = "",
    ) -> ComparisonResults:  # fmt: skip
        """Baselines and measurements, each made once, and results.json, which is returned.

        Args:
            records: every run's result.
            executor: where the runs ran.
            speed_seconds: how long the speed of each contender is measured.
            memory, margin, command: as in `compare`.
            since: when the first run began, by `time.perf_counter`; None if that was in an earlier call, or if other
                runs were trained in between.
        """
        settings, data, folder, plain = self.settings, self.data, self.folder, self.plain()
        seed = settings.contenders.seeds[0]
        firsts = {contender.name: self.runs[run_name(contender.name, seed)] for contender in self.contenders}
        measured = ComparisonMeasured(
            runs={name: record.measured for name, record in records.items()},
            plain_seconds={baseline.name: baseline.seconds for baseline in plain},
            memory_mib=_once(folder / "memory.json", MEMORY, lambda: _memory(firsts)) if memory else None,
            speed=self._speed(firsts, speed_seconds),
            trial_seconds=None if self.trials is None else mean_seconds(self.trials.trials),
            runs_on={contender.name: _runs_on(settings, data, contender) for contender in self.contenders},
            on=executor.on,
            jobs=executor.jobs,
            wall_seconds=None if since is None else time.perf_counter() - since,
            command=command,
            **environment(),
        )
        outcomes = {name: outcomes_of(folder / name, data) for name in records}
        of_plain = read_outcomes(folder / _PLAIN_OUTCOMES)
        outcomes |= {
            baseline.name: {split: of_plain[f"{baseline.name}/{split}"] for split in data.evaluation}
            for baseline in plain
        }
        curves = curves_of(self.runs, data, folder)
        results = assembled(
            settings, data, self.contenders, records, curves, outcomes, plain, self.found, margin, measured
        )
        write_outcomes(folder / OUTCOMES, _by_run_and_split(outcomes))
        manifest.add(folder, OUTCOMES)
        beside = records_beside(records, curves)
        if self.trials is not None:
            beside[Trials.FILE] = self.trials
        for file, record in {ComparisonResults.FILE: results, **beside}.items():
            record.write(folder / file)
            manifest.add(folder, file)
        return results


def _written(settings: CompareSettings, sources: list[dict[str, Any]]) -> dict[str, Any]:
    return {**settings.model_dump(mode="json"), "sources": sources}


def _files(settings: CompareSettings) -> list[dict[str, Any]]:
    """The Python files of contenders with their sums: another content is another contender."""
    files = [file_of(cell) for cell in settings.contenders.cells if is_in_file(cell)]
    return [{"name": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()} for file in files]


def _asked(held: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in held.items() if name != "sources"}


def _once(path: Path, kind: TypeAdapter[Made], make: Callable[[], Made]) -> Made:
    """The content of `path`, made and written if it is missing or not as it was written."""
    listed = manifest.of(path)
    if not path.exists() or (listed and manifest.fault_of(path, listed)):
        write_whole(path, json.dumps(kind.dump_python(make(), mode="json"), indent=1))
        manifest.add(path.parent, path.name)
    try:
        return kind.validate_python(read_json(path))
    except ValidationError as error:
        raise Damaged(f"{path}: is damaged ({error.errors()[0]['msg']}); remove it to measure anew") from error


def _memory(runs: dict[str, RunSettings]) -> dict[str, float | None]:
    LOG.info("measuring the memory of training %d contenders, each in a process of its own", len(runs))
    return {name: training_memory(run) for name, run in runs.items()}


def _runs_on(settings: CompareSettings, data: TaskData, contender: Contender) -> str:
    """The execution path of a contender's recurrent layers in training, on this machine; torch's for a backbone."""
    model = build_model(settings.run(contender.cell, contender.hidden_size, 0), data)
    layers = [module for module in model.modules() if isinstance(module, RecurrentLayer)]
    return layers[0].runs_on().name if layers else TORCH


def _by_run_and_split(outcomes: Mapping[str, Mapping[str, Outcomes]]) -> dict[str, Outcomes]:
    """The outcomes by the names that a file has for them."""
    return {f"{name}/{split}": outcome for name, by_split in outcomes.items() for split, outcome in by_split.items()}
