"""The cells that have a kernel, every variant, by the word that operations know them by."""

import torch

from gatedrnn.equations import GappedEquations, LoopEquations, ScanEquations
from gatedrnn.registry import CELLS

_ALL = [cell.equations(**options) for cell in CELLS.values() for options in ({}, *cell.variants)]
SCAN_KERNELS = {cell.word: cell for cell in _ALL if isinstance(cell, ScanEquations)}
LOOP_KERNELS = {
    cell.word: cell for cell in _ALL if isinstance(cell, LoopEquations) and not isinstance(cell, GappedEquations)
}


def by_channel(cell, channels, dtype, biased):
    """Random biases, if any, and diagonal weights after them, as the operations take them; None without both."""
    rows = biased * len(cell.projections) + len(cell.diagonals)
    return torch.randn(rows * channels, dtype=dtype) if rows else None


def apart(cell, channels, joined):
    """Those two again: the bias, or None, and the list of diagonal weights."""
    if joined is None:
        return None, []
    parts = list(joined.split(channels))
    count = len(parts) - len(cell.diagonals)
    return torch.cat(parts[:count]) if count else None, parts[count:]
