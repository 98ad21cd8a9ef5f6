"""What is measured: something to call, the tensors whose gradients are asked for, and what it must give."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from gatedrnn.bench.sizes import Shape
from gatedrnn.shapes import Series
from gatedrnn.verify.tolerances import Tolerance

Weights: TypeAlias = Mapping[str, Tensor]
"""Tensors by the names of parameters and inputs."""
Formula: TypeAlias = Callable[[Weights], list[Tensor]]
"""The outputs, from the leaves in float64."""

NO_SLACK = Tolerance(0.0, 0.0)


class Setting(NamedTuple):
    """On what, and where: the same for all that stand in one comparison."""

    shape: Shape
    device: str = "cpu"

    def normal(self, *shape: int) -> Tensor:
        """Random numbers, the same each time for the same shape."""
        return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(self.device)

    def input(self) -> Series:
        """What a layer reads, (batch, time, width)."""
        return self.normal(*self.shape).requires_grad_()


class Expected:
    """What a formula gives in float64, worked out when it is first asked for, and once.

    Args:
        formula: from the leaves to the outputs.
        leaves: by name; their values are read when it is asked for.
        upstream: the gradient that reaches the first output; None where no gradients are wanted.
    """

    def __init__(self, formula: Formula, leaves: Weights, upstream: Tensor | None) -> None:
        self.formula, self.leaves, self.upstream = formula, leaves, upstream

    @cached_property
    def values(self) -> tuple[list[Tensor], dict[str, Tensor]]:
        """The outputs, and the gradients by the leaves' names."""
        exact = {name: leaf.detach().double().requires_grad_() for name, leaf in self.leaves.items()}
        outputs, grads = self.formula(exact), {}
        if self.upstream is not None:
            found = torch.autograd.grad(outputs[0], tuple(exact.values()), self.upstream.double())
            grads = dict(zip(exact, found, strict=True))
        return [output.detach() for output in outputs], grads

    def forget(self) -> None:
        """Give the memory back; asked again, it is worked out again."""
        self.__dict__.pop("values", None)


@dataclass(frozen=True)
class Contender:
    """One line of a table."""

    name: str
    setting: Setting
    run: Callable[[], Tensor | tuple[Tensor, ...]]
    """What is timed; gives the first few of the outputs that are expected, or all."""
    leaves: Weights
    """Its own tensors, by the names of those in `expected`."""
    expected: Expected
    precision: torch.dtype | str = torch.float32
    """The row of the table of tolerances that it is held to."""
    slack: Tolerance = NO_SLACK
    """What is allowed at least: for libraries whose way of computing is known to be less exact."""
    in_float64: "Contender | None" = None
    """The same in float64, which must pass the gate too: where slack alone would show little."""
    autocast: bool = False
    """Run under autocast to bfloat16."""
    times: float = 1.0
    """What the time is multiplied by: above 1 where only a part of the steps is run."""
    work: tuple[float, str] | None = None
    """What one call does, and the unit of that a second: bytes and "B/s", or tokens and "tokens/s"."""

    def outputs(self) -> tuple[Tensor, ...]:
        if not self.autocast:
            found = self.run()
        else:
            with torch.autocast(self.setting.device, torch.bfloat16):
                found = self.run()
        return found if isinstance(found, tuple) else (found,)

    def forward(self) -> tuple[Tensor, ...]:
        """The outputs, without a graph."""
        with torch.inference_mode():
            return self.outputs()

    def forward_backward(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The outputs, and the gradients of all leaves."""
        outputs = self.outputs()
        return outputs, torch.autograd.grad(outputs[0], tuple(self.leaves.values()), self._upstream(outputs[0].dtype))

    def _upstream(self, dtype: torch.dtype) -> Tensor:
        assert self.expected.upstream is not None, f"{self.name} has no gradients"
        return self.expected.upstream.to(dtype)
