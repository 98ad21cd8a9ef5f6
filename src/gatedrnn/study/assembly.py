"""results.json of a comparison, and the records beside it, out of its runs; speed and memory of training."""

import gc
import logging
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from gatedrnn.children import end_with_parent, process_pool
from gatedrnn.data import TaskData, load_task, tokens_in
from gatedrnn.executors import Records
from gatedrnn.kinds import kind_of
from gatedrnn.models.backbones import BACKBONES
from gatedrnn.registry import CellChoice
from gatedrnn.study.match import Contender
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
    PlainFit,
    PlainScores,
    SearchResults,
    Source,
    Speed,
    run_name,
)
from gatedrnn.study.settings import CompareSettings, step_above
from gatedrnn.study.statistics import MARGINS, Estimate, Pair, Sample, Table
from gatedrnn.timing import interleave
from gatedrnn.training.folder import RunFolder, read_metrics
from gatedrnn.training.loop import Trainer
from gatedrnn.training.objective import metric_of
from gatedrnn.training.outcomes import Outcomes
from gatedrnn.training.result import Metric, Record, RunResult, RunScores
from gatedrnn.training.settings import RunSettings
from gatedrnn.trust import canonical_name, file_of, is_in_file

LOG = logging.getLogger("gatedrnn")
STEPS = 4
"""Training steps of one timing: the first batches of the last epoch, where a curriculum has grown most."""


MANY_STEPS = 50
"""Enough for the mean number of tokens of a step."""
_MEMORY_STEPS = 20
"""Training steps of one measurement of memory."""


def training_speed(runs: Mapping[str, RunSettings], data: TaskData, seconds: float) -> dict[str, Speed]:
    """The speed of each contender's training steps: data in memory, no validation, no checkpoints.

    Args:
        runs: the settings of one run of each contender, by the contender's name.
        data: what all of them train on.
        seconds: how long to measure each contender.
    """
    LOG.info(
        "measuring the training speed of %d contenders on %s, about %.0f s", len(runs), data.name, seconds * len(runs)
    )
    before = torch.get_num_threads()
    try:
        with tempfile.TemporaryDirectory() as folder:
            trainers = {name: Trainer(run, data, RunFolder(Path(folder) / name)) for name, run in runs.items()}
            steps = min(STEPS, *(trainer.steps_per_epoch for trainer in trainers.values()))
            timed = interleave(
                {name: partial(trainer.run_steps, steps) for name, trainer in trainers.items()}, seconds * len(trainers)
            )
    finally:
        torch.set_num_threads(before)
    speeds: dict[str, Speed] = {}
    for name, samples in timed.items():
        spread, tokens = samples.spread, steps * tokens_of_step(runs[name], data, steps)
        speeds[name] = Speed(
            median=tokens / spread.median, low=tokens / spread.high, high=tokens / spread.low,
            timings=len(samples.seconds),
        )  # fmt: skip
    return speeds


def tokens_of_step(run: RunSettings, data: TaskData, steps: int = MANY_STEPS) -> float:
    """The mean tokens of a step over the first steps of the last epoch, padding not counted."""
    train = run.train
    batches = min(steps * train.accumulate, data.train.steps_per_epoch(train.batch_size))
    tokens = [tokens_in(data.train.batch(run.seed, train.epochs - 1, n, train.batch_size)) for n in range(batches)]
    return sum(tokens) / -(-batches // train.accumulate)


def training_memory(settings: RunSettings) -> float | None:
    """Peak resident memory of model, optimizer and a few training steps, in MiB; None where the system does not tell.

    Measured in a process of its own. The data are loaded before the measurement begins, and do not count.
    """
    with process_pool(1, end_with_parent) as pool:
        return pool.submit(_measure, settings).result()


def _measure(settings: RunSettings) -> float | None:
    data = load_task(settings.data)
    # The first step of a process imports and compiles: the smallest model takes it before the measurement.
    width = settings.model.embedding_size if settings.backbone is not None else 1  # not every backbone has width 1
    tiny = settings.model_copy(
        update={"hidden_size": 1, "model": settings.model.model_copy(update={"embedding_size": width})}
    )
    _train(tiny, 1)
    gc.collect()
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    except OSError:
        return None
    before = _resident("VmRSS")
    if before is None:
        return None
    _train(settings, min(_MEMORY_STEPS, data.train.steps_per_epoch(settings.train.batch_size)))
    peak = _resident("VmHWM")
    return None if peak is None else max(0.0, peak - before)


def _train(settings: RunSettings, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Trainer(settings, load_task(settings.data), RunFolder(Path(folder))).run_steps(steps)


def _resident(field: str) -> float | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(field)), None)


class Compared(NamedTuple):
    """The statistics of outcomes."""

    scores: dict[str, dict[str, Estimate]]
    """The estimates by name and split."""
    pairs: list[Pair]
    rivals: list[str]
    """The rivals of the best, as in `ComparisonResults`."""


def assembled(
    settings: CompareSettings, data: TaskData, compared: list[Contender], records: Records, curves: Curves,
    outcomes: Mapping[str, Mapping[str, Outcomes]], plain: list[PlainFit],
    search: SearchResults | None, margin: float | None, measured: ComparisonMeasured,
) -> ComparisonResults:  # fmt: skip
    """Scores, differences and their intervals: the same when the same comparison is run again, but for `measured`.

    Args:
        compared, plain: contenders with their widths, and the plain baselines.
        records: the result of every run, by its name.
        curves: of every run.
        outcomes: of every run and of every plain baseline, by name and split.
        search: for the settings of each contender; None where all have one recipe.
        margin: the largest difference that does not matter; that of `MARGINS` if None.
        measured: what differs from one time to the next.
    """
    ladder, seeds = settings.contenders.ladder, settings.contenders.seeds
    metric = metric_of(data)
    runs = {method.name: [run_name(method.name, seed) for seed in seeds] for method in compared}
    margin = MARGINS[metric.score] if margin is None else margin
    judged = statistics_of(runs, [method.name for method in plain], outcomes, metric, margin)

    def above(contender: Contender) -> str | None:
        cell = None if ladder is None else step_above(ladder, contender.cell)
        return next((o.name for o in compared if o.cell == cell and o.match in ("baseline", contender.match)), None)

    one_run = outcomes[run_name(compared[0].name, seeds[0])]
    return ComparisonResults(
        task=data.name,
        metric=metric,
        settings=ComparisonAsked.model_validate(_without_paths(settings.model_dump(mode="json"))),
        data=Data(
            sources=[Source.model_validate(source) for source in data.sources],
            label_names=list(data.label_names), notes=data.notes,
            examples={split: len(part.independent.counts) for split, part in one_run.items()},
            unit=one_run["test"].independent.unit,
        ),
        contenders=[
            ContenderResults(
                name=contender.name,
                cell=canonical_name(contender.cell),
                match=contender.match,
                structure=contender.structure,
                parameters=contender.parameters,
                core_mismatch=contender.mismatch,
                runs=[_scores_alone(records[run_name(contender.name, seed)]) for seed in seeds],
                scores=judged.scores[contender.name],
                step_above=above(contender),
                still_improving=still_improving(runs[contender.name], curves, metric, margin),
            )
            for contender in compared
        ],
        baseline=Baseline(
            contender=compared[0].name,
            plain=[
                PlainScores(
                    name=method.name, parameters=method.parameters, further=method.further,
                    scores=judged.scores[method.name],
                )
                for method in plain
            ],
        ),
        margin=margin,
        pairs=judged.pairs,
        rivals=judged.rivals,
        classes={
            contender.cell: kind_of(cell := CellChoice.parse(contender.cell).equations()).tracking(cell)
            for contender in compared
            if canonical_name(contender.cell) not in BACKBONES
        },
        search=search,
        measured=measured,
    )  # fmt: skip


def statistics_of(
    runs: Mapping[str, list[str]], plain: list[str], outcomes: Mapping[str, Mapping[str, Outcomes]], metric: Metric,
    margin: float,
) -> Compared:  # fmt: skip
    """Scores by name and split, and who is better on the test split.

    Args:
        runs: names of the runs of each contender.
        plain: names of plain baselines.
        outcomes: of every run and of every plain baseline, by name and split.
    """
    members = {**runs, **{name: [name] for name in plain}}
    tables = {
        split: Table([
            Sample(np.array([outcomes[run][split].independent.values for run in names_of_runs]),
                   outcomes[names_of_runs[0]][split].independent.counts, metric.score, name in plain)
            for name, names_of_runs in members.items()
        ], [*members])
        for split in outcomes[next(iter(members.values()))[0]]
    }  # fmt: skip
    estimates = {split: dict(zip(members, table.estimates(), strict=True)) for split, table in tables.items()}
    scores = {name: {split: by_name[name] for split, by_name in estimates.items()} for name in members}
    _, rivals = tables["test"].rivals(margin)
    return Compared(scores, tables["test"].pairs(margin), rivals)


def still_improving(runs: list[str], curves: Curves, metric: Metric, margin: float) -> int:
    """The number of these runs that improved by more than the margin in the last fifth of their steps."""
    return sum(_gained_lately(curves.runs[name], metric) > margin for name in runs)


def _scores_alone(run: RunResult) -> RunScores:
    return RunScores(seed=run.seed, steps=run.steps, best_step=run.best_step, scores=run.scores)


def _gained_lately(curve: Curve, metric: Metric) -> float:
    """The improvement of the score in the last fifth of the steps, as a part of it for perplexities; where validations
    are further apart, a fifth's share of what the last of them gained.
    """
    last = curve.step[-1] if curve.step else 0
    points = list(zip(curve.step, curve.score, strict=True))
    earlier = [(step, score) for step, score in points if step <= 0.8 * last]
    if not earlier:
        return 0.0
    best = max if metric.higher_is_better else min
    before, after = best(score for _, score in earlier), best(score for _, score in points[len(earlier) :])
    gain = metric.sign * (after - before) * min(1.0, 0.2 * last / (last - earlier[-1][0]))
    return gain / after if metric.score == "perplexity" else gain


def curves_of(runs: dict[str, RunSettings], data: TaskData, folder: Path) -> Curves:
    """The learning curve of each run, by its name."""
    score = f"validation_{metric_of(data).name}"

    def curve(name: str) -> Curve:
        lines = [line for line in read_metrics(folder / name / "metrics.jsonl") if "validation_loss" in line]
        loss, scores_of_run = ([line[key] for line in lines] for key in ("validation_loss", score))
        return Curve(step=[line["step"] for line in lines], loss=loss, score=scores_of_run)

    return Curves(runs={name: curve(name) for name in runs})


def records_beside(records: Records, curves: Curves) -> dict[str, Record]:
    """The records that are too large for results.json, by file."""
    by_file: dict[str, Record] = {Curves.FILE: curves}
    confusion = {name: record.confusion for name, record in records.items()}
    if all(confusion.values()):
        by_file[Confusion.FILE] = Confusion.model_validate({"runs": confusion})
    return by_file


def _without_paths(settings: dict[str, Any]) -> dict[str, Any]:
    """Files by name alone: results name no folder of the machine."""
    data = {k: Path(v).name if k.endswith(("_file", "_root")) and v else v for k, v in settings["data"].items()}
    who = settings["contenders"]
    cells = [f"{file_of(cell).name}:{canonical_name(cell)}" if is_in_file(cell) else cell for cell in who["cells"]]
    return {**settings, "data": data, "contenders": {**who, "cells": cells}}
