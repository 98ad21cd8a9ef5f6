"""Contenders: what is timed, and the formula in float64 that it is checked against.

Nothing is imported from the package, of which workers load older versions.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from benchmarks.sizes import Shape

Leaves: TypeAlias = Mapping[str, Tensor]
"""Tensors by the names of parameters and inputs."""
Formula: TypeAlias = Callable[[Leaves], list[Tensor]]
"""A function from the leaves in float64 to the outputs."""


class Setting(NamedTuple):
    """The shape and the device of a comparison."""

    shape: Shape
    device: str = "cpu"

    def normal(self, *shape: int) -> Tensor:
        """Draw random numbers, the same for the same shape."""
        return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(self.device)

    def input(self) -> Tensor:
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
    slack: tuple[float, float] = 0.0, 0.0
    """The least allowed errors of outputs and gradients, for libraries that are known to be less exact."""
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
        """Compute the outputs and the gradients of all leaves; without an upstream gradient the outputs alone."""
        outputs, upstream = self.outputs(), self.expected.upstream
        if upstream is None:
            return outputs, ()
        leaves = tuple(self.leaves.values())
        return outputs, torch.autograd.grad(outputs[0], leaves, upstream.to(outputs[0].dtype))


class Deviation(NamedTuple):
    """The distance of an output or a gradient from what the formula gives."""

    what: str
    gradient: bool
    error: float | None
    """The largest absolute error, infinite at a NaN; None if the shapes differ."""
    largest: float
    """The largest finite value that is expected."""


def deviations(contender: Contender, backward: bool = True, forward: bool = True) -> Iterator[Deviation]:
    """Yield the deviations of all outputs and gradients.

    Args:
        backward: run with gradients, and compare these too.
        forward: run without a graph, which may take another path through the code.
    """
    expected, expected_grads = contender.expected.values
    runs: list[Callable[[], tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]] = []
    if backward:
        runs.append(contender.forward_backward)
    if forward:
        runs.append(lambda: (contender.forward(), ()))
    for run in runs:
        outputs, grads = run()
        for number, (actual, wanted) in enumerate(zip(outputs, expected, strict=False)):
            yield _deviation(f"output {number}", actual, wanted, gradient=False)
        for name, actual in zip(contender.leaves, grads, strict=False):
            yield _deviation(f"gradient of {name}", actual, expected_grads[name], gradient=True)


def _deviation(what: str, actual: Tensor, expected: Tensor, *, gradient: bool) -> Deviation:
    if actual.shape != expected.shape:
        what = f"{what} has shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
        return Deviation(what, gradient, None, 0.0)
    got, want = actual.detach().double(), expected.double()
    finite = want[want.isfinite()].abs()
    # Equal infinities have no difference, and that of a NaN is infinite.
    error = torch.where(got == want, 0.0, (got - want).abs()).nan_to_num(nan=torch.inf, posinf=torch.inf)
    return Deviation(what, gradient, float(error.max()), float(finite.max()) if finite.numel() else 0.0)
