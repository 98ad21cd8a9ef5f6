"""One law of one subject at some sizes: how far a way of feeding is from its reference, and the smallest such case."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from dis import opname
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from gatedrnn.laws.errors import NotApplicable, summary
from gatedrnn.laws.laws import FINITE, FIRST, GENERATION, SAME_AGAIN, CaseSizes, Law
from gatedrnn.laws.script import accepted
from gatedrnn.laws.subject import Arguments, State, Subject, is_plain

_REFERENCE_STEPS = 64
"""Steps up to which the table's tolerances hold as they are."""
REFUSALS = (NotImplementedError, ValueError, AssertionError)
"""Exceptions by which a module may refuse a use, where it raises them itself; others are faults."""
_CHAOS_FACTOR = 1000
"""An error is the layer's own where it is so many times what a change of the inputs in their last digit makes."""
_SHRINK_STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 40, 63)
"""Numbers of steps among which the smallest failing case is looked for."""
WIDTHS = (1, 2, 4)
Results = dict[str, Tensor]


class Tolerance(NamedTuple):
    """Largest absolute error, as a fraction of the largest expected value."""

    output: float
    gradient: float


# Two orders of a layer's operations differ by rounding alone, whatever the operations are. These are never loosened.
TOLERANCES = {
    torch.float64: Tolerance(output=1e-9, gradient=1e-8),
    torch.float32: Tolerance(output=1e-4, gradient=1e-3),
}
"""The tolerances of a layer of which nothing is known but its dtype."""


class Fault(NamedTuple):
    """How far a way is from its reference."""

    error: float
    allowed: float
    message: str = ""

    @property
    def holds(self) -> bool:
        return self.error <= self.allowed

    @property
    def share(self) -> float:
        """The error as a share of what is allowed."""
        return self.error / self.allowed if self.allowed else self.error


NO_FAULT = Fault(0.0, 1.0)


@dataclass(frozen=True)
class LawCase:
    """A law of a subject at some sizes, of values or of gradients."""

    subject: Subject
    law: Law
    sizes: CaseSizes
    gradients: bool
    axis: int | None
    """The axis of the rows in the subject's state, where there is one."""

    def arguments(self) -> Arguments:
        """Return the arguments of both ways that follow from the sizes."""
        arguments = self.law.arguments(self.sizes)
        return arguments | {"axis": self.axis} if "axis" in self.law.needs else arguments

    def fault(self, seed: int) -> Fault:
        """Compare the way with its reference on one draw.

        Raises:
            NotApplicable: the reference fails by itself, or the module refuses the use.
        """
        law, (x, arguments) = self.law, self._inputs(seed)
        try:
            expected = None if law in GENERATION else self._results(law.reference, x, arguments)
            actual = self._results(law.way, x, arguments)
        except NotApplicable:
            raise
        except Exception as error:  # of any kind: the module is not ours
            if law not in FIRST and refuses(error):
                raise NotApplicable(f"it refuses: {summary(error)}") from error
            return Fault(math.inf, 0.0, f"raises {summary(error)}")
        if expected is None:  # a shortfall, in units of logits
            zeros = {key: torch.zeros_like(value) for key, value in actual.items()}
            return worst_of(actual, zeros, self.subject.dtype, self.sizes.steps, least=1.0)
        if law is FINITE:
            infinite = [key for key, value in actual.items() if not value.isfinite().all()]
            return Fault(math.inf, 0.0, f"{infinite[0]} holds values that are not finite") if infinite else NO_FAULT
        if len(actual) == 1 or len(expected) == 1:  # one of the two knows no state
            actual, expected = (
                {key: part[key] for key in actual.keys() & expected.keys()} for part in (actual, expected)
            )
        return worst_of(actual, expected, self.subject.dtype, self.sizes.steps, exact=law is SAME_AGAIN)

    def chaotic(self, fault: Fault, seed: int) -> bool:
        """Whether an error may come of rounding alone, which the layer lets grow."""
        if self.subject.vocabulary is not None or self.law in FIRST or not math.isfinite(fault.error):
            return False
        x, arguments = self._inputs(seed)
        perturbed = x * (1 + torch.finfo(x.dtype).eps)
        base, changed = (self._results(self.law.reference, inputs, arguments) for inputs in (x, perturbed))
        growth = worst_of(changed, base, self.subject.dtype, self.sizes.steps)
        return fault.error < _CHAOS_FACTOR * growth.error and growth.share > 1 / _CHAOS_FACTOR

    def _inputs(self, seed: int) -> tuple[Tensor, Arguments]:
        """Draw the inputs, and the other arguments of both ways."""
        subject, sizes, law = self.subject, self.sizes, self.law
        x, arguments = subject.draw(sizes.batch, sizes.steps, seed), self.arguments()
        if law.more:
            arguments["more"] = subject.draw(sizes.batch, 2, seed + 1)
        if law.given_state:
            with torch.no_grad():
                arguments["state"] = subject.run_of()(subject.draw(sizes.batch, 3, seed + 100))[1]
        if law in GENERATION:
            assert subject.generate is not None
            arguments["generate"] = partial(subject.generate, subject.module)
        return x, arguments

    def _results(self, way: Callable[..., Any], x: Tensor, arguments: dict[str, Any]) -> Results:
        """Feed the inputs one way: outputs and plain states, or the gradients of the outputs."""
        # Each way gets its own copy: a module may write into its input.
        subject, x = self.subject, x.clone()
        first = (subject.call, subject.module) if self.law.of_module else (subject.run_of(),)
        if not self.gradients:
            with torch.no_grad():
                return as_results(way(*first, x, **accepted(way, arguments)))
        leaves: Results = {name: p for name, p in subject.parameters() if p.requires_grad}
        if subject.vocabulary is None:
            leaves["input"] = x.requires_grad_()
        if self.law.given_state:
            state = tree_map(_leaf, arguments["state"])
            arguments = arguments | {"state": state}
            parts = [leaf for leaf in tree_leaves(state) if isinstance(leaf, Tensor) and leaf.requires_grad]
            leaves |= {f"first state {i}": leaf for i, leaf in enumerate(parts)}
        with torch.enable_grad():
            output = real(as_results(way(*first, x, **accepted(way, arguments)))["output"])
            if not output.requires_grad:
                raise NotApplicable("its outputs carry no gradient")
            # Random weights: in a plain sum, errors of opposite signs would cancel.
            weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
            grads = torch.autograd.grad(
                (output * weights.to(output.dtype)).sum(), [*leaves.values()], materialize_grads=True, allow_unused=True
            )
        return {f"gradient of {name}": gradient for name, gradient in zip(leaves, grads, strict=True)}

    def smallest(
        self, fault: Fault, seed: int, others: tuple[int, ...], narrower: list[Subject], until: float = math.inf
    ) -> "tuple[LawCase, Fault]":
        """Return the first case that fails as well, by width, steps, rows, padding and the place of the cut.

        Args:
            others: seeds of which one must fail too.
            narrower: the subject in smaller widths, the narrowest first.
            until: the time of `time.monotonic` at which to give up.
        """
        least, usual = self.law.least, self.sizes
        steps = sorted({*(n for n in _SHRINK_STEPS if least.steps <= n < usual.steps), usual.steps})
        for subject, n, batch, pad in product(
            (*narrower, self.subject), steps, range(least.batch, usual.batch + 1), sorted({1, usual.pad})
        ):
            for cut in sorted({1, n // 2, n - 1}):
                case = replace(self, subject=subject, sizes=CaseSizes(batch, n, cut, pad))
                if time.monotonic() > until:
                    return self, fault
                try:
                    found = case.fault(seed) if case.possible() else NO_FAULT
                    # On another seed too: a value beside a threshold fails by rounding on one.
                    if not found.holds and any(not case.fault(other).holds for other in others):
                        return case, found
                except NotApplicable:
                    continue
        return self, fault

    def possible(self) -> bool:
        """Whether the sizes go together: something is left of every row, and a cut lies between two steps."""
        sizes = self.sizes
        if not 1 <= sizes.cut < max(2, sizes.steps):
            return False
        return "mask" not in self.law.arguments(CaseSizes()) or sizes.pad < sizes.steps


def refuses(error: Exception) -> bool:
    """Whether an exception is raised by a statement (`raise`, `assert`), and not by an operation that failed.

    The bytecode of the innermost function says so: the instruction that it stopped at raises.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not isinstance(error, REFUSALS):
        return False
    return opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"


def real(x: Tensor) -> Tensor:
    """Return a tensor, of complex values as pairs of real ones."""
    return torch.view_as_real(x) if x.is_complex() else x


def _leaf(x: object) -> object:
    """Return a part of a state as a leaf of the graph, where it has a gradient."""
    differentiable = isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())
    return x.detach().clone().requires_grad_() if isinstance(x, Tensor) and differentiable else x


def as_results(result: Tensor | tuple[Tensor, State]) -> Results:
    """Return outputs, and plain states, by name."""
    if not isinstance(result, tuple):
        return {"output": result}
    output, state = result
    states = [leaf for leaf in tree_leaves(state) if isinstance(leaf, Tensor)] if is_plain(state) else []
    return {"output": output} | {f"state {i}": leaf for i, leaf in enumerate(states)}


def worst_of(
    actual: Results, expected: Results, dtype: torch.dtype, steps: int = 1, *, exact: bool = False, least: float = 0
) -> Fault:  # fmt: skip
    """Return the largest error relative to what is allowed there, which grows as rounding errors add up at random."""
    tolerance = TOLERANCES[dtype]
    if actual.keys() != expected.keys():
        missing = sorted(actual.keys() ^ expected.keys())
        return Fault(math.inf, 0.0, f"{', '.join(missing)} is returned one way and not the other")
    # A gradient that is 0 but for rounding is held to those beside it.
    overall = max((_largest(value) for key, value in expected.items() if key.startswith("gradient")), default=0.0)
    worst = NO_FAULT
    for key, want in expected.items():
        got, want = real(actual[key]), real(want)
        if got.shape != want.shape:
            return Fault(math.inf, 0.0, f"{key} has shape {tuple(got.shape)}, expected {tuple(want.shape)}")
        rate = tolerance.gradient if key.startswith("gradient") else tolerance.output
        # A tensor of zeros has no scale, and is held to that of 1.
        scale = (max(_largest(want), 1e-3 * overall, least) or 1.0) * math.sqrt(max(1, steps / _REFERENCE_STEPS))
        error, allowed = _largest(got.detach().double() - want.detach().double()), 0.0 if exact else rate * scale
        if not math.isfinite(error) or not math.isfinite(allowed):
            return Fault(math.inf, 0.0, f"{key} holds values that are not finite")
        fault = Fault(error, allowed, f"{key} is off by {error:.2e}, allowed {allowed:.2e}")
        # One that fails comes before all that hold, whatever its share.
        worst = max(worst, fault, key=lambda one: (not one.holds, one.share))
    return worst


def _largest(x: Tensor) -> float:
    return float(real(x.detach()).double().abs().max()) if x.numel() else 0.0
