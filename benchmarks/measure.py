"""Measurements of contenders: each is checked against its formula in float64, and all that pass are timed in turn."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import torch

from benchmarks.contenders import Contender, Deviation, deviations
from benchmarks.record import Disagreement, Findings, LeftOut, Quotient, Timing
from benchmarks.sizes import Shape
from gatedrnn.timing import Action, Samples, interleave, ratio_of
from gatedrnn.verify.tolerances import TOLERANCES

ContenderT = TypeVar("ContenderT", bound=Contender)
DRAWS = 3
"""The number of draws of weights and batches on which a model may pass: where rounding moves a number across g's kink,
the gradients are not those of float64, and another draw is tried."""


class Wrong(NamedTuple):
    """A disagreement with the expected results; without numbers if there was none to compare."""

    what: str
    error: float | None = None
    allowed: float | None = None


def disagreement(contender: Contender, backward: bool = True, forward: bool = True) -> Wrong | None:
    """Find the first output or gradient whose error exceeds the table of tolerances; None if all agree.

    Args:
        backward, forward: as `deviations` has them.
    """
    if contender.in_float64 is not None:
        wrong = disagreement(contender.in_float64, backward, forward)
        if wrong is not None:
            return wrong._replace(what=f"in float64, {wrong.what}")
    try:
        found = deviations(contender, backward, forward)
        return next(filter(None, (judged(each, contender.precision, contender.slack) for each in found)), None)
    except Exception as error:  # of any class: others are still measured, and the exit code reports it
        return Wrong(f"raised {type(error).__name__}: {' '.join(str(error).split())}")


def judged(found: Deviation, precision: torch.dtype | str, slack: tuple[float, float] = (0.0, 0.0)) -> Wrong | None:
    """Compare a deviation with the table of tolerances; None if it is allowed."""
    if found.error is None:
        return Wrong(found.what)
    fraction = max(TOLERANCES[precision][found.gradient], slack[found.gradient])
    allowed = fraction * max(1.0, found.largest)
    return None if found.error <= allowed else Wrong(found.what, found.error, allowed)


def first_right(draw: Callable[[int], ContenderT]) -> ContenderT:
    """Return the contender of the first draw that passes the accuracy check; of the last if none does."""
    for number in range(DRAWS - 1):
        contender = draw(number)
        if disagreement(contender, forward=False) is None:
            return contender
    return draw(DRAWS - 1)


Key = tuple[str, Shape]
OnStep = Callable[[str], None]
"""A function that reports the present measurement."""


class Mode(NamedTuple):
    """A timed action of contenders: forward alone, forward and backward, a step."""

    name: str
    action: Callable[[Contender], Action]
    backward: bool
    """Whether it computes gradients, which the check then compares too."""
    part: float = 1.0
    """The weight of its time among the modes of a comparison."""


FORWARD = Mode("forward", lambda contender: contender.forward, backward=False)
BOTH = Mode("forward+backward", lambda contender: contender.forward_backward, backward=True, part=5.0)


@dataclass
class Bench:
    """The state shared by all sections: the device, the findings, and the reporter of progress."""

    device: str = "cpu"
    findings: Findings = field(default_factory=Findings)
    on_step: OnStep = lambda _: None
    compile: bool = False
    """Whether whole models are measured under torch.compile too."""

    def compare(
        self, section: str, contenders: Iterable[Contender], pairs: Sequence[tuple[str, str]], modes: Sequence[Mode],
        seconds: float, across: Sequence[tuple[Key, Key]] = (),
    ) -> None:  # fmt: skip
        """Time contenders in turn and take ratios.

        Args:
            pairs: names of numerators and denominators of each shape; those that are missing, or failed the check, are
                left out.
            across: pairs of contenders of different shapes.
            seconds: the time for all modes together.
        """
        right = [contender for contender in contenders if self._passes(section, contender, modes)]
        for contender in right:
            contender.expected.forget()
        total = sum(mode.part for mode in modes)
        for mode in modes:
            actions = {(c.name, c.setting.shape): mode.action(c) for c in right}
            self.on_step(f"{section}: {mode.name}, {len(actions)} in turn")
            taken = interleave(actions, seconds * mode.part / total, self._synchronize())
            samples = {key: taken[key].times(c.times) for key, c in zip(actions, right, strict=True)}
            self.add(section, mode.name, right, samples, pairs)
            for numerator, denominator in across:
                self.ratio(section, mode.name, samples, numerator, denominator)

    def add(
        self, section: str, mode: str, contenders: Sequence[Contender], samples: Mapping[Key, Samples],
        pairs: Sequence[tuple[str, str]],
    ) -> None:  # fmt: skip
        """Add rows from samples."""
        for contender in contenders:
            key = (contender.name, contender.setting.shape)
            taken, (amount, unit) = samples[key], contender.work or (None, None)
            spread = taken.spread
            self.findings.timings.append(
                Timing(
                    section, mode, *key, median_ms=1000 * spread.median, low_ms=1000 * spread.low,
                    high_ms=1000 * spread.high, times=contender.times, runs=len(taken.seconds), calls=taken.calls,
                    rate=None if amount is None else amount / spread.median, unit=unit,
                )
            )  # fmt: skip
        for shape in dict.fromkeys(contender.setting.shape for contender in contenders):
            for pair in pairs:
                self.ratio(section, mode, samples, *((name, shape) for name in pair))

    def ratio(self, section: str, mode: str, samples: Mapping[Key, Samples], numerator: Key, denominator: Key) -> None:
        """Add the ratio of two contenders, if both were measured."""
        if numerator not in samples or denominator not in samples:
            return
        other = None if denominator[1] == numerator[1] else denominator[1]
        ratio = ratio_of(samples[numerator], samples[denominator])
        self.findings.ratios.append(Quotient(section, mode, numerator[0], denominator[0], numerator[1], other, *ratio))

    def leave_out(self, what: str, why: str) -> None:
        """Record a measurement that is left out."""
        self.findings.left_out.append(LeftOut(what, why))

    def _passes(self, section: str, contender: Contender, modes: Sequence[Mode]) -> bool:
        self.on_step(f"{section}: checking {contender.name}")
        backward = any(mode.backward for mode in modes)
        wrong = disagreement(contender, backward=backward, forward=not all(mode.backward for mode in modes))
        if wrong is not None:
            names = tuple(mode.name for mode in modes)
            where = (section, names, contender.name, contender.setting.shape)
            self.findings.wrong.append(Disagreement(*where, *wrong))
        return wrong is None

    def _synchronize(self) -> Action | None:
        return torch.cuda.synchronize if self.device == "cuda" else None


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Set the number of torch's threads and ours inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
