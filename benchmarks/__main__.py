"""`python -m benchmarks --only SECTION ...`, from the repository."""

import sys
from pathlib import Path

from cyclopts import App, CycloptsError, Parameter

from benchmarks.suite import SectionName, suite
from gatedrnn.benchmarking.record import SECONDS
from gatedrnn.cli.arguments import CellName, command_line
from gatedrnn.cli.bench import Device, Seconds, checked, run
from gatedrnn.errors import USAGE, UsageError

PROGRAM = "python -m benchmarks"
app = App(name=PROGRAM, version_flags=[], default_parameter=Parameter(consume_multiple=True, negative=()))


@app.default
def measure(
    *,
    only: tuple[SectionName, ...],
    cells: tuple[CellName, ...] = (),
    shapes: tuple[str, ...] = (),
    device: Device = "cpu",
    compile: bool = False,
    seconds: Seconds = SECONDS,
    output: Path = Path("runs/benchmarks"),
) -> None:
    """Measure speed and memory, as `gatedrnn bench` does, of what this project alone compares.

    Args:
        only: Sections to run.
        cells: Which ones; each section's own choice if none is named.
        shapes: Batch, time and width, as 8x1024x256, in the place of each section's own.
        device: What everything runs on.
        compile: Whole models under torch.compile too, which takes minutes to compile.
        seconds: For measuring; each section takes its part, and those of minutes some times as many.
        output: Folder for bench.json.
    """
    request = checked(only, cells, shapes, device, seconds)
    run(suite(compile), request, output, command_line(PROGRAM))


def main() -> None:
    """Run the command line; ends the process with 0, 1 (a wrong result) or 2 (usage)."""
    try:
        app(sys.argv[1:], exit_on_error=False, print_error=False)
    except (CycloptsError, UsageError) as error:
        print(f"benchmarks: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(USAGE)


if __name__ == "__main__":
    main()
