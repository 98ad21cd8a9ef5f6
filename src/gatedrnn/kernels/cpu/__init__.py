"""Compiled loops for the CPU (Numba), each with its gradient."""

from pathlib import Path

from gatedrnn.kernels.cpu.stale import forget_stale

forget_stale(Path(__file__).parent)  # before the kernels are imported, which reads what is kept

from gatedrnn.kernels.cpu.block_scanning import block_scan, block_scan_gradient  # noqa: E402
from gatedrnn.kernels.cpu.looping import Recurrence, Walked, loop_cells, loop_cells_gradient  # noqa: E402
from gatedrnn.kernels.cpu.projecting import projected_scan, projected_scan_gradient  # noqa: E402
from gatedrnn.kernels.cpu.scanning import gated_scan, gated_scan_gradient, scan, scan_gradient  # noqa: E402
from gatedrnn.kernels.cpu.scoring import cross_entropy  # noqa: E402
from gatedrnn.kernels.cpu.stepping import gated_step, stack_step  # noqa: E402

__all__ = [
    "Recurrence", "Walked", "block_scan", "block_scan_gradient", "cross_entropy", "gated_scan", "gated_scan_gradient",
    "gated_step", "loop_cells", "loop_cells_gradient", "projected_scan", "projected_scan_gradient", "scan",
    "scan_gradient", "stack_step",
]  # fmt: skip
