"""Parts of `tools/on_a_gpu.sh`: seconds of first calls, and the record.

python tools/gpu_record.py first-calls DEVICE OUTPUT.json     time layers, each in a process of its own
python tools/gpu_record.py write DEVICE FOLDER RECORD.json    put what the parts left in FOLDER into one record
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import torch
from cyclopts import App

from gatedrnn.records import environment, write_whole
from gatedrnn.registry import CELLS
from gatedrnn.timing import Stopwatch

CELLS_CALLED = ("mingru", "minlstm")
"""Scan cells, whose kernels are for a GPU too."""
BATCH, STEPS, WIDTH = 8, 512, 256
PARTS = ("tests", "first_calls", "bench")
app = App(name="gpu_record.py", version_flags=[])


@app.command
def call(cell: str, device: str) -> None:
    """Print the seconds of the first and the second forward and backward pass of a layer."""
    layer = CELLS[cell].layer(WIDTH, WIDTH, batch_first=True).to(device)
    x = torch.randn(BATCH, STEPS, WIDTH).to(device).requires_grad_()
    stopwatch = Stopwatch(torch.cuda.synchronize if device == "cuda" else None)
    first, second = (stopwatch.time(lambda: layer(x)[0].sum().backward()) for _ in range(2))
    print(json.dumps({"first": first, "second": second}))


@app.command
def first_calls(device: str, output: Path) -> None:
    """Time the first call of each layer, whose kernels nothing has compiled before."""
    found = {}
    for cell in CELLS_CALLED:
        with tempfile.TemporaryDirectory() as folder:
            variables = {**os.environ, "TRITON_CACHE_DIR": folder, "GATEDRNN_KERNEL_CACHE": folder}
            command = [sys.executable, __file__, "call", cell, device]
            done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
        found[cell] = json.loads(done.stdout)
    output.write_text(json.dumps(found))


@app.command
def write(device: str, folder: Path, record: Path) -> None:
    """Write the record; ends the process with 1 if a part failed, which the record names."""
    failed = {part: int((folder / f"{part}.code").read_text()) for part in PARTS}
    failed = {part: code for part, code in failed.items() if code}
    content: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "none: a dry run on a CPU",
        "cuda": torch.version.cuda, **environment(), "failed": failed, "tests": counts_of(folder / "tests.xml"),
        "first_calls_seconds": read(folder / "first_calls.json"), "bench": read(folder / "bench.json"),
    }  # fmt: skip
    record.parent.mkdir(parents=True, exist_ok=True)
    write_whole(record, json.dumps(content, indent=1) + "\n")
    print(f"record: {record}")
    sys.exit(bool(failed))


def counts_of(report: Path) -> dict[str, int | float] | None:
    """Count the tests of a report of pytest; None if there is none."""
    if not report.exists():
        return None
    suite = ElementTree.parse(report).getroot().find("testsuite")
    assert suite is not None
    counts = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    return {**counts, "seconds": float(suite.get("time", 0))}


def read(path: Path) -> Any:
    """Read a file of a part; None if the part did not write it."""
    return json.loads(path.read_text()) if path.exists() else None


if __name__ == "__main__":
    app()
