"""The kinds of cells, a package each: definition in plain torch, operation, generated rows, drivers for CPU and GPU."""

from typing import Any

from torch import device, float32

from gatedrnn.equations import Equations
from gatedrnn.kinds.block.path import BLOCK
from gatedrnn.kinds.kind import Kernel, Kind
from gatedrnn.kinds.loop.path import LOOP
from gatedrnn.kinds.scan.log_space import LOG_SPACE
from gatedrnn.kinds.scan.path import ELEMENTWISE, SCAN
from gatedrnn.kinds.torch.path import TORCH

KINDS: tuple[Kind[Any], ...] = (TORCH, LOOP, ELEMENTWISE, BLOCK, LOG_SPACE, SCAN)
"""Every kind, the more special before the more general."""


def kind_of(cell: Equations | type[Equations]) -> Kind[Any]:
    """Return the kind of a cell, an object or a class."""
    for kind in KINDS:
        if kind.claims(cell):
            return kind
    name = cell.__name__ if isinstance(cell, type) else type(cell).__name__
    raise TypeError(
        f"{name} must be one of ScanEquations, ElementwiseLoopEquations, LoopEquations and BlockScanEquations, see "
        "gatedrnn.equations"
    )


def kernel_of(cell: Equations, device_type: str = "cpu") -> Kernel:
    """Return the kernel of a cell in float32 on a device of this type."""
    return kind_of(cell).kernel(cell, device(device_type), float32)
