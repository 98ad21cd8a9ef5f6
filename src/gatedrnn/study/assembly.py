"""results.json of a comparison, and the records beside it, out of the results and outcomes of its runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gatedrnn.data import TaskData
from gatedrnn.executors import Records
from gatedrnn.inspect.tracking import tracking
from gatedrnn.models.backbones import BACKBONES
from gatedrnn.registry import CellChoice
from gatedrnn.study.beside import Confusion, Curve, Curves
from gatedrnn.study.ladder import step_above
from gatedrnn.study.match import Contender
from gatedrnn.study.results import (
    Baseline,
    ComparisonAsked,
    ComparisonMeasured,
    ComparisonResults,
    ContenderResults,
    Data,
    Metric,
    PairResults,
    PlainFit,
    PlainScores,
    SearchResults,
    Source,
    run_name,
)
from gatedrnn.study.settings import CompareSettings
from gatedrnn.study.statistics import MARGINS, Sample, Table
from gatedrnn.train.folder import read_metrics
from gatedrnn.train.objective import metric_of
from gatedrnn.train.outcomes import Outcomes
from gatedrnn.train.result import Record, RunResult, RunScores
from gatedrnn.train.settings import RunSettings
from gatedrnn.trust import canonical_name, file_of, is_in_file


def assembled(
    settings: CompareSettings, data: TaskData, compared: list[Contender], records: Records,
    outcomes: Mapping[str, Mapping[str, Outcomes]], plain: list[PlainFit],
    search: SearchResults | None, margin: float | None, measured: ComparisonMeasured,
) -> ComparisonResults:  # fmt: skip
    """Scores, differences and their intervals: the same when the same comparison is run again, but for `measured`.

    Args:
        compared, plain: contenders with their widths, and the plain baselines.
        records: the result of every run, by its name.
        outcomes: of every run and of every plain baseline, by name and split.
        search: for the settings of each contender; None where all have one recipe.
        margin: the largest difference that does not matter; that of `MARGINS` if None.
        measured: what differs from one time to the next.
    """
    ladder, seeds = settings.contenders.ladder, settings.contenders.seeds
    metric = Metric.model_validate(metric_of(data), from_attributes=True)
    fixed = [one.name for one in plain]
    names = [one.name for one in compared] + fixed

    def sample(name: str, split: str) -> Sample:
        runs = [name] if name in fixed else [run_name(name, seed) for seed in seeds]
        own = [outcomes[run][split] for run in runs]
        return Sample(np.array([one.values for one in own]), own[0].counts, metric.score, name in fixed)

    def above(contender: Contender) -> str | None:
        cell = None if ladder is None else step_above(ladder, contender.cell)
        return next((o.name for o in compared if o.cell == cell and o.match in ("baseline", contender.match)), None)

    tables = {split: Table([sample(name, split) for name in names]) for split in data.evaluation}
    scores = {split: table.estimates() for split, table in tables.items()}
    margin = MARGINS[metric.score] if margin is None else margin
    one_run = outcomes[run_name(compared[0].name, seeds[0])]
    return ComparisonResults(
        task=data.name,
        metric=metric,
        settings=ComparisonAsked.model_validate(_without_paths(settings.model_dump(mode="json"))),
        data=Data(
            sources=[Source.model_validate(source) for source in data.sources],
            label_names=list(data.label_names), notes=data.notes,
            examples={split: len(own.counts) for split, own in one_run.items()}, unit=one_run["test"].unit,
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
                scores={split: own[number] for split, own in scores.items()},
                step_above=above(contender),
            )
            for number, contender in enumerate(compared)
        ],
        baseline=Baseline(
            contender=compared[0].name,
            plain=[
                PlainScores(
                    name=one.name, parameters=one.parameters, further=one.further,
                    scores={split: own[len(compared) + number] for split, own in scores.items()},
                )
                for number, one in enumerate(plain)
            ],
        ),
        margin=margin,
        pairs=[
            PairResults(
                contender=names[pair.first], other=names[pair.second], difference=pair.difference, better=pair.better,
                equivalent=pair.equivalent, worse=pair.worse, verdict=pair.verdict, more_seeds=pair.more_seeds,
                more_examples=pair.more_examples,
            )
            for pair in tables["test"].pairs(margin)
        ],
        classes={
            contender.cell: tracking(CellChoice.parse(contender.cell).equations())
            for contender in compared
            if canonical_name(contender.cell) not in BACKBONES
        },
        search=search,
        measured=measured,
    )  # fmt: skip


def _scores_alone(run: RunResult) -> RunScores:
    return RunScores(seed=run.seed, steps=run.steps, best_step=run.best_step, scores=run.scores)


def records_beside(runs: dict[str, RunSettings], records: Records, data: TaskData, folder: Path) -> dict[str, Record]:
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
    return found


def _without_paths(settings: dict[str, Any]) -> dict[str, Any]:
    """Files by name alone: results name no folder of the machine."""
    data = {k: Path(v).name if k.endswith(("_file", "_root")) and v else v for k, v in settings["data"].items()}
    who = settings["contenders"]
    cells = [f"{file_of(cell).name}:{canonical_name(cell)}" if is_in_file(cell) else cell for cell in who["cells"]]
    return {**settings, "data": data, "contenders": {**who, "cells": cells}}
