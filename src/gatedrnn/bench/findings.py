"""What a run found, as plain rows: times, ratios, counts, what was wrong and what was left out."""

from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass, field

from gatedrnn.bench.contenders import Shape


@dataclass(frozen=True)
class Timing:
    """One contender's time for one call, in milliseconds."""

    section: str
    way: str
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
    """How many times as long the first takes as the second: a ratio of medians, and quartiles over shared rounds."""

    section: str
    way: str
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
    way: str
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

    def as_record(self) -> dict[str, list[dict[str, object]]]:
        """The rows as JSON has them."""
        return {name: [asdict(row) for row in rows] for name, rows in vars(self).items()}

    def ratio(
        self, section: str, way: str, numerator: str, denominator: str, shape: Shape, other: Shape | None = None
    ) -> float | None:  # fmt: skip
        """A ratio that was measured; None if it was not."""
        wanted = (section, way, numerator, denominator, shape, other)
        keys: Sequence[str] = ("section", "way", "numerator", "denominator", "shape", "denominator_shape")
        return next((q.ratio for q in self.ratios if tuple(getattr(q, key) for key in keys) == wanted), None)

    def largest_ratio(self, section: str, way: str, numerators: Container[str], denominator: str) -> float | None:
        """Of all that were measured, over all shapes; None if there was none."""
        found = [
            q.ratio for q in self.ratios
            if (q.section, q.way, q.denominator) == (section, way, denominator) and q.numerator in numerators
        ]  # fmt: skip
        return max(found, default=None)

    def count(self, section: str, way: str, contender: str, shape: Shape | None) -> float | None:
        """A number that was counted; None if it was not."""
        wanted = (section, way, contender, shape)
        return next((c.value for c in self.counts if (c.section, c.way, c.contender, c.shape) == wanted), None)
