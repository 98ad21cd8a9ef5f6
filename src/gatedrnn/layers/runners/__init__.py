"""Runners: what runs a layer over time, by its kind of cell: which kernel, and why not another. One file a kind.

A layer has one and adds everything that all kinds share.
"""

from gatedrnn.equations import (
    BlockScanEquations,
    ElementwiseLoopEquations,
    Equations,
    LoopEquations,
    PositiveScanEquations,
    ScanEquations,
)
from gatedrnn.layers.runners.block import BLOCK
from gatedrnn.layers.runners.log_space import LOG_SPACE
from gatedrnn.layers.runners.loop import LOOP
from gatedrnn.layers.runners.record import Direction, Path, Runner
from gatedrnn.layers.runners.scan import SCAN
from gatedrnn.layers.runners.torch import TORCH

__all__ = ["Direction", "Path", "Runner", "runner_of"]


def runner_of(cell: Equations) -> Runner:
    """The runner of a cell."""
    if cell.torch_kernel is not None:
        return TORCH
    if isinstance(cell, (LoopEquations, ElementwiseLoopEquations)):
        return LOOP
    if isinstance(cell, BlockScanEquations):
        return BLOCK
    if isinstance(cell, PositiveScanEquations) and cell.log_space:
        return LOG_SPACE
    if isinstance(cell, ScanEquations):
        return SCAN
    raise TypeError(
        f"{type(cell).__name__} must be one of ScanEquations, ElementwiseLoopEquations, LoopEquations and "
        "BlockScanEquations, see gatedrnn.equations"
    )
