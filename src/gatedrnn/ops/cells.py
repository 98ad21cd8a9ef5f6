"""Equations by the word that operations know them by.

A registered operation takes tensors, numbers and strings; its fake form and its second derivative need the cell's
equations. `known` files them under the cell's word, such as "gru" or "gru:reset_after=false".
"""

import copy
from typing import NamedTuple, TypeVar

from gatedrnn.codegen.elementwise import CellProgram
from gatedrnn.codegen.elementwise import cell_program as traced
from gatedrnn.codegen.loop import LoopProgram
from gatedrnn.codegen.loop import loop_program as traced_loop
from gatedrnn.codegen.reads import Reads, reads_of
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
NO_READS = Reads((), ())


class Made(NamedTuple):
    """What was made of a cell's equations."""

    program: CellProgram | LoopProgram | str | None
    """A string is why there is none, which `torch.compile` reads where it would not read an error."""
    reads: Reads
    """What else the equations read, for which alone the program holds."""


_MADE: dict[str, Made] = {}
"""By the word."""
_TILES: dict[str, TileProgram] = {}


def known(cell: Cell, anew: bool = False) -> Cell:
    """`cell` itself, which operations can find from now on.

    Args:
        anew: make its kernels again, by what its equations read now.
    """
    if CLASSES.get(cell.name) is type(cell) and (anew or type(EQUATIONS.get(cell.word)) is not type(cell)):
        EQUATIONS[cell.word] = copy.copy(cell)  # whose attributes stay
        _TILES.pop(cell.word, None)  # a class that was defined again may compute something else
        _MADE[cell.word] = _made(cell)  # here, for `torch.compile` cannot look into it
    return cell


def cell_program(cell: Equations) -> CellProgram | None:
    """What kernels run a cell without products in time by; None where its equations cannot be traced or read something
    that has changed, or are no registered cell's."""
    found = _program(cell)
    return found if isinstance(found, CellProgram) else None


def loop_program(cell: Equations) -> LoopProgram | None:
    """The same of a loop cell."""
    found = _program(cell)
    return found if isinstance(found, LoopProgram) else None


def program_of(word: str) -> CellProgram | LoopProgram:
    """What kernels run the cell of this word by, which has one: a gradient is that of the forward, whatever changed."""
    found = _MADE[word].program
    assert isinstance(found, (CellProgram, LoopProgram))
    return found


def why_no_program(cell: Equations) -> str | None:
    """Why neither gives anything for a registered cell; None if one does."""
    if CLASSES.get(cell.name) is not type(cell):
        return None
    program, reads = _made_of(cell)
    if isinstance(program, str):
        return program
    return None if reads.hold(cell) else reads.change(cell)


def _program(cell: Equations) -> CellProgram | LoopProgram | str | None:
    if CLASSES.get(cell.name) is not type(cell):
        return None
    program, reads = _made_of(cell)
    return program if reads.hold(cell) else None


def _made_of(cell: Equations) -> Made:
    if cell.word not in _MADE:
        _MADE[cell.word] = _made(cell)
    return _MADE[cell.word]


def _made(cell: Equations) -> Made:
    if not isinstance(cell, _TRACED):
        return Made(None, NO_READS)
    try:
        reads = reads_of(cell)
        return Made(traced_loop(cell) if isinstance(cell, LoopEquations) else traced(cell), reads)
    except CannotBeTraced as error:
        return Made(str(error), NO_READS)


def tile_program(cell: Equations) -> TileProgram | None:
    """The parts of a scan cell, for kernels of a GPU; None where `cell_program` gives none either, and for a cell with
    diagonal weights."""
    if cell_program(cell) is None or not isinstance(cell, ScanEquations) or cell.diagonals:
        return None
    return tile_of(cell.word)


def tile_of(word: str) -> TileProgram:
    """That of the cell of this word, which has one."""
    if word not in _TILES:
        cell = EQUATIONS[word]
        assert isinstance(cell, ScanEquations)
        _TILES[word] = traced_tile(cell)
    return _TILES[word]


def block_kernel(cell: Equations) -> BlockKernel | None:
    """The record of the kernel for a step of blocks that computes these very equations."""
    return cell.kernel if isinstance(cell.kernel, BlockKernel) and CLASSES.get(cell.name) is type(cell) else None
