"""The cells that have a kernel, every variant, by the word that operations know them by."""

from gatedrnn.equations import GappedEquations, LoopEquations, ScanEquations
from gatedrnn.registry import CELLS

_ALL = [cell.equations(**options) for cell in CELLS.values() for options in ({}, *cell.variants)]
SCAN_KERNELS = {cell.word: cell for cell in _ALL if isinstance(cell, ScanEquations)}
LOOP_KERNELS = {
    cell.word: cell for cell in _ALL if isinstance(cell, LoopEquations) and not isinstance(cell, GappedEquations)
}
