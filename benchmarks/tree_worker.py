"""Training steps of one source tree, for `benchmarks.trees`, which starts this with the tree's `src` on PYTHONPATH.

Models, batches and steps are those of this file's checkout, whichever version of the package runs them: what is
imported here takes models and layers alone from it. Reads one request a line of standard input, answers one JSON value
a line: `build TITLE|CELL|PRECISION|DRAW` (the deviations of loss and gradients from float64), `step N` and
`products N` (seconds a step, and of its products), `bandwidth` (bytes a second), `layer CASE` (the sum of a layer's
output, states and gradients, see `LayerCase`), `forward N`, `both N` and `single N` (seconds a call of that layer).
"""

import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from benchmarks.contenders import Deviation, deviations
from benchmarks.sizes import SIZES
from benchmarks.standards import standards
from benchmarks.steps import Products, TrainingStep, bandwidth_of_memory, products_of_step, seconds_of, training_step
from gatedrnn.registry import CELLS

WARM = 3
"""Steps before the first that is timed."""


class LayerCase(NamedTuple):
    """A layer and its input."""

    cell: str
    dtype: str
    batch: int
    time: int
    width: int
    layers: int = 1
    bidirectional: bool = False
    masked: bool = False

    @classmethod
    def parse(cls, text: str) -> "LayerCase":
        """The inverse of `str`."""
        return cls(*json.loads(text))

    def __str__(self) -> str:
        return json.dumps(list(self))


class LayerCalls:
    """The calls of one layer, on the same weights and input in every tree."""

    def __init__(self, case: LayerCase) -> None:
        torch.manual_seed(0)
        options = {"num_layers": case.layers} | ({"bidirectional": True} if case.bidirectional else {})
        layer: Any = CELLS[case.cell].layer  # of another version too, whose constructor mypy does not see
        self.layer = layer(case.width, case.width, batch_first=True, **options).to(getattr(torch, case.dtype))
        self.x = torch.randn(case.batch, case.time, case.width, dtype=getattr(torch, case.dtype), requires_grad=True)
        self.masks = {"mask": torch.rand(case.batch, case.time) > 0.2} if case.masked else {}

    def digest(self) -> str:
        """The sum of output, states and gradients; the first line of an error."""
        try:
            output, states = self.layer(self.x, **self.masks)
            states = states if isinstance(states, tuple) else (states,)
            self.x.grad = None
            sum((part * torch.linspace(-1, 1, part.numel(), dtype=part.dtype).view(part.shape)).sum()
                for part in (output, *states)).backward()  # fmt: skip
        except (ValueError, TypeError) as error:
            return str(error).splitlines()[0]
        parts = [output, *states, self.x.grad, *(weight.grad for weight in self.layer.parameters())]
        return hashlib.sha256(
            b"".join(p.detach().contiguous().numpy().tobytes() for p in parts if p is not None)
        ).hexdigest()

    def forward(self) -> None:
        """A forward pass."""
        with torch.no_grad():
            self.layer(self.x, **self.masks)

    def both(self) -> None:
        """Both passes."""
        self.layer(self.x, **self.masks)[0].sum().backward()

    def single(self) -> None:
        """A single step by `step`."""
        with torch.no_grad():
            self.layer.step(self.x[:, 0])


class Worker:
    """The step of one model, or a layer, at a time."""

    def __init__(self) -> None:
        self.calls: LayerCalls | None = None
        self.step: TrainingStep | None = None
        self.products: Products | None = None

    def build(self, words: str) -> list[Deviation]:
        """Build a model, and compare its loss and gradients with float64."""
        title, cell, precision, draw = words.split("|")
        self.step = self.products = None  # its memory first
        standard = next(each for each in standards(SIZES["cpu"]) if each.title == title)
        self.step = training_step(standard, cell, int(draw), narrow=precision == "bfloat16")
        found = list(deviations(self.step, forward=False))
        self.products = products_of_step(self.step, "products")
        for _ in range(WARM):
            self.step.train_step()
            self.products.train_step()
        return found

    def answer(self, request: str) -> object:
        """Do what a line asks for."""
        word, _, rest = request.strip().partition(" ")
        if word == "build":
            return self.build(rest)
        if word == "layer":
            self.calls = LayerCalls(LayerCase.parse(rest))
            return self.calls.digest()
        if word in ("forward", "both", "single"):
            call: Callable[[], None] = getattr(self.calls, word)
            return seconds_of(call, int(rest))
        if word == "bandwidth":
            return bandwidth_of_memory(SIZES["cpu"].copied)
        timed = self.step if word == "step" else self.products
        assert timed is not None
        return seconds_of(timed.train_step, int(rest))


def main() -> None:
    """Answer until standard input ends."""
    torch.set_num_threads(int(sys.argv[1]))
    worker = Worker()
    for line in sys.stdin:
        print(json.dumps(worker.answer(line)), flush=True)


if __name__ == "__main__":
    main()
