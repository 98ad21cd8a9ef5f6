"""Training steps of several source trees in turn: `python -m benchmarks.trees OUTPUT.json NAME=FOLDER NAME=FOLDER ...`.

A tree is a checkout of this project, such as `git worktree add ../old COMMIT` makes. Each runs in a process of its own,
in this environment; one after another they take some steps, round by round, so that a slow moment of the machine meets
all of them. Every step is first held to its formula in float64. Floors are products, measured here, and the bytes of
`gatedrnn.benchmarking.standards.MOVED` at the bandwidth of `torch.add` here.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gatedrnn.benchmarking.standards import BFLOAT16, MOVED
from gatedrnn.records import environment, write_whole
from gatedrnn.timing import Spread, spread_of

WORKER = Path(__file__).parent / "tree_worker.py"
ROUNDS, ROUND = 15, 0.3
"""Rounds, and seconds that a tree's steps take in each, at least one step."""
THREADS = 1, 2


class Tree:
    """A worker of one tree."""

    def __init__(self, name: str, folder: Path, threads: int) -> None:
        self.name, source = name, folder.resolve() / "src"
        if not (source / "gatedrnn").is_dir():
            raise SystemExit(f"{folder}: no checkout of gatedrnn")
        env = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=env,
        )  # fmt: skip

    def ask(self, request: str) -> Any:
        """Wait for the answer to a request."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name}: the worker ended at {request!r}")
        return json.loads(line)

    def close(self) -> None:
        self.process.communicate()


def compared(trees: Sequence[Tree], title: str, cell: str) -> dict[str, Any]:
    """Time one model's steps in all trees, and its products in the last one."""
    name, precision = title.removesuffix(BFLOAT16), "bfloat16" if title.endswith(BFLOAT16) else "float32"
    wrong = {tree.name: tree.ask(f"build {name}|{cell}|{precision}") for tree in trees}
    if any(wrong.values()):
        raise SystemExit(f"{title}, {cell}: wrong: {wrong}")
    counts = {tree.name: max(1, round(ROUND / tree.ask("step 1"))) for tree in trees}
    samples: dict[str, list[float]] = {tree.name: [] for tree in trees}
    products: list[float] = []
    for number in range(ROUNDS):
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


def _row(spread: Spread) -> list[float]:
    """A median and its quartiles, to four digits."""
    return [float(f"{number:.4g}") for number in spread]


def main(arguments: Sequence[str]) -> None:
    """Compare the trees that the arguments name, the newest last, and write a record."""
    output, *named = arguments
    found: dict[str, Any] = {**environment(), "trees": {}, "threads": {}}
    for threads in THREADS:
        trees = [Tree(name, Path(folder), threads) for name, folder in (word.split("=", 1) for word in named)]
        rows = []
        for title, cell in MOVED:
            rows.append(compared(trees, title, cell))
            print(threads, json.dumps(rows[-1]), flush=True)
        for tree in trees:
            tree.close()
        found["threads"][str(threads)] = rows
    for name, folder in (word.split("=", 1) for word in named):
        git = ["git", "-C", folder, "rev-parse", "--short", "HEAD"]
        found["trees"][name] = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    write_whole(Path(output), json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
