"""Training steps of one source tree, for `benchmarks.trees`, which starts this with the tree's `src` on PYTHONPATH.

Models, batches and steps are those of this file's checkout, whichever version of the package runs them: what is
imported here takes models and layers alone from it. Reads one request a line of standard input, answers one JSON value
a line: `build TITLE|CELL|PRECISION|DRAW` (the deviations of loss and gradients from float64), `step N` and
`products N` (seconds a step, and of its products), `bandwidth` (bytes a second).
"""

import json
import sys

import torch

from benchmarks.contenders import Deviation, deviations
from benchmarks.sizes import SIZES
from benchmarks.standards import standards
from benchmarks.steps import Products, TrainingStep, bandwidth_of_memory, products_of_step, seconds_of, training_step

WARM = 3
"""Steps before the first that is timed."""


class Worker:
    """The step of one model at a time."""

    def __init__(self) -> None:
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
