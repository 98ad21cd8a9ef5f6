"""gatedrnn bench."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter

from gatedrnn.benchmarking.record import DEFAULT, SECONDS, Request, SectionName, Shape
from gatedrnn.cli.arguments import CellName, above_zero, command_line, use_large_pages
from gatedrnn.errors import UsageError
from gatedrnn.extras import install_line
from gatedrnn.terminal import Console

if TYPE_CHECKING:
    from gatedrnn.benchmarking.run import SizesT, Suite

FAILED = 1
Device: TypeAlias = Literal["cpu", "cuda"]
Seconds: TypeAlias = Annotated[float, Parameter(validator=above_zero)]


def bench(
    *,
    only: tuple[SectionName, ...] = DEFAULT,
    cells: tuple[CellName, ...] = (),
    shapes: tuple[str, ...] = (),
    device: Device = "cpu",
    seconds: Seconds = SECONDS,
    output: Path = Path("runs/bench"),
) -> None:
    """Measure speed and memory, as ratios: to the input projection alone, to memory and to torch.

    What is compared runs in turn, in rounds; shown are medians and quartiles. Every contender is first held against its
    formula in float64: results that fail that check are not timed, and the exit code is 1. Run it on a machine that
    does nothing else. Under three minutes on two cores, with the defaults.

    Args:
        only: Sections to run.
        cells: Cells to measure; each section's own choice if none is named.
        shapes: Batch, time and width, as 8x1024x256, in the place of each section's own.
        device: Device that everything runs on.
        seconds: Seconds for measuring, if all sections run. More of them give narrower quartiles.
        output: Folder for bench.json and report.html.
    """
    request = checked(only, cells, shapes, device, seconds)
    if "training" in only:
        use_large_pages()  # as every training does
    from gatedrnn.benchmarking.run import SUITE

    run(SUITE, request, output, command_line())


def checked(
    only: tuple[str, ...], cells: tuple[str, ...], shapes: tuple[str, ...], device: Device, seconds: float
) -> Request:  # fmt: skip
    """Return the request of the flags.

    Raises:
        UsageError: there is no such device, or a shape is none.
    """
    sizes = tuple(_shape(text) for text in shapes)
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: this torch sees no CUDA device; use --device cpu")
    return Request(only, cells, sizes, device, seconds)


def run(suite: "Suite[SizesT]", request: Request, output: Path, command: str) -> None:
    """Measure, write bench.json and report.html, print the report; ends the process with 1 if a result is wrong."""
    from gatedrnn.benchmarking.report import print_report, verdict, write_page
    from gatedrnn.benchmarking.run import bench, record_of

    console = Console()
    with console.status("") as status:
        findings = bench(request, suite, status.update)
    record = record_of(findings, request, suite, command)
    path = record.write(output)
    print_report(record, {name: section.title for name, section in suite.sections.items()}, console)
    console.print(verdict(record), highlight=False)
    console.print(f"all numbers: {path}", soft_wrap=True, highlight=False)
    if find_spec("plotly") is None:
        console.print(f"no plot: plotly is not installed ({install_line('train')})", highlight=False)
    elif page := write_page(record, output):
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
