"""Equations by the word that operations know them by.

A registered operation takes tensors, numbers and strings; its fake form and its second derivative need the cell's
equations. `known` files them under the cell's word, such as "gru" or "gru:reset_after=false".
"""

from typing import TypeVar

from gatedrnn.codegen.elementwise import CellProgram
from gatedrnn.codegen.elementwise import cell_program as traced
from gatedrnn.codegen.loop import LoopProgram
from gatedrnn.codegen.loop import loop_program as traced_loop
from gatedrnn.codegen.scan_tile import TileProgram
from gatedrnn.codegen.scan_tile import tile_program as traced_tile
from gatedrnn.equations import (
    BlockKernel,
    ElementwiseLoopEquations,
    Equations,
    LoopEquations,
    ScanEquations,
)
from gatedrnn.errors import CannotBeTraced

Cell = TypeVar("Cell", bound=Equations)
CLASSES: dict[str, type[Equations]] = {}
"""The equations of each registered cell: a class derived from them may compute something else, and has no kernel."""
EQUATIONS: dict[str, Equations] = {}
_TRACED = (ScanEquations, ElementwiseLoopEquations, LoopEquations)
_PROGRAMS: dict[str, CellProgram | LoopProgram | str] = {}
"""By the word; a string is why there is none, which `torch.compile` reads where it would not read an error."""
_TILES: dict[str, TileProgram] = {}


def known(cell: Cell) -> Cell:
    """`cell` itself, which operations can find from now on."""
    if CLASSES.get(cell.name) is type(cell) and type(EQUATIONS.get(cell.word)) is not type(cell):
        EQUATIONS[cell.word] = cell
        for programs in (_PROGRAMS, _TILES):
            programs.pop(cell.word, None)  # a class that was defined again may compute something else
        _program(cell)  # here, for `torch.compile` cannot look into it
    return cell


def cell_program(cell: Equations) -> CellProgram | None:
    """What kernels run a cell without products in time by; None where its equations cannot be traced, or are no
    registered cell's."""
    found = _program(cell)
    return found if isinstance(found, CellProgram) else None


def loop_program(cell: Equations) -> LoopProgram | None:
    """The same of a loop cell."""
    found = _program(cell)
    return found if isinstance(found, LoopProgram) else None


def why_no_program(cell: Equations) -> str | None:
    """Why neither gives anything for a cell whose equations could not be traced; else None."""
    found = _program(cell)
    return found if isinstance(found, str) else None


def _program(cell: Equations) -> CellProgram | LoopProgram | str | None:
    if not isinstance(cell, _TRACED) or CLASSES.get(cell.name) is not type(cell):
        return None
    if cell.word not in _PROGRAMS:
        try:
            _PROGRAMS[cell.word] = traced_loop(cell) if isinstance(cell, LoopEquations) else traced(cell)
        except CannotBeTraced as error:
            _PROGRAMS[cell.word] = str(error)
    return _PROGRAMS[cell.word]


def tile_program(cell: Equations) -> TileProgram | None:
    """The parts of a scan cell, for kernels of a GPU; None where `cell_program` gives none either, and for a cell with
    diagonal weights."""
    if cell_program(cell) is None or not isinstance(cell, ScanEquations) or cell.diagonals:
        return None
    if cell.word not in _TILES:
        _TILES[cell.word] = traced_tile(cell)
    return _TILES[cell.word]


def block_kernel(cell: Equations) -> BlockKernel | None:
    """The record of the kernel for a step of blocks that computes these very equations."""
    return cell.kernel if isinstance(cell.kernel, BlockKernel) and CLASSES.get(cell.name) is type(cell) else None
