"""gatedrnn bench."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import torch
from cyclopts import Parameter

from gatedrnn.bench.record import Section
from gatedrnn.bench.report import print_report, verdict
from gatedrnn.bench.run import DEFAULT, SECONDS, Request, record_of
from gatedrnn.bench.run import bench as measure
from gatedrnn.bench.sizes import SIZES, Shape
from gatedrnn.cli.arguments import CellName, above_zero, command_line, use_large_pages
from gatedrnn.errors import UsageError
from gatedrnn.terminal import Console

FAILED = 1


def bench(
    *,
    only: tuple[Section, ...] = DEFAULT,
    cells: tuple[CellName, ...] = (),
    shapes: tuple[str, ...] = (),
    device: Literal["cpu", "cuda"] = "cpu",
    compile: bool = False,
    seconds: Annotated[float, Parameter(validator=above_zero)] = SECONDS,
    output: Path = Path("runs/bench"),
) -> None:
    """Measure speed and memory, as ratios: to the input projection alone, to memory, to torch and to other libraries.

    What is compared runs in turn, in rounds; shown are medians and quartiles. Every contender is first held against its
    formula in float64: results that fail that check are not timed, and the exit code is 1. Run it on a machine that
    does nothing else. Under three minutes on two cores, with the defaults.

    Args:
        only: Sections to run.
        cells: Cells to measure; each section's own choice if none is named.
        shapes: Batch, time and width, as 8x1024x256, in the place of each section's own.
        device: Device that everything runs on.
        compile: Whole models under torch.compile too, which takes minutes to compile.
        seconds: Seconds for measuring, if all sections run. More of them give narrower quartiles.
        output: Folder for bench.json and report.html.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: this torch sees no CUDA device; use --device cpu")
    if "training" in only:
        use_large_pages()  # as every training does
    sizes = SIZES[device].at(tuple(_shape(text) for text in shapes)) if shapes else None
    request = Request(only, cells, sizes, device, compile, seconds)
    console = Console()
    with console.status("") as status:
        findings = measure(request, status.update)
    record = record_of(findings, request, command_line())
    path = record.write(output)
    print_report(record, console)
    console.print(verdict(record), highlight=False)
    console.print(f"all numbers: {path}", soft_wrap=True, highlight=False)
    if find_spec("plotly") is None:
        console.print("no plot: plotly is not installed (pip install 'gatedrnn[train]')", highlight=False)
    else:
        from gatedrnn.bench.page import write_page

        if page := write_page(record, output):
            console.print(f"time against length: {page}", soft_wrap=True, highlight=False)
    if findings.wrong:
        sys.exit(FAILED)


def _shape(text: str) -> Shape:
    try:
        batch, time, width = (int(size) for size in text.split("x"))
    except ValueError:
        raise UsageError(f"--shapes: {text!r} must be batch, time and width, as 8x1024x256") from None
    if min(batch, time, width) < 1:
        raise UsageError(f"--shapes: {text!r}: every size must be at least 1")
    return batch, time, width
