"""The source for a GPU of every scan cell: Python that reads each projection once and stores a gradient for each."""

import ast
import re

import pytest

from gatedrnn.codegen.scan_tile import tile_program
from gatedrnn.codegen.triton_source import triton_source
from gatedrnn.equations import ScanEquations
from gatedrnn.registry import CELLS

SCANS = {name: record.equations() for name, record in CELLS.items() if issubclass(record.equations, ScanEquations)}


@pytest.mark.parametrize("name", [name for name, cell in SCANS.items() if not cell.diagonals])
def test_the_source_is_of_functions_that_read_and_write_every_projection(name):
    cell = SCANS[name]
    program = tile_program(cell)
    functions = {part.name: ast.unparse(part) for part in ast.parse(triton_source(program)).body}
    assert {"coefficients", "gradient"} <= functions.keys()
    assert ("output" in functions) == ("of_state" in functions) == hasattr(cell, "output")
    assert program.gates == len(cell.projections)
    reading = functions["coefficients"] + functions.get("output", "")
    assert {int(n) for n in re.findall(r"= projection\(projected, offset, (\d+)", reading)} == set(range(program.gates))
    assert functions["gradient"].count("tl.store(") == program.gates
