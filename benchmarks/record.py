"""The request of a benchmark and its record bench.json: settings, times, ratios, counts and bars. Reports read nothing
else.
"""

import json
from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from benchmarks.sizes import Shape, Sizes
from gatedrnn.records import Machine, write_whole

FILE = "bench.json"
VERSION = 3
SectionName: TypeAlias = Literal[
    "layers", "scan", "memory", "loops", "step", "length", "training", "peers", "model", "language", "forecast",
    "family", "drop-in", "few-steps",
]  # fmt: skip
DEFAULT: tuple[SectionName, ...] = ("layers", "scan", "memory", "loops", "step", "length")
"""The sections of a default run, which takes under three minutes."""
SECONDS = 60.0


class Request(NamedTuple):
    """The settings of a run."""

    only: tuple[str, ...] = DEFAULT
    """Sections to measure."""
    cells: tuple[str, ...] = ()
    """Cells to measure; empty for the default of each section."""
    shapes: tuple[Shape, ...] = ()
    """Shapes to measure; empty for those of the device."""
    device: str = "cpu"
    seconds: float = SECONDS
    """The time for measurements in a run of all default sections."""
    compile: bool = False
    """Whether whole models are measured under torch.compile too."""


@dataclass(frozen=True)
class Timing:
    """One contender's time for one call, in milliseconds."""

    section: str
    mode: str
    contender: str
    shape: Shape
    median_ms: float
    low_ms: float
    high_ms: float
    times: float
    """The factor of the time: above 1 if only a part of the steps was run."""
    runs: int
    """The number of timings, each the mean of `calls` calls."""
    calls: int
    rate: float | None
    unit: str | None


@dataclass(frozen=True)
class Quotient:
    """The ratio of two contenders' times: median and quartiles over single rounds."""

    section: str
    mode: str
    numerator: str
    denominator: str
    shape: Shape
    """The shape of the numerator, and of the denominator if `denominator_shape` is null."""
    denominator_shape: Shape | None
    ratio: float
    low: float
    high: float
    rounds: int


@dataclass(frozen=True)
class Count:
    """A number that is counted, not timed."""

    section: str
    mode: str
    contender: str
    shape: Shape | None
    value: float
    unit: str


@dataclass(frozen=True)
class Disagreement:
    """A contender that failed the accuracy check and was not timed."""

    section: str
    modes: tuple[str, ...]
    contender: str
    shape: Shape
    what: str
    error: float | None
    allowed: float | None


@dataclass(frozen=True)
class LeftOut:
    """A measurement that was left out, and why."""

    what: str
    why: str


@dataclass
class Findings:
    """All results, in the order of measurement."""

    timings: list[Timing] = field(default_factory=list)
    ratios: list[Quotient] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)
    wrong: list[Disagreement] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def ratio(
        self, section: str, mode: str, numerator: str, denominator: str, shape: Shape, other: Shape | None = None
    ) -> float | None:  # fmt: skip
        """Look up a ratio; None if it was not measured."""
        wanted = (section, mode, numerator, denominator, shape, other)
        keys: Sequence[str] = ("section", "mode", "numerator", "denominator", "shape", "denominator_shape")
        return next((q.ratio for q in self.ratios if tuple(getattr(q, key) for key in keys) == wanted), None)

    def median(self, section: str, mode: str, contender: str) -> float | None:
        """Look up the median milliseconds of a contender; None if it was not timed."""
        wanted = (section, mode, contender)
        return next((t.median_ms for t in self.timings if (t.section, t.mode, t.contender) == wanted), None)

    def largest_ratio(self, section: str, mode: str, numerators: Container[str], denominator: str) -> float | None:
        """Look up the largest ratio over all shapes; None if none was measured."""
        ratios = [
            q.ratio for q in self.ratios
            if (q.section, q.mode, q.denominator) == (section, mode, denominator) and q.numerator in numerators
        ]  # fmt: skip
        return max(ratios, default=None)

    def count(self, section: str, mode: str, contender: str, shape: Shape | None) -> float | None:
        """Look up a count; None if it was not made."""
        wanted = (section, mode, contender, shape)
        return next((c.value for c in self.counts if (c.section, c.mode, c.contender, c.shape) == wanted), None)


@dataclass(frozen=True)
class BarResult:
    """A bar with the measured value; value and verdict are None if it was not measured."""

    device: str
    measure: str
    shape: Shape | None
    at_most: float | None
    at_least: float | None
    value: float | None
    holds: bool | None


@dataclass(frozen=True)
class BenchSettings:
    """The settings of a run."""

    only: tuple[str, ...]
    """Sections that were measured."""
    cells: tuple[str, ...]
    """Cells that were named; empty for the default of each section."""
    device: str
    dtype: str
    seconds: float
    """The time for measurements in a run of all sections."""
    sizes: Sizes


@dataclass(frozen=True)
class Measured:
    """The date and the machine."""

    date: str
    environment: Machine
    threads: int
    gpu: str | None
    """The name of the GPU; None on a CPU."""


@dataclass(frozen=True)
class BenchRecord:
    """The content of bench.json."""

    schema: int
    passed: bool
    """Whether every result passed the accuracy check."""
    command: str
    settings: BenchSettings
    timings: list[Timing]
    ratios: list[Quotient]
    counts: list[Count]
    wrong: list[Disagreement]
    left_out: list[LeftOut]
    bars: list[BarResult]
    measured: Measured

    def write(self, folder: Path) -> Path:
        """Write the file into a folder, which is made if missing, and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / FILE
        write_whole(path, json.dumps(asdict(self), indent=1))
        return path
