"""bench.json: what was asked for, and the rows that were found: times, ratios, counts, bars. Reports read nothing else.

Dataclasses, since `gatedrnn bench` works without the extra `train`, and so without pydantic.
"""

import json
from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self, TypeAlias

from gatedrnn.records import Machine, write_whole

FILE = "bench.json"
VERSION = 3
Shape: TypeAlias = tuple[int, int, int]
"""(batch, time, width); input and state have the same width."""


@dataclass(frozen=True)
class Sizes:
    """What is measured at which size. Shapes are (batch, time, width)."""

    layers: tuple[Shape, ...] = ((8, 1024, 256), (2, 4096, 256), (64, 64, 128), (32, 512, 64))
    autocast: tuple[Shape, ...] = ((8, 1024, 256),)
    scan: tuple[Shape, ...] = ((8, 1024, 256), (1, 65536, 256))
    memory: tuple[Shape, ...] = ((8, 1024, 256),)
    loops: tuple[Shape, ...] = ((8, 512, 256), (32, 128, 256))
    step_widths: tuple[int, ...] = (256, 1024)
    lengths: tuple[int, ...] = (64, 256, 1024, 4096, 16384, 65536)
    """Steps of one sequence."""
    loop_lengths: int = 4096
    """The longest sequence of loop cells."""
    length_width: int = 256
    words: int = 33_278
    """The vocabulary of WikiText-2."""
    training_scale: int = 1
    """By what the sizes of the standard models are divided."""
    copied: int = 1 << 24
    """Numbers of the arrays whose sum says how fast memory is."""

    def at(self, shapes: tuple[Shape, ...]) -> Self:
        """The same with other shapes wherever there are any."""
        other: dict[str, Any] = {field.name: shapes for field in fields(self) if field.type == tuple[Shape, ...]}
        return replace(self, **other)


SIZES = {
    "cpu": Sizes(),
    "cuda": Sizes(
        layers=((64, 512, 256), (64, 4096, 256)),
        autocast=((64, 4096, 256),),
        scan=((16, 4096, 1024),),
        memory=((64, 4096, 256),),
        loops=((64, 512, 256),),
    ),
}
"""By device."""


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
    """What the time was multiplied by: above 1 where only a part of the steps was run."""
    runs: int
    """Timings taken; each the mean of so many calls."""
    calls: int
    rate: float | None
    unit: str | None


@dataclass(frozen=True)
class Quotient:
    """How many times as long the first takes as the second: median and quartiles of the ratios of single rounds."""

    section: str
    mode: str
    numerator: str
    denominator: str
    shape: Shape
    """Of the numerator, and of the denominator if that is not said."""
    denominator_shape: Shape | None
    ratio: float
    low: float
    high: float
    rounds: int


@dataclass(frozen=True)
class Count:
    """Something that is counted and not timed."""

    section: str
    mode: str
    contender: str
    shape: Shape | None
    value: float
    unit: str


@dataclass(frozen=True)
class Disagreement:
    """A contender that failed the accuracy check, and so has no time in any mode."""

    section: str
    modes: tuple[str, ...]
    contender: str
    shape: Shape
    what: str
    error: float | None
    allowed: float | None


@dataclass(frozen=True)
class LeftOut:
    """What was not measured, and why."""

    what: str
    why: str


@dataclass
class Findings:
    """All of it, in the order in which it was found."""

    timings: list[Timing] = field(default_factory=list)
    ratios: list[Quotient] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)
    wrong: list[Disagreement] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def ratio(
        self, section: str, mode: str, numerator: str, denominator: str, shape: Shape, other: Shape | None = None
    ) -> float | None:  # fmt: skip
        """A ratio that was measured; None if it was not."""
        wanted = (section, mode, numerator, denominator, shape, other)
        keys: Sequence[str] = ("section", "mode", "numerator", "denominator", "shape", "denominator_shape")
        return next((q.ratio for q in self.ratios if tuple(getattr(q, key) for key in keys) == wanted), None)

    def median(self, section: str, mode: str, contender: str) -> float | None:
        """Milliseconds of a contender; None if it was not timed."""
        wanted = (section, mode, contender)
        return next((t.median_ms for t in self.timings if (t.section, t.mode, t.contender) == wanted), None)

    def largest_ratio(self, section: str, mode: str, numerators: Container[str], denominator: str) -> float | None:
        """Of all that were measured, over all shapes; None if there was none."""
        found = [
            q.ratio for q in self.ratios
            if (q.section, q.mode, q.denominator) == (section, mode, denominator) and q.numerator in numerators
        ]  # fmt: skip
        return max(found, default=None)

    def count(self, section: str, mode: str, contender: str, shape: Shape | None) -> float | None:
        """A number that was counted; None if it was not."""
        wanted = (section, mode, contender, shape)
        return next((c.value for c in self.counts if (c.section, c.mode, c.contender, c.shape) == wanted), None)


@dataclass(frozen=True)
class Judged:
    """A bar beside what was found: value and verdict are None where it was not measured."""

    device: str
    measure: str
    shape: Shape | None
    at_most: float | None
    at_least: float | None
    value: float | None
    holds: bool | None


@dataclass(frozen=True)
class Asked:
    """What a run was asked to measure."""

    only: tuple[str, ...]
    """Sections."""
    cells: tuple[str, ...]
    """None of them for the default of each section."""
    device: str
    dtype: str
    seconds: float
    """For measuring, in a run of all sections."""
    sizes: Sizes


@dataclass(frozen=True)
class Measured:
    """When and where."""

    date: str
    environment: Machine
    threads: int
    gpu: str | None
    """Its name; None on a CPU."""


@dataclass(frozen=True)
class BenchRecord:
    """bench.json."""

    schema: int
    passed: bool
    """Whether every result passed the accuracy check."""
    command: str
    settings: Asked
    timings: list[Timing]
    ratios: list[Quotient]
    counts: list[Count]
    wrong: list[Disagreement]
    left_out: list[LeftOut]
    bars: list[Judged]
    measured: Measured

    def write(self, folder: Path) -> Path:
        """Write the file into a folder, which is made if it is missing; its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / FILE
        write_whole(path, json.dumps(asdict(self), indent=1))
        return path
