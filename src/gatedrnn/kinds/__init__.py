"""The kinds of cells, a package each: definition in plain torch, operation, generated rows, drivers for CPU and GPU."""

from gatedrnn.equations import Equations
from gatedrnn.kinds.block.path import BLOCK
from gatedrnn.kinds.kind import Kind
from gatedrnn.kinds.loop.path import LOOP
from gatedrnn.kinds.scan.log_space import LOG_SPACE
from gatedrnn.kinds.scan.path import ELEMENTWISE, SCAN
from gatedrnn.kinds.torch.path import TORCH

KINDS = (TORCH, LOOP, ELEMENTWISE, BLOCK, LOG_SPACE, SCAN)
"""Every kind, the more special before the more general."""


def kind_of(cell: Equations | type[Equations]) -> Kind:
    """Return the kind of a cell, an object or a class."""
    for kind in KINDS:
        if kind.equations(cell):
            return kind
    name = cell.__name__ if isinstance(cell, type) else type(cell).__name__
    raise TypeError(
        f"{name} must be one of ScanEquations, ElementwiseLoopEquations, LoopEquations and BlockScanEquations, see "
        "gatedrnn.equations"
    )
