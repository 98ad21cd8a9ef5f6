"""A search for the settings of each contender: the same number of random trials for all, judged on validation alone."""

import json
import math
import time
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from opda.nonparametric import EmpiricalDistribution
from pydantic import TypeAdapter, ValidationError

from gatedrnn import manifest
from gatedrnn.data import TaskData
from gatedrnn.errors import Damaged, NonFiniteLoss
from gatedrnn.executors import Executor, OnProgress, Records
from gatedrnn.progress import Progress
from gatedrnn.records import read_json, write_whole
from gatedrnn.study.results import SearchResults, Trial, TuningCurve
from gatedrnn.study.settings import FIRST_SEED, SearchSettings
from gatedrnn.study.space import Dimension, Draw, Edge, draw
from gatedrnn.study.statistics import BOUNDS, HIGHER_IS_BETTER
from gatedrnn.training.objective import metric_of
from gatedrnn.training.result import Score
from gatedrnn.training.settings import RunSettings

FOLDER, ELAPSED = "trials", "search.json"
SECONDS = TypeAdapter(list[float])
_CONFIDENCE = 0.95
"""The confidence of the bands of a tuning curve, at all numbers of trials at once."""


class Search:
    """The trials of all contenders in a comparison's folder.

    Args:
        settings: how many trials, from which space.
        bases: a run of each contender with its widths, by the contender's name; its seed does not matter.
        data: what they train on.
        folder: of the comparison.
    """

    def __init__(
        self, settings: SearchSettings, bases: Mapping[str, RunSettings], data: TaskData, folder: Path
    ) -> None:  # fmt: skip
        self.settings, self.bases, self.data, self.folder = settings, bases, data, folder
        self.metric = metric_of(data)
        self.draws = {
            name: [self._draw(base, trial) for trial in range(settings.trials)] for name, base in bases.items()
        }

    def _draw(self, base: RunSettings, trial: int) -> Draw:
        seed = FIRST_SEED + self.settings.trials * self.settings.seed + trial
        settings = draw(self.settings.space, base, self.settings.seed, trial)
        return settings._replace(run=settings.run.model_copy(update={"seed": seed, "trial": True}))

    def run(self, executor: Executor, on_progress: OnProgress) -> list[Trial]:
        """Run what is not finished, round after round: one trial of every contender.

        No new round begins after the minutes that were given; what an earlier call took counts.

        Raises:
            NonFiniteLoss: every trial of a contender diverged.
        """
        rounds, limit = self.settings.trials, self.settings.minutes
        if limit is None:
            records = executor.run_all(self._runs(range(rounds)), self.folder, on_progress).records
        else:
            records, rounds = self._until(60 * limit, executor, on_progress)
        trials = [
            self._trial(name, trial, records.get(self._place(name, trial)) is not None, records)
            for name in self.bases
            for trial in range(rounds)
        ]
        for name in self.bases:
            if all(ended.score is None for ended in trials if ended.contender == name):
                raise NonFiniteLoss(f"{name}: the loss of every trial became NaN or infinite; give a narrower --space")
        return trials

    def _until(self, seconds: float, executor: Executor, on_progress: OnProgress) -> tuple[Records, int]:
        """All trials of the rounds that begin within so many seconds, and how many these are."""
        path, records = self.folder / ELAPSED, Records()
        elapsed = self._elapsed(path)
        for round_ in range(self.settings.trials):
            if len(elapsed) == round_ and sum(elapsed) >= seconds:
                return records, round_
            started, done = time.perf_counter(), len(records)

            def tell(name: str, progress: Progress | None, finished: int, runs: int, done: int = done) -> None:
                on_progress(name, progress, done + finished, self.settings.trials * len(self.bases))

            records |= executor.run_all(self._runs(range(round_, round_ + 1)), self.folder, tell).records
            if len(elapsed) == round_:
                elapsed.append(time.perf_counter() - started)
                write_whole(path, json.dumps(elapsed))
                manifest.add(self.folder, path.name)
        return records, self.settings.trials

    @staticmethod
    def _elapsed(path: Path) -> list[float]:
        """The seconds of each round that has ended."""
        if not path.exists():
            return []
        try:
            return SECONDS.validate_python(read_json(path))
        except ValidationError as error:
            fault = error.errors()[0]["msg"]
            raise Damaged(f"{path}: is damaged ({fault}); remove it to count the minutes anew") from error

    def _place(self, name: str, trial: int) -> str:
        return f"{FOLDER}/{name}/trial-{trial}"

    def _runs(self, rounds: range) -> dict[str, RunSettings]:
        return {self._place(name, trial): self.draws[name][trial].run for trial in rounds for name in self.bases}

    def _trial(self, name: str, trial: int, finished: bool, records: Records) -> Trial:
        values = self.draws[name][trial].values
        if not finished:
            return Trial(contender=name, number=trial, values=values, score=None, loss=None, seconds=None)
        record = records[self._place(name, trial)]
        scores = record.scores["validation"]
        return Trial(
            contender=name, number=trial, values=values, score=record.score("validation", self.metric.name),
            loss=scores.loss, seconds=record.measured.training_seconds,
        )  # fmt: skip

    def best(self, trials: list[Trial], name: str) -> Trial:
        """The trial of a contender with the best validation score; of equal ones that with the lowest loss."""
        finished = [trial for trial in trials if trial.contender == name and trial.score is not None]
        return max(
            finished, key=lambda trial: (self.metric.sign * (trial.score or 0.0), -(trial.loss or 0.0), -trial.number)
        )

    def results(self, trials: list[Trial]) -> SearchResults:
        """The results of the search, for the record."""
        spaces = {name: self.settings.space.of(base) for name, base in self.bases.items()}
        best = {name: self.best(trials, name) for name in self.bases}
        return SearchResults(
            trials=len(trials) // len(self.bases), asked=self.settings.trials, seed=self.settings.seed,
            minutes=self.settings.minutes,
            spaces={name: {key: str(dimension) for key, dimension in space.items()} for name, space in spaces.items()},
            # Seconds are not what was found: two equal searches differ in them.
            best={name: trial.model_copy(update={"seconds": None}) for name, trial in best.items()},
            edges={name: _edges(spaces[name], trial) for name, trial in best.items()},
            curves={
                name: tuning_curve([trial.score for trial in trials if trial.contender == name], self.metric.score)
                for name in self.bases
            },
        )  # fmt: skip


def mean_seconds(trials: list[Trial]) -> dict[str, float]:
    """The mean seconds of training by contender; trials that diverged do not count."""
    by_contender: dict[str, list[float]] = {}
    for trial in trials:
        if trial.seconds is not None:
            by_contender.setdefault(trial.contender, []).append(trial.seconds)
    return {name: sum(seconds) / len(seconds) for name, seconds in by_contender.items()}


def _edges(space: dict[str, Dimension], best: Trial) -> dict[str, Edge]:
    edges = {name: space[name].edge(value) for name, value in best.values.items()}
    return {name: edge for name, edge in edges.items() if edge is not None}


def tuning_curve(scores: list[float | None], score: Score) -> TuningCurve:
    """The median of the best score after 1, 2, … trials, with simultaneous bands.

    A trial that diverged counts as the worst there can be. The bands are exact for scores without ties, and wider than
    they need to be with them; they hold for independent draws, as a random search makes them.

    Reference: Lourie, Cho and He 2023, arXiv:2311.09480.

    Args:
        scores: of each trial.
        score: what they are.
    """
    higher_is_better, (low, high) = score in HIGHER_IS_BETTER, BOUNDS[score]
    worst = low if higher_is_better else high
    values = np.array([worst if score is None else score for score in scores])
    with warnings.catch_warnings():  # it says what the docstring says of ties
        warnings.simplefilter("ignore", RuntimeWarning)
        below, middle, above = EmpiricalDistribution.confidence_bands(
            values,
            _CONFIDENCE,
            a=low,
            b=high,
            method="ld_equal_tailed",
            generator=np.random.default_rng(0),
            n_jobs=1,  # its pool of forks can wait for ever in a process with threads
        )
    numbers = np.arange(1, len(values) + 1)
    # The upper band of the distribution is the lower one of the curve.
    ends, median = (
        [curve.quantile_tuning_curve(numbers, minimize=not higher_is_better).tolist() for curve in (above, below)],
        middle.quantile_tuning_curve(numbers, minimize=not higher_is_better).tolist(),
    )
    return TuningCurve(median=_finite(median), low=_finite(ends[0]), high=_finite(ends[1]))


def _finite(values: list[float]) -> list[float | None]:
    """The values as JSON has them: None where there is no bound."""
    return [value if math.isfinite(value) else None for value in values]
