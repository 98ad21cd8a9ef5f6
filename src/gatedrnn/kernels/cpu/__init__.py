"""Compiled loops for the CPU (Numba), each with its gradient."""

from gatedrnn.equations import BlockKernel, LoopKernel, ScanKernel
from gatedrnn.kernels.cpu.ahead import compiled_ahead
from gatedrnn.kernels.cpu.block_scanning import block_scan, block_scan_gradient
from gatedrnn.kernels.cpu.block_stepping import block_step
from gatedrnn.kernels.cpu.gates import BRANCHES
from gatedrnn.kernels.cpu.loop_stepping import WEIGHTS, loop_step
from gatedrnn.kernels.cpu.looping import Recurrence, Walked, loop_cells, loop_cells_gradient
from gatedrnn.kernels.cpu.projecting import projected_scan, projected_scan_gradient
from gatedrnn.kernels.cpu.scanning import gated_scan, gated_scan_gradient, scan, scan_gradient
from gatedrnn.kernels.cpu.scoring import cross_entropy
from gatedrnn.kernels.cpu.stepping import gated_step, stack_step

__all__ = [
    "WEIGHTS", "Recurrence", "Walked", "block_scan", "block_scan_gradient", "block_step", "compiled_ahead",
    "cross_entropy", "gated_scan", "gated_scan_gradient", "gated_step", "loop_cells", "loop_cells_gradient",
    "loop_step", "projected_scan", "projected_scan_gradient", "scan", "scan_gradient",
    "stack_step", "supports",
]  # fmt: skip


def supports(record: ScanKernel | LoopKernel | BlockKernel) -> bool:
    """Whether the functions here run a cell with this record."""
    return not isinstance(record, ScanKernel) or (record.decay, record.activation) in BRANCHES
