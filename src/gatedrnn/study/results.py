"""The records of a study: results.json, probes.json, and the larger ones in files of their own."""

import math
from pathlib import Path
from typing import ClassVar, Literal, TypeVar

from pydantic import ConfigDict, Field, JsonValue

from gatedrnn.kinds.kind import Tracking
from gatedrnn.models.structure import Parameters, Structure
from gatedrnn.records import Machine
from gatedrnn.study.statistics import Estimate, Pair
from gatedrnn.training.result import Metric, Record, RunMeasured, RunScores, Scores, read_record


class Beside(Record):
    """One of these files."""

    FILE: ClassVar[str]


AnyBeside = TypeVar("AnyBeside", bound=Beside)


class Curve(Record):
    """Validation of one run while it trained; one entry of each list per validation."""

    step: list[int]
    loss: list[float]
    score: list[float]


class Curves(Beside):
    """curves.json.gz: the learning curve of each run."""

    FILE: ClassVar[str] = "curves.json.gz"

    runs: dict[str, Curve]
    """The curves by the name of the run."""


class Confusion(Beside):
    """confusion.json.gz: the confusion tables of each run of a classifier."""

    FILE: ClassVar[str] = "confusion.json.gz"

    runs: dict[str, dict[str, list[list[int]]]]
    """The confusion matrices by the name of the run and by split; rows are true classes, columns predicted ones."""


class Trial(Record):
    """One trial of a search."""

    contender: str
    number: int
    values: dict[str, bool | int | float | str]
    """The values of the settings that were searched."""
    score: float | None
    """The score on the validation split; None where the loss became NaN or infinite."""
    loss: float | None
    seconds: float | None
    """The seconds of training; None where the loss became NaN or infinite, and in results.json."""


class Trials(Beside):
    """trials.json.gz: every trial of a search."""

    FILE: ClassVar[str] = "trials.json.gz"

    trials: list[Trial]


def beside(folder: Path, kind: type[AnyBeside]) -> AnyBeside | None:
    """A record beside results.json; None if it is missing.

    Raises:
        Damaged: it is there and cannot be read.
    """
    return read_record(folder / kind.FILE, kind) if (folder / kind.FILE).exists() else None


Match = Literal["baseline", "layers", "params", "multiply-adds", "time"]


def run_name(contender: str, seed: int) -> str:
    """The name of a run, which is also its folder in the study's."""
    return f"{contender}/seed-{seed}"


class ContendersAsked(Record):
    """The cells that were compared, and how they were matched."""

    ladder: str | None = None
    cells: list[str]
    """The cells as on the command line, with their options; the first is the baseline."""
    match: list[Match]
    hidden_size: int
    core: int | None = None
    train_minutes: float | None = None
    seeds: list[int]
    recipes: bool = False


class ComparisonAsked(Record):
    """The settings of a comparison, as they were when it ran."""

    contenders: ContendersAsked
    search: dict[str, JsonValue] | None = None
    threads: int
    data: dict[str, JsonValue]
    model: dict[str, JsonValue]
    train: dict[str, JsonValue]


class Source(Record):
    """A file or a data set that was read; without any path."""

    model_config = ConfigDict(extra="allow")

    name: str
    rows: int | str
    """Rows, or how they are drawn."""
    sha256: str | None = None
    split: str | None = None


class Data(Record):
    """The data that all contenders were trained and tested on."""

    sources: list[Source]
    label_names: list[str]
    notes: list[str]
    examples: dict[str, int]
    """The number of examples by split: scores are means over them, and another test split would have others."""
    unit: str
    """The name of an example: "example", "document", "block of 279 tokens", "series", "block of 48 steps"."""


class ContenderResults(Record):
    """A contender, with its runs and what they show."""

    name: str
    """The name of the contender, and of the folder of its runs."""
    cell: str
    match: Match
    structure: Structure
    parameters: Parameters
    core_mismatch: float
    """Core parameters over the count to match, minus one."""
    runs: list[RunScores]
    scores: dict[str, Estimate]
    """The scores by split."""
    step_above: str | None = None
    """The contender in a ladder that this one is compared with; None for its first step."""
    still_improving: int = 0
    """Runs whose validation score improved by more than the margin in the last fifth of their steps."""


class PlainScores(Record):
    """A baseline without a recurrent network, such as a linear classifier of texts."""

    name: str
    parameters: int | None
    """Weights, leaves or n-grams; None where it has none."""
    scores: dict[str, Estimate]
    """The scores by split."""
    further: dict[str, Scores] = {}
    """All scores of a forecast by split."""


class PlainFit(Record):
    """An entry of plain.json in a comparison's folder; what it answered stands in plain.npz."""

    name: str
    parameters: int | None
    seconds: float
    further: dict[str, Scores] = {}
    """All scores of a forecast by split."""


class Baseline(Record):
    """The contender that the others are compared with."""

    contender: str
    plain: list[PlainScores]
    """The task's own, without a recurrent network."""


class Speed(Record):
    """Training tokens a second: the median over timings, and its quartiles."""

    median: float
    low: float
    high: float
    timings: int


class Measured(Record):
    """When, where and how long."""

    wall_seconds: float | None = None
    """The seconds of the whole study; None if it was run in several calls."""
    on: str = "local"
    """The place where the runs ran, as `--on` names it."""
    jobs: int | None
    """Runs at a time; None for as many as a cluster ran."""
    command: str
    date: str
    environment: Machine


class ComparisonMeasured(Measured):
    """The measurements that differ between two equal comparisons."""

    runs: dict[str, RunMeasured]
    plain_seconds: dict[str, float]
    """The seconds of fitting each plain baseline."""
    memory_mib: dict[str, float | None] | None
    """The memory that training a contender adds to a process; None where it was not measured."""
    speed: dict[str, Speed]
    trial_seconds: dict[str, float] | None = None
    """The mean seconds of training for a trial of each contender; None without a search."""
    runs_on: dict[str, str]
    """The execution path of each contender's recurrent layers in training."""


class TuningCurve(Record):
    """The best validation score after 1, 2, … trials: its median, and bands that hold at all numbers at once (95 %).

    A bound is None where there is none.
    """

    median: list[float | None]
    low: list[float | None]
    high: list[float | None]


class SearchResults(Record):
    """A search for the settings of each contender. It read no test split."""

    trials: int
    """The number of trials of each contender."""
    asked: int
    """The number of trials that were asked for; there are fewer where the minutes ended."""
    seed: int
    minutes: float | None
    """The minutes in which new rounds began."""
    spaces: dict[str, dict[str, str]]
    """The space of each setting in words, by contender."""
    best: dict[str, Trial]
    """The best trial of each contender; its runs have these settings."""
    edges: dict[str, dict[str, Literal["lowest", "highest"]]]
    """The settings of each contender whose best value lies at an end of its space."""
    curves: dict[str, TuningCurve]


class ComparisonResults(Record):
    """results.json: settings, per-run scores, and what they show."""

    FILE: ClassVar[str] = "results.json"
    VERSION: ClassVar[int] = 6

    version: int = Field(VERSION, alias="schema")
    task: str
    metric: Metric
    settings: ComparisonAsked
    data: Data
    contenders: list[ContenderResults]
    """The baseline first."""
    baseline: Baseline
    margin: float
    """The largest difference that does not matter, in units of `Pair.difference`."""
    pairs: list[Pair]
    """Every contender and plain baseline against every later one."""
    rivals: list[str]
    """The contenders that may be better than the best on test by more than the margin, the best of them first: where
    there is none, at most one comparison in twenty has a better one."""
    classes: dict[str, Tracking] = {}
    """The class of what each cell can track, by cell; empty in a file from before it was recorded."""
    search: SearchResults | None = None
    """The search for the settings of each contender; None where all have one recipe."""
    measured: ComparisonMeasured

    def pair(self, contender: str, other: str) -> Pair:
        """The first against the second, whichever way round it is kept."""
        for pair in self.pairs:
            if (pair.contender, pair.other) == (contender, other):
                return pair
            if (pair.other, pair.contender) == (contender, other):
                return pair.turned(self.metric.score)
        raise KeyError(f"{contender}, {other}")

    def contender(self, name: str) -> ContenderResults:
        """The one of that name."""
        return next(row for row in self.contenders if row.name == name)

    def ranked(self) -> list["ContenderResults | PlainScores"]:
        """Contenders and plain baselines, the best on test first; equal ones in this order, as in `rivals`."""
        everyone: list[ContenderResults | PlainScores] = [*self.contenders, *self.baseline.plain]
        means = {row.name: row.scores["test"].mean for row in everyone}
        return sorted(everyone, key=lambda row: (math.isnan(means[row.name]), -self.metric.sign * means[row.name]))

    def best_on_validation(self) -> ContenderResults:
        """The contender with the best mean validation score: the one to choose before the test."""
        return max(self.contenders, key=lambda row: self.metric.sign * row.scores["validation"].mean)

    def best_plain(self) -> PlainScores:
        """The plain baseline with the best validation score."""
        return max(self.baseline.plain, key=lambda plain: self.metric.sign * plain.scores["validation"].mean)

    def seconds(self, name: str) -> float:
        """The seconds of training a contender, or of fitting a plain baseline."""
        fitted = self.measured.plain_seconds.get(name)
        return self.training_seconds(self.contender(name)) if fitted is None else fitted

    def training_seconds(self, row: ContenderResults) -> float:
        """The seconds of a run, in the mean over seeds: its tokens at the speed that was measured with contenders in
        turn. What runs took while others ran beside them is in `measured.runs`.
        """
        runs = [self.measured.runs[run_name(row.name, run.seed)] for run in row.runs]
        tokens = [(run.tokens_per_second or 0.0) * run.training_seconds for run in runs]
        return sum(tokens) / len(tokens) / self.measured.speed[row.name].median


class ProbesAsked(Record):
    """The settings of a suite of probes, as they were when it ran."""

    cells: list[str]
    tasks: list[str]
    seeds: list[int]
    lengths: list[int]
    threads: int


class CellAnswers(Record):
    """One cell on one task."""

    hidden_size: int
    core: int
    """Recurrent parameters."""
    accuracy: dict[int, dict[int, float]]
    """The accuracy by seed and by length."""
    tokens_per_second: float
    """The tokens per second of training."""


class TaskAnswers(Record):
    """All cells on one task."""

    asks: str
    """The quantity that a cell must track."""
    source: str
    chance: float
    trained_at: int
    """The training length."""
    core: int
    """Recurrent parameters that every cell is matched to."""
    rows: dict[int, int]
    """The rows of the test at each length."""
    labels: dict[int, int]
    """The labels in all of these rows, by length."""
    cells: dict[str, CellAnswers]


class ProbeResults(Record):
    """probes.json: the accuracies of all cells on all tasks."""

    FILE: ClassVar[str] = "probes.json"
    VERSION: ClassVar[int] = 2

    version: int = Field(VERSION, alias="schema")
    settings: ProbesAsked
    tasks: dict[str, TaskAnswers]
    classes: dict[str, Tracking] = {}
    """The class of what each cell can track, by cell; empty in a file from before it was recorded."""
    measured: Measured
