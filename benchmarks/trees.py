"""Training steps of several source trees in turn: `python -m benchmarks.trees OUTPUT.json NAME=FOLDER NAME=FOLDER ...`.

A tree is a checkout of this project, such as `git worktree add ../old COMMIT` makes. Each runs in a process of its own,
in this environment; one after another they take some steps, round by round, so that a slow moment of the machine meets
all of them. Models, batches and steps are of the checkout that this command runs from (`tree_worker`). Every step is
first held to its formula in float64. Floors are products, measured here, and the bytes of `benchmarks.standards.MOVED`
at the bandwidth of `torch.add` here.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from cyclopts import App, Parameter

from benchmarks.contenders import Deviation
from benchmarks.measure import DRAWS, judged
from benchmarks.standards import BFLOAT16, MOVED
from benchmarks.tree_worker import LayerCase
from gatedrnn.records import environment, write_whole
from gatedrnn.registry import CELLS
from gatedrnn.timing import Spread, spread_of

ROOT = Path(__file__).resolve().parents[1]
ROUNDS, SECONDS = 15, 0.3
THREADS = 1, 2
LAYER_SHAPES = (8, 256, 128), (64, 64, 64)
"""Batch, time and width of layers that are timed."""
BIT_SHAPES = (1, 1, 8), (1, 33, 16), (4, 7, 12), (3, 64, 32), (9, 130, 8)
"""Batch, time and width of layers whose bits are compared."""
app = App(name="python -m benchmarks.trees", version_flags=[], default_parameter=Parameter(consume_multiple=True))


class Tree:
    """A worker of one tree."""

    def __init__(self, name: str, folder: Path, threads: int) -> None:
        self.name, source = name, folder.resolve() / "src"
        if not (source / "gatedrnn").is_dir():
            raise SystemExit(f"{folder}: no checkout of gatedrnn")
        # The worker is found in the current folder, and the package in the tree.
        env = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": str(threads)}
        command = [sys.executable, "-m", "benchmarks.tree_worker", str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=ROOT
        )

    def ask(self, request: str) -> Any:
        """Wait for the answer to a request."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name}: the worker ended at {request!r}")
        return json.loads(line)

    def build(self, title: str, cell: str, draw: int) -> str | None:
        """Build a model, and say what is wrong with its loss or gradients; None if nothing is."""
        name, narrow = title.removesuffix(BFLOAT16), title.endswith(BFLOAT16)
        precision = torch.bfloat16 if narrow else torch.float32
        rows = self.ask(f"build {name}|{cell}|{str(precision).removeprefix('torch.')}|{draw}")
        wrong = next(filter(None, (judged(Deviation(*row), precision) for row in rows)), None)
        return None if wrong is None else str(wrong)

    def close(self) -> None:
        self.process.communicate()


def build(trees: Sequence[Tree], title: str, cell: str) -> None:
    """Build the first draw of a model that is right in all trees."""
    wrong = {}
    for draw in range(DRAWS):
        wrong = {tree.name: tree.build(title, cell, draw) for tree in trees}
        if not any(wrong.values()):
            return
    raise SystemExit(f"{title}, {cell}: wrong: {wrong}")


def compared(trees: Sequence[Tree], title: str, cell: str, rounds: int, seconds: float) -> dict[str, Any]:
    """Time one model's steps in all trees, and its products in the last one."""
    build(trees, title, cell)
    counts = {tree.name: max(1, round(seconds / tree.ask("step 1"))) for tree in trees}
    samples: dict[str, list[float]] = {tree.name: [] for tree in trees}
    products: list[float] = []
    for number in range(rounds):
        for tree in trees if number % 2 == 0 else reversed(trees):
            samples[tree.name].append(1000 * tree.ask(f"step {counts[tree.name]}"))
        products.append(1000 * trees[-1].ask(f"products {counts[trees[-1].name]}"))
    floor = spread_of(products).median + 1000 * MOVED[title, cell] / trees[-1].ask("bandwidth")
    newest = samples[trees[-1].name]
    row: dict[str, Any] = {"model": title, "cell": cell, "floor_ms": floor, "products_ms": _row(spread_of(products))}
    for tree in trees:
        each = samples[tree.name]
        ratios = spread_of([new / old for new, old in zip(newest, each, strict=True)])
        row[tree.name] = {
            "ms": _row(spread_of(each)),
            "over_floor": spread_of(each).median / floor,
            "new_over": _row(ratios),
        }
    return row


def compared_layers(trees: Sequence[Tree], rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Time the layers of all cells: the newest tree's seconds over each other's."""
    rows = list[dict[str, Any]]()
    for cell, (batch, time, width) in product(sorted(CELLS), LAYER_SHAPES):
        case = LayerCase(cell, "float32", batch, time, width)
        for tree in trees:
            tree.ask(f"layer {case}")
        row: dict[str, Any] = {"cell": cell, "shape": [batch, time, width]}
        for call in ("forward", "both", "single"):
            counts = {tree.name: max(1, round(seconds / tree.ask(f"{call} 3"))) for tree in trees}
            samples: dict[str, list[float]] = {tree.name: [] for tree in trees}
            for number in range(rounds):
                for tree in trees if number % 2 == 0 else reversed(trees):
                    samples[tree.name].append(tree.ask(f"{call} {counts[tree.name]}"))
            newest = samples[trees[-1].name]
            row[call] = {
                tree.name: _row(spread_of([new / old for new, old in zip(newest, samples[tree.name], strict=True)]))
                for tree in trees[:-1]
            }
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def compared_bits(trees: Sequence[Tree]) -> dict[str, Any]:
    """Compare the bits of outputs, states and gradients of all cells over many configurations."""
    cases = [
        LayerCase(cell, dtype, *shape, layers, bidirectional, masked)
        for cell, dtype, shape, layers, bidirectional, masked in product(
            sorted(CELLS), ("float32", "float64"), BIT_SHAPES, (1, 2), (False, True), (False, True)
        )
    ]
    unlike = [str(case) for case in cases if len({tree.ask(f"layer {case}") for tree in trees}) > 1]
    return {"configurations": len(cases), "unlike": unlike}


def _row(spread: Spread) -> list[float]:
    """A median and its quartiles, to four digits."""
    return [float(f"{number:.4g}") for number in spread]


@app.default
def compare_trees(
    output: Path, *trees: str, only: tuple[str, ...] = (), rounds: int = ROUNDS, seconds: float = SECONDS,
    layers: bool = False, bits: bool = False,
) -> None:  # fmt: skip
    """Compare source trees and write a record.

    Args:
        output: File of the record.
        trees: NAME=FOLDER of each, the newest last.
        only: Titles of models; all if none is named.
        rounds: Rounds, in each of which all trees take steps.
        seconds: Seconds that a tree's steps take in a round, at least one step.
        layers: Time the layers of all cells in the place of models.
        bits: Compare the bits of layers in the place of models.
    """
    if unknown := set(only) - {title for title, _ in MOVED}:
        raise SystemExit(f"--only: there is no model {', '.join(sorted(unknown))}")
    folders = {name: Path(folder) for name, folder in (word.split("=", 1) for word in trees)}
    found: dict[str, Any] = {**environment(), "trees": {}, "threads": {}}
    for threads in THREADS:
        workers = [Tree(name, folder, threads) for name, folder in folders.items()]
        rows: list[dict[str, Any]] = []
        if bits:
            rows.append(compared_bits(workers))
            print(threads, json.dumps(rows[-1]), flush=True)
        elif layers:
            rows += compared_layers(workers, rounds, seconds)
        for title, cell in MOVED:
            if not (layers or bits) and (not only or title in only):
                rows.append(compared(workers, title, cell, rounds, seconds))
                print(threads, json.dumps(rows[-1]), flush=True)
        for worker in workers:
            worker.close()
        found["threads"][str(threads)] = rows
    for name, folder in folders.items():
        git = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
        found["trees"][name] = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    write_whole(output, json.dumps(found, indent=1))


if __name__ == "__main__":
    app()
