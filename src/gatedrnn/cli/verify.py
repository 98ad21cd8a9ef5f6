"""gatedrnn verify."""

import sys
import time
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from gatedrnn.cli.arguments import CellName
from gatedrnn.terminal import Console

FAILED = 1


def verify(
    *cells: CellName,
    dtypes: tuple[Literal["float64", "float32", "bfloat16"], ...] = ("float64", "float32", "bfloat16"),
    full: bool = False,
    output: Annotated[Path, Parameter(name="--output")] = Path("runs/verify.json"),
) -> None:
    """Prove that every execution mode of a cell gives the same values and the same gradients.

    Each cell runs as a whole sequence, step by step, in chunks, packed, padded, reversed, with resets and with dropout,
    on every backend there is, against its own equations run step by step in float64, and those against plain numpy
    written from the papers. Exit code 1 if one value is further off than the table of tolerances allows. Values in
    brackets are those of the log-space scan, shown and not judged.

    Args:
        cells: Cells to verify; all if none is named.
        dtypes: Types of parameters and inputs.
        full: A line for every execution mode, not for the worst alone.
        output: JSON file of all values.
    """
    from gatedrnn.verify import report

    console, started = Console(), time.perf_counter()
    rows = []
    with console.status("") as status:
        for row in report.verify(cells, dtypes):
            rows.append(row)
            status.update(f"{row.cell} {row.dtype} {row.mode}")
    report.write_record(rows, output)
    report.print_tables(rows, console, full)
    console.print(f"{report.verdict(rows)} in {time.perf_counter() - started:.0f} s", highlight=False)
    console.print(f"all values: {output}", soft_wrap=True, highlight=False)
    if not all(row.holds for row in rows):
        sys.exit(FAILED)
