"""Compiled kernels for the CPU (Numba), each with its gradient."""

from gatedrnn.kernels.cpu._compile_ahead import compile_ahead
from gatedrnn.kernels.cpu.block import block_scan, block_scan_gradient, block_step
from gatedrnn.kernels.cpu.cross_entropy import cross_entropy
from gatedrnn.kernels.cpu.dropout import draws_as_torch, fill_dropout_mask
from gatedrnn.kernels.cpu.elementwise_loop import elementwise_loop, elementwise_loop_gradient
from gatedrnn.kernels.cpu.linear_scan import scan, scan_gradient
from gatedrnn.kernels.cpu.loop import LoopStates, Recurrence, loop_cells, loop_cells_gradient
from gatedrnn.kernels.cpu.masked_max import masked_max, masked_max_gradient
from gatedrnn.kernels.cpu.scan import (
    gated_scan,
    gated_scan_gradient,
    projected_scan,
    projected_scan_gradient,
)
from gatedrnn.kernels.cpu.step import WEIGHTS, gated_step, loop_step, stack_step

__all__ = [
    "WEIGHTS", "LoopStates", "Recurrence", "block_scan", "block_scan_gradient", "block_step", "compile_ahead",
    "cross_entropy", "draws_as_torch", "elementwise_loop", "elementwise_loop_gradient", "fill_dropout_mask",
    "gated_scan", "gated_scan_gradient", "gated_step", "loop_cells", "loop_cells_gradient", "loop_step",
    "masked_max", "masked_max_gradient", "projected_scan", "projected_scan_gradient", "scan", "scan_gradient",
    "stack_step",
]  # fmt: skip
