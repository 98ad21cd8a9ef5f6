"""Compiled loops for the CPU (Numba), each with its gradient."""

from gatedrnn.kernels.cpu.looping import Recurrence, Walked, loop_cells, loop_cells_gradient
from gatedrnn.kernels.cpu.scanning import gated_scan, gated_scan_gradient, scan, scan_gradient

__all__ = [
    "Recurrence", "Walked", "gated_scan", "gated_scan_gradient", "loop_cells", "loop_cells_gradient", "scan",
    "scan_gradient",
]  # fmt: skip
