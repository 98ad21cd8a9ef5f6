"""`python -m benchmarks`, from the repository."""

import sys
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from cyclopts import App, CycloptsError, Parameter

from benchmarks.record import DEFAULT, SECONDS, Request, SectionName
from benchmarks.sizes import Shape
from gatedrnn.cli.arguments import CellName, above_zero, command_line, use_large_pages
from gatedrnn.errors import FAILURE, USAGE, UsageError
from gatedrnn.terminal import Console

PROGRAM = "python -m benchmarks"
Device: TypeAlias = Literal["cpu", "cuda"]
Seconds: TypeAlias = Annotated[float, Parameter(validator=above_zero)]
app = App(name=PROGRAM, version_flags=[], default_parameter=Parameter(consume_multiple=True, negative=()))


@app.default
def measure(
    *,
    only: tuple[SectionName, ...] = DEFAULT,
    cells: tuple[CellName, ...] = (),
    shapes: tuple[str, ...] = (),
    device: Device = "cpu",
    compile: bool = False,
    seconds: Seconds = SECONDS,
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
        compile: Measure whole models under torch.compile too, which takes minutes to compile.
        seconds: Seconds for measuring, if all default sections run. More of them give narrower quartiles.
        output: Folder for bench.json and report.html.
    """
    sizes = tuple(_shape(text) for text in shapes)
    if "training" in only:
        use_large_pages()  # as every training does; of no effect after the first tensor, which these imports may make
    import torch

    from benchmarks.report import print_report, verdict, write_page
    from benchmarks.suite import SECTIONS, bench, record_of

    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: this torch sees no CUDA device; use --device cpu")
    request, console = Request(only, cells, sizes, device, seconds, compile), Console()
    with console.status("") as status:
        findings = bench(request, status.update)
    record = record_of(findings, request, command_line(PROGRAM))
    path = record.write(output)
    print_report(record, {name: section.title for name, section in SECTIONS.items()}, console)
    console.print(verdict(record), highlight=False)
    console.print(f"all numbers: {path}", soft_wrap=True, highlight=False)
    if page := write_page(record, output):
        console.print(f"time against length: {page}", soft_wrap=True, highlight=False)
    if findings.wrong:
        sys.exit(FAILURE)


def _shape(text: str) -> Shape:
    try:
        batch, time, width = (int(size) for size in text.split("x"))
    except ValueError:
        raise UsageError(f"--shapes: {text!r} must be batch, time and width, as 8x1024x256") from None
    if min(batch, time, width) < 1:
        raise UsageError(f"--shapes: {text!r}: every size must be at least 1")
    return batch, time, width


def main() -> None:
    """Run the command line; ends the process with 0, 1 (a wrong result) or 2 (usage)."""
    try:
        app(sys.argv[1:], exit_on_error=False, print_error=False)
    except (CycloptsError, UsageError) as error:
        print(f"benchmarks: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(USAGE)


if __name__ == "__main__":
    main()
