"""The source for a GPU of every scan cell: Python that reads each projection once and stores a gradient for each."""

import ast
import re

import pytest

from gatedrnn.equations import ScanEquations
from gatedrnn.kinds.scan.rows import trace_tiles
from gatedrnn.registry import CELLS

SCANS = {name: record.equations() for name, record in CELLS.items() if issubclass(record.equations, ScanEquations)}


@pytest.mark.parametrize("name", [name for name, cell in SCANS.items() if not cell.diagonals])
def test_the_source_is_of_functions_that_read_and_write_every_projection(name):
    cell = SCANS[name]
    program = trace_tiles(cell)
    functions = {part.name: ast.unparse(part) for part in ast.parse(program.source()).body}
    assert {"coefficients", "gradient"} <= functions.keys()
    assert ("output" in functions) == ("of_state" in functions) == (cell.output is not None)
    assert program.gates == len(cell.projections)
    reading = functions["coefficients"] + functions.get("output", "")
    assert {int(n) for n in re.findall(r"= projection\(projected, offset, (\d+)", reading)} == set(range(program.gates))
    assert functions["gradient"].count("tl.store(") == program.gates
