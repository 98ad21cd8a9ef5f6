"""Seconds and memory that a large table takes until its recipe is printed, here and in another checkout, in turn.

python tools/time_reading.py OTHER [ROUNDS]     OTHER: a checkout of another commit; each side is a process of its own
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from gatedrnn.machine import processor

HERE = Path(__file__).parents[1]
TABLES = {"200,000 rows of 20 columns": (200_000, 20), "1 GB, 8,300,000 rows of 15 columns": (8_300_000, 15)}
LIMIT = 600
"""Seconds after which a reading is given up."""
BLOCK = 100_000


def write(path: Path, rows: int, columns: int) -> None:
    """A table of minutes and of numbers with three decimals."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write(",".join(["ds", *(f"x{number}" for number in range(columns - 1))]) + "\n")
        for first in range(0, rows, BLOCK):
            count = min(BLOCK, rows - first)
            times = np.datetime64("2000-01-01T00:00") + np.arange(first, first + count)
            values = np.char.mod("%.3f", rng.normal(100, 20, (count, columns - 1)))
            lines = (",".join((str(moment), *row)) for moment, row in zip(times, values, strict=True))
            file.write("\n".join(lines) + "\n")


def read(checkout: Path, table: Path) -> str:
    """Seconds, and the largest memory of the process."""
    named = [] if (checkout / "src/gatedrnn/cli/describe_table.py").exists() else ["--recipe"]
    command = [sys.executable, "-m", "gatedrnn", "describe", *named, str(table), "--task", "forecast"]
    begin = time.perf_counter()
    child = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(checkout / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        said, _ = child.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return f"given up after {LIMIT} s"
    seconds = time.perf_counter() - begin
    peak = _peak_of_children()
    return f"{seconds:.1f} s, {peak:.2f} GB" if child.returncode == 0 else f"failed: {said[-200:].decode()}"


def _peak_of_children() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6


def main(other: Path, rounds: int) -> None:
    """Print a line for each reading."""
    print(processor())
    with tempfile.TemporaryDirectory() as folder:
        for title, shape in TABLES.items():
            path = Path(folder) / "table.csv"
            write(path, *shape)
            print(f"{title}: {path.stat().st_size / 1e9:.2f} GB", flush=True)
            for _ in range(rounds):
                for name, checkout in (("here", HERE), ("other", other)):
                    # Each side in a process of its own, so that its children's peak is its alone.
                    if (child := os.fork()) == 0:
                        print(f"  {name}: {read(checkout, path)}", flush=True)
                        os._exit(0)
                    os.waitpid(child, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
