"""The records of a study: results.json, probes.json and the files beside them. Reports read nothing else."""

from pathlib import Path
from typing import ClassVar, Literal, TypeVar

from pydantic import AliasChoices, ConfigDict, Field, JsonValue

from gatedrnn.inspect.tracking import Tracking
from gatedrnn.records import Machine
from gatedrnn.study.statistics import Estimate
from gatedrnn.train.result import Documents, Record, RunMeasured, RunScores, read_record

Match = Literal["baseline", "layers", "params"]


def run_name(contender: str, seed: int) -> str:
    """The name of a run, which is also its folder in the study's."""
    return f"{contender}/seed-{seed}"


class Metric(Record):
    """The score that contenders are compared by."""

    name: Literal["accuracy", "perplexity"]
    higher_is_better: bool


class ContendersAsked(Record):
    """Which cells were compared, and how they were matched."""

    ladder: str | None = None
    cells: list[str]
    """As on the command line, with their options; the first is the baseline."""
    match: list[Literal["layers", "params"]]
    hidden_size: int
    core: int | None = None
    seeds: list[int]


class ComparisonAsked(Record):
    """The settings of a comparison, as they were when it ran."""

    contenders: ContendersAsked
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
    """What all contenders were trained and tested on."""

    sources: list[Source]
    label_names: list[str]
    notes: list[str]
    rows: dict[str, int]
    """By split, where a score is a share of rows."""


class Initialisation(Record):
    """The schemes of a contender's initial weights and biases."""

    weights: str
    biases: str


class Structure(Record):
    """Layers, widths and gates of a contender."""

    cell: str
    options: dict[str, JsonValue]
    layers: int
    bidirectional: bool
    hidden_size: int
    embedding_size: int
    gates: list[str]
    reads_state: bool
    initialisation: Initialisation = Field(validation_alias=AliasChoices("initialisation", "initial_values"))
    block: bool
    pooling: str
    state_size: int
    """Elements of the state of one sequence, all layers together."""
    multiply_adds_per_step: int
    """Of matrix products, per step of one sequence, the head left out."""


class Parameters(Record):
    """Trained parameters by part; the core is the cells with their output projections."""

    embedding: int
    core: int
    block: int
    head: int
    total: int


class StepAbove(Record):
    """A step of a ladder against the one above it."""

    contender: str
    difference: Estimate
    """Test score of the step less that of the one above."""


class ContenderResults(Record):
    """A contender, with its runs and what they show."""

    name: str
    """Also the folder of its runs."""
    cell: str
    match: Match
    structure: Structure
    parameters: Parameters
    core_mismatch: float = Field(validation_alias=AliasChoices("core_mismatch", "core_residue"))
    """Core parameters over the count to match, minus one."""
    runs: list[RunScores]
    scores: dict[str, Estimate]
    """By split."""
    difference_to_baseline: dict[str, Estimate] | None = None
    """By split; None for the baseline itself, as the next two."""
    over_documents: Estimate | None = None
    """Perplexity over the baseline's, minus one, with an interval over test documents; of language models."""
    step_above: StepAbove | None = None
    """In a ladder; None for its first step too."""
    difference_to_linear: Estimate | None = None
    """On the test split, where there is a linear baseline."""


class LinearScores(Record):
    """A linear classifier of texts."""

    name: str
    parameters: int
    validation_accuracy: float
    test_accuracy: float


class LinearMeasured(Record):
    """What differs when it is fitted again."""

    training_seconds: float


class LinearBaseline(LinearScores):
    """linear.json of a comparison's folder."""

    measured: LinearMeasured


class Baseline(Record):
    """What the others are compared with."""

    contender: str
    linear: LinearScores | None


class Speed(Record):
    """Training tokens a second: the median over timings, and its quartiles."""

    median: float
    low: float
    high: float
    timings: int


class Measured(Record):
    """When, where and how long."""

    wall_seconds: float | None = None
    """Of the whole study; None if it was run in several calls."""
    jobs: int
    """Processes at a time."""
    command: str
    date: str
    environment: Machine


class ComparisonMeasured(Measured):
    """What differs between two equal comparisons."""

    runs: dict[str, RunMeasured]
    linear: LinearMeasured | None
    memory_mib: dict[str, float | None] | None
    """What training a contender adds to a process; None where it was not measured."""
    speed: dict[str, Speed]
    runs_on: dict[str, str]
    """The execution path of each contender's recurrent layers in training."""


class ComparisonResults(Record):
    """results.json: settings, per-run scores, and what they show."""

    FILE: ClassVar[str] = "results.json"
    VERSION: ClassVar[int] = 4

    version: int = Field(VERSION, alias="schema")
    task: str
    metric: Metric
    settings: ComparisonAsked
    data: Data
    contenders: list[ContenderResults]
    """The baseline first."""
    baseline: Baseline
    classes: dict[str, Tracking] = {}
    """What each cell can track, by cell; empty in a file from before it was recorded."""
    measured: ComparisonMeasured


class Beside(Record):
    """A file beside results.json; a study is whole without it, but its report shows less."""

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
    """By the name of the run."""


class Confusion(Beside):
    """confusion.json.gz: the confusion tables of each run of a classifier."""

    FILE: ClassVar[str] = "confusion.json.gz"

    runs: dict[str, dict[str, list[list[int]]]]
    """By the name of the run and by split; rows are true classes, columns predicted ones."""


class DocumentLosses(Beside):
    """documents.json.gz: the losses of each run of a language model by document."""

    FILE: ClassVar[str] = "documents.json.gz"

    runs: dict[str, dict[str, Documents]]
    """By the name of the run and by split."""


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
    """By seed and by length."""
    tokens_per_second: float
    """Of training."""


class TaskAnswers(Record):
    """All cells on one task."""

    asks: str
    """What a cell must track."""
    source: str
    chance: float
    trained_at: int
    """The training length."""
    core: int
    """Recurrent parameters that every cell is matched to."""
    rows: dict[int, int]
    """Of the test at each length."""
    labels: dict[int, int]
    """In all of these rows."""
    cells: dict[str, CellAnswers]


class ProbeResults(Record):
    """probes.json: the accuracies of all cells on all tasks."""

    FILE: ClassVar[str] = "probes.json"
    VERSION: ClassVar[int] = 2

    version: int = Field(VERSION, alias="schema")
    settings: ProbesAsked
    tasks: dict[str, TaskAnswers]
    classes: dict[str, Tracking] = {}
    """What each cell can track, by cell; empty in a file from before it was recorded."""
    measured: Measured


def beside(folder: Path, kind: type[AnyBeside]) -> AnyBeside | None:
    """A record beside results.json; None if it is missing.

    Raises:
        Damaged: it is there and cannot be read.
    """
    return read_record(folder / kind.FILE, kind) if (folder / kind.FILE).exists() else None
