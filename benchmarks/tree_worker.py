"""Training steps of one source tree, for `benchmarks.trees`, which starts this with the tree's `src` on PYTHONPATH.

Reads one request a line of standard input, answers one JSON value a line: `build TITLE|CELL|PRECISION` (null, or what
is wrong with the step), `step N` and `products N` (seconds a step, and of its products), `bandwidth` (bytes a second).
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

try:
    from gatedrnn.benchmarking.measure import disagreement
    from gatedrnn.benchmarking.record import SIZES
    from gatedrnn.benchmarking.standards import standards
    from gatedrnn.benchmarking.training import _products, _step, bandwidth_of_memory
except ModuleNotFoundError:  # where commits before 27 November 2026 have them
    from gatedrnn.bench.measure import disagreement  # type: ignore[import-not-found, no-redef]
    from gatedrnn.bench.parts import bandwidth_of_memory  # type: ignore[import-not-found, no-redef]
    from gatedrnn.bench.sizes import SIZES  # type: ignore[import-not-found, no-redef]
    from gatedrnn.bench.standards import standards  # type: ignore[import-not-found, no-redef]
    from gatedrnn.bench.training import _products, _step  # type: ignore[import-not-found, no-redef]

WARM = 3
"""Steps before the first that is timed."""


class Worker:
    """The step of one model at a time."""

    def __init__(self) -> None:
        self.step: Any = None
        self.products: Any = None

    def build(self, words: str) -> str | None:
        """Build a model, and say what is wrong with its loss or gradients; None if nothing is."""
        title, cell, precision = words.split("|")
        self.step = self.products = None  # its memory first
        standard = next(each for each in standards(SIZES["cpu"]) if each.title == title)
        self.step = _step(standard, cell, precision == "bfloat16")
        wrong = disagreement(self.step, forward=False)
        self.products = _products(self.step, cell)
        for _ in range(WARM):
            self.step.train_step()
            self.products.train_step()
        return None if wrong is None else str(wrong)

    def answer(self, request: str) -> object:
        """Do what a line asks for."""
        word, _, rest = request.strip().partition(" ")
        if word == "build":
            return self.build(rest)
        if word == "bandwidth":
            return bandwidth_of_memory(SIZES["cpu"].copied)
        return seconds((self.step if word == "step" else self.products).train_step, int(rest))


def seconds(action: Callable[[], None], count: int) -> float:
    """Seconds a call, as a mean over so many."""
    begun = time.perf_counter()
    for _ in range(count):
        action()
    return (time.perf_counter() - begun) / count


def main() -> None:
    """Answer until standard input ends."""
    torch.set_num_threads(int(sys.argv[1]))
    worker = Worker()
    for line in sys.stdin:
        print(json.dumps(worker.answer(line)), flush=True)


if __name__ == "__main__":
    main()
