"""A comparison from its settings to results.json: contenders, runs, baselines, results."""

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from gatedrnn import manifest
from gatedrnn.data import Examples, TaskData, load_task
from gatedrnn.errors import Damaged, DataError, FolderTaken
from gatedrnn.inspect.tracking import tracking
from gatedrnn.layers import RecurrentLayer
from gatedrnn.locks import LOCK, empty, sole_writer
from gatedrnn.records import environment, read_json, write_whole
from gatedrnn.registry import CellChoice
from gatedrnn.study.ladder import step_above
from gatedrnn.study.linear import linear_baseline
from gatedrnn.study.match import Contender, contenders
from gatedrnn.study.profile import training_memory, training_speed
from gatedrnn.study.results import (
    Baseline,
    ComparisonAsked,
    ComparisonMeasured,
    ComparisonResults,
    Confusion,
    ContenderResults,
    Curve,
    Curves,
    Data,
    DocumentLosses,
    LinearBaseline,
    Metric,
    Source,
    Speed,
    StepAbove,
    run_name,
)
from gatedrnn.study.runs import OnProgress, Records, run_all
from gatedrnn.study.settings import CompareSettings
from gatedrnn.study.statistics import Sample, difference_of, over_documents, score_of
from gatedrnn.train.folder import as_of_now, differences, is_free, read_metrics
from gatedrnn.train.model import build_model
from gatedrnn.train.objective import metric_of
from gatedrnn.train.resources import demand_room
from gatedrnn.train.result import Record, RunResult, RunScores
from gatedrnn.train.settings import RunSettings

LOG = logging.getLogger("gatedrnn")
_RESTORE = "restore it, give another --output, or --fresh to start over"
SPEED_SECONDS = 3.0
"""How long the speed of each contender is measured."""
LINEAR: TypeAdapter[LinearBaseline | None] = TypeAdapter(LinearBaseline | None)
SPEEDS = TypeAdapter(dict[str, Speed])
MEMORY = TypeAdapter(dict[str, float | None])
Made = TypeVar("Made")


def compare(
    settings: CompareSettings, folder: Path, *, jobs: int = 1, memory: bool = False, fresh: bool = False,
    wait: bool = False, command: str = "", on_progress: OnProgress = lambda *_: None,
) -> ComparisonResults:  # fmt: skip
    """Run what is not finished yet and assemble the results.

    Args:
        settings: the whole comparison.
        folder: the comparison's folder, with one folder a run.
        jobs: processes at a time; scores do not depend on it, times do.
        memory: measure each contender's memory in a process of its own.
        fresh: remove the comparison that is in `folder` first; not before the new settings are checked.
        wait: wait for another process that writes into the folder, instead of giving up.
        command: the command line, for the record.
        on_progress: called with the progress of each run.

    Returns:
        The content of results.json, which is written into `folder` with the records beside it.

    Raises:
        FolderTaken: the folder holds another comparison.  InUse: another process writes into it.
        Damaged: a record of it, or of one of its runs, is not as it was written.  NoMatch: a width cannot be found.
        NonFiniteLoss: of a run, after all others are finished; and any other error of a run. Finished runs are kept,
        and the same call resumes.
    """
    comparison = Comparison(settings, folder)
    comparison.check(fresh=fresh)  # before a lock is written into a folder of something else
    with sole_writer(folder, wait=wait):
        comparison.claim(fresh=fresh)
        since = None if comparison.has_begun() else time.perf_counter()
        comparison.linear()
        records, diverged = run_all(comparison.runs, folder, jobs, on_progress)
        if diverged:
            raise diverged[0]
        return comparison.assemble(
            records, speed_seconds=SPEED_SECONDS, memory=memory, since=since, jobs=jobs, command=command
        )


class Comparison:
    """One comparison: its data, its contenders with their widths, and a run for each of them and each seed.

    Raises:
        DataError: there is no test split.  NoMatch: a width cannot be found.
    """

    def __init__(self, settings: CompareSettings, folder: Path) -> None:
        self.settings, self.data = settings, load_task(settings.data)
        self.folder, self.config = folder, folder / "comparison.yaml"
        self.asked = _written(settings, self.data.sources)
        if "test" not in self.data.evaluation:
            raise DataError("a comparison ends on a test split; set --test-fraction above 0, or give --test-file")
        who = settings.contenders
        demand_room(settings.run(who.cells[0], who.hidden_size, who.seeds[0]), self.data)
        self.contenders = contenders(settings, self.data)
        self.runs = {
            run_name(contender.name, seed): settings.run(contender.cell, contender.hidden_size, seed)
            for seed in settings.contenders.seeds
            for contender in self.contenders
        }

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
            empty(self.folder)
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
        ours = {self.config, self.folder / LOCK, self.folder / manifest.MANIFEST}
        return self.config.exists() and not ours.issuperset(self.folder.iterdir())

    def _held_settings(self) -> Any:
        try:
            held = yaml.safe_load(self.config.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, yaml.YAMLError) as error:
            raise Damaged(f"{self.config}: is damaged ({str(error).splitlines()[0]}); {_RESTORE}") from error
        if held is None:
            raise Damaged(f"{self.config}: is empty; {_RESTORE}")
        return held

    def has_begun(self) -> bool:
        """Whether a run of it has begun."""
        return any((self.folder / name).exists() for name in self.runs)

    def linear(self) -> LinearBaseline | None:
        """The linear baseline on a task of texts, fitted once."""
        if not self.data.texts:
            return None
        return _once(self.folder / "linear.json", LINEAR, lambda: linear_baseline(self.data))

    def assemble(
        self, records: Records, *, speed_seconds: float, memory: bool = False,
        since: float | None = None, jobs: int = 1, command: str = "",
    ) -> ComparisonResults:  # fmt: skip
        """Baselines and measurements, each made once, and results.json, which is returned.

        Args:
            records: every run's result.
            speed_seconds: how long the speed of each contender is measured.
            memory, jobs, command: as in `compare`.
            since: when the first run began, by `time.perf_counter`; None if that was in an earlier call, or if other
                runs were trained in between.
        """
        settings, data, folder, linear = self.settings, self.data, self.folder, self.linear()
        seed = settings.contenders.seeds[0]
        firsts = {contender.name: self.runs[run_name(contender.name, seed)] for contender in self.contenders}
        measured = ComparisonMeasured(
            runs={name: record.measured for name, record in records.items()},
            linear=None if linear is None else linear.measured,
            memory_mib=_once(folder / "memory.json", MEMORY, lambda: _memory(firsts)) if memory else None,
            speed=_once(folder / "speed.json", SPEEDS, lambda: training_speed(firsts, data, speed_seconds)),
            runs_on={contender.name: _runs_on(settings, data, contender) for contender in self.contenders},
            jobs=jobs,
            wall_seconds=None if since is None else time.perf_counter() - since,
            command=command,
            **environment(),
        )
        results = _assemble(settings, data, self.contenders, records, linear, measured)
        for file, record in {ComparisonResults.FILE: results, **_beside(self.runs, records, data, folder)}.items():
            record.write(folder / file)
            manifest.add(folder, file)
        return results


def _written(settings: CompareSettings, sources: list[dict[str, Any]]) -> dict[str, Any]:
    return {**settings.model_dump(mode="json"), "sources": sources}


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


def _assemble(
    settings: CompareSettings, data: TaskData, compared: list[Contender], records: Records,
    linear: LinearBaseline | None, measured: ComparisonMeasured,
) -> ComparisonResults:  # fmt: skip
    """Scores, differences and their intervals: the same when the same comparison is run again, but for `measured`."""
    ladder, seeds, metric = settings.contenders.ladder, settings.contenders.seeds, metric_of(data).name
    counted = {name: len(split) for name, split in data.evaluation.items() if isinstance(split, Examples)}
    runs = {one.name: [records[run_name(one.name, seed)] for seed in seeds] for one in compared}

    def sample(contender: Contender, split: str = "test") -> Sample:
        return _sample(runs[contender.name], split, metric, counted)

    def row(contender: Contender) -> ContenderResults:
        own = {split: sample(contender, split) for split in data.evaluation}
        to_baseline = over = to_above = to_linear = None
        if contender is not baseline:
            to_baseline = {split: difference_of(own[split], sample(baseline, split)) for split in own}
            over = over_documents(own["test"], sample(baseline)) if data.labelled == "next" else None
        if ladder is not None and (cell := step_above(ladder, contender.cell)) is not None:
            above = next(one for one in compared if one.cell == cell and one.match in ("baseline", contender.match))
            to_above = StepAbove(contender=above.name, difference=difference_of(own["test"], sample(above)))
        if linear is not None:
            to_linear = difference_of(own["test"], Sample([linear.test_accuracy] * len(seeds), counted["test"]))
        return ContenderResults(
            name=contender.name,
            cell=contender.cell,
            match=contender.match,
            structure=contender.structure,
            parameters=contender.parameters,
            core_mismatch=contender.mismatch,
            runs=[_scores_alone(run) for run in runs[contender.name]],
            scores={split: score_of(one) for split, one in own.items()},
            difference_to_baseline=to_baseline,
            over_documents=over,
            step_above=to_above,
            difference_to_linear=to_linear,
        )

    baseline = compared[0]
    return ComparisonResults(
        task=data.name,
        metric=Metric.model_validate(metric_of(data)._asdict()),
        settings=ComparisonAsked.model_validate(_without_paths(settings.model_dump(mode="json"))),
        data=Data(
            sources=[Source.model_validate(source) for source in data.sources],
            label_names=list(data.label_names), notes=data.notes, rows=counted,
        ),
        contenders=[row(contender) for contender in compared],
        baseline=Baseline(contender=baseline.name, linear=linear),
        classes={contender.cell: tracking(CellChoice.parse(contender.cell).equations()) for contender in compared},
        measured=measured,
    )  # fmt: skip


def _scores_alone(run: RunResult) -> RunScores:
    return RunScores(seed=run.seed, steps=run.steps, best_step=run.best_step, scores=run.scores)


def _sample(runs: list[RunResult], split: str, metric: str, rows: dict[str, int]) -> Sample:
    values = [run.score(split, metric) for run in runs]
    if metric == "accuracy":
        return Sample(values, rows[split])
    documents = [run.documents[split] for run in runs if run.documents is not None]
    return Sample(values, None, documents[0].tokens, [one.nats for one in documents])


def _beside(runs: dict[str, RunSettings], records: Records, data: TaskData, folder: Path) -> dict[str, Record]:
    """What is too large for results.json, by file."""
    score = f"validation_{metric_of(data).name}"

    def curve(name: str) -> Curve:
        lines = [line for line in read_metrics(folder / name / "metrics.jsonl") if "validation_loss" in line]
        loss, own = ([line[key] for line in lines] for key in ("validation_loss", score))
        return Curve(step=[line["step"] for line in lines], loss=loss, score=own)

    found: dict[str, Record] = {Curves.FILE: Curves(runs={name: curve(name) for name in runs})}
    confusion = {name: records[name].confusion for name in runs}
    if all(confusion.values()):
        found[Confusion.FILE] = Confusion.model_validate({"runs": confusion})
    documents = {name: records[name].documents for name in runs}
    if all(documents.values()):
        found[DocumentLosses.FILE] = DocumentLosses.model_validate({"runs": documents})
    return found


def _runs_on(settings: CompareSettings, data: TaskData, contender: Contender) -> str:
    """The execution path of a contender's recurrent layers in training, on this machine."""
    model = build_model(settings.run(contender.cell, contender.hidden_size, 0), data)
    return next(module for module in model.modules() if isinstance(module, RecurrentLayer)).runs_on().name


def _without_paths(settings: dict[str, Any]) -> dict[str, Any]:
    """Files by name alone: results name no folder of the machine."""
    data = {k: Path(v).name if k.endswith("_file") and v else v for k, v in settings["data"].items()}
    return {**settings, "data": data}
