"""Measurements of contenders: each is checked against its formula in float64, and all that pass are timed in turn."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from gatedrnn.benchmarking.record import Disagreement, Findings, LeftOut, Quotient, Shape, Timing
from gatedrnn.shapes import Series
from gatedrnn.timing import Action, Samples, interleave, ratio_of
from gatedrnn.verify.tolerances import Tolerance, allowed_error, largest_error

Leaves: TypeAlias = Mapping[str, Tensor]
"""Tensors by the names of parameters and inputs."""
Formula: TypeAlias = Callable[[Leaves], list[Tensor]]
"""A function from the leaves in float64 to the outputs."""

NO_SLACK = Tolerance(0.0, 0.0)


class Setting(NamedTuple):
    """The shape and the device of a comparison."""

    shape: Shape
    device: str = "cpu"

    def normal(self, *shape: int) -> Tensor:
        """Draw random numbers, the same for the same shape."""
        return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(self.device)

    def input(self) -> Series:
        """Draw the input of a layer, (batch, time, width)."""
        return self.normal(*self.shape).requires_grad_()


class Expected:
    """The results of a formula in float64, computed once, when they are first read.

    Args:
        formula: computes the outputs from the leaves.
        leaves: tensors by name; their values are read at the computation.
        upstream: the gradient of the first output; None for no gradients.
    """

    def __init__(self, formula: Formula, leaves: Leaves, upstream: Tensor | None) -> None:
        self.formula, self.leaves, self.upstream = formula, leaves, upstream

    @cached_property
    def values(self) -> tuple[list[Tensor], dict[str, Tensor]]:
        """The outputs, and the gradients by the leaves' names."""
        exact = {name: leaf.detach().double().requires_grad_() for name, leaf in self.leaves.items()}
        outputs, grads = self.formula(exact), {}
        if self.upstream is not None:
            gradients = torch.autograd.grad(outputs[0], tuple(exact.values()), self.upstream.double())
            grads = dict(zip(exact, gradients, strict=True))
        return [output.detach() for output in outputs], grads

    def forget(self) -> None:
        """Free the memory; the next read computes the results again."""
        self.__dict__.pop("values", None)


@dataclass(frozen=True)
class Contender:
    """One line of a table."""

    name: str
    setting: Setting
    run: Callable[[], Tensor | tuple[Tensor, ...]]
    """The timed function; it returns the first few of the expected outputs, or all."""
    leaves: Leaves
    """The contender's tensors, by the names of those in `expected`."""
    expected: Expected
    precision: torch.dtype | str = torch.float32
    """The key of its tolerance in the table."""
    slack: Tolerance = NO_SLACK
    """The least allowed error, for libraries that are known to be less exact."""
    in_float64: "Contender | None" = None
    """A contender in float64 that must pass the check too, where slack hides errors."""
    autocast: bool = False
    """Whether it runs under autocast to bfloat16."""
    times: float = 1.0
    """The factor of the time: above 1 if only a part of the steps is run."""
    work: tuple[float, str] | None = None
    """The work of one call, and the unit of its rate: bytes and "B/s", or tokens and "tokens/s"."""

    def outputs(self) -> tuple[Tensor, ...]:
        if not self.autocast:
            result = self.run()
        else:
            with torch.autocast(self.setting.device, torch.bfloat16):
                result = self.run()
        return result if isinstance(result, tuple) else (result,)

    def forward(self) -> tuple[Tensor, ...]:
        """Compute the outputs without a graph."""
        with torch.inference_mode():
            return self.outputs()

    def forward_backward(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Compute the outputs and the gradients of all leaves."""
        outputs = self.outputs()
        return outputs, torch.autograd.grad(outputs[0], tuple(self.leaves.values()), self._upstream(outputs[0].dtype))

    def _upstream(self, dtype: torch.dtype) -> Tensor:
        assert self.expected.upstream is not None, f"{self.name} has no gradients"
        return self.expected.upstream.to(dtype)


class Wrong(NamedTuple):
    """A disagreement with the expected results; without numbers if there was none to compare."""

    what: str
    error: float | None = None
    allowed: float | None = None


def disagreement(contender: Contender, backward: bool = True, forward: bool = True) -> Wrong | None:
    """Find the first output or gradient whose error exceeds the table of tolerances; None if all agree.

    Args:
        backward: run with gradients, and compare these too.
        forward: run without a graph, which may take another path through the code.
    """
    if contender.in_float64 is not None:
        wrong = disagreement(contender.in_float64, backward, forward)
        if wrong is not None:
            return wrong._replace(what=f"in float64, {wrong.what}")
    try:
        if backward and (wrong := _compared(contender, *contender.forward_backward())):
            return wrong
        return _compared(contender, contender.forward()) if forward else None
    except Exception as error:  # of any class: others are still measured, and the exit code reports it
        return Wrong(f"raised {type(error).__name__}: {' '.join(str(error).split())}")


def _compared(contender: Contender, outputs: tuple[Tensor, ...], grads: tuple[Tensor, ...] = ()) -> Wrong | None:
    expected, expected_grads = contender.expected.values
    for number, (actual, wanted) in enumerate(zip(outputs, expected, strict=False)):
        if wrong := _off(contender, f"output {number}", actual, wanted, gradient=False):
            return wrong
    for name, actual in zip(contender.leaves, grads, strict=False):
        if wrong := _off(contender, f"gradient of {name}", actual, expected_grads[name], gradient=True):
            return wrong
    return None


def _off(contender: Contender, what: str, actual: Tensor, wanted: Tensor, *, gradient: bool) -> Wrong | None:
    if actual.shape != wanted.shape:
        return Wrong(f"{what} has shape {tuple(actual.shape)}, expected {tuple(wanted.shape)}")
    error, allowed = largest_error(actual, wanted), allowed_error(wanted, contender.precision, gradient=gradient)
    slack = contender.slack.gradient if gradient else contender.slack.output
    allowed = max(allowed, slack * max(1.0, float(wanted.abs().max())))
    return None if error <= allowed else Wrong(what, error, allowed)


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
