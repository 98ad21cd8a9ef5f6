"""Equations by the word that operations know them by.

A registered operation takes tensors, numbers and strings; its fake form and its second derivative need the cell's
equations. `known` files them under the cell's word, such as "gru" or "gru:reset_after=false".
"""

from typing import TypeVar

from gatedrnn.equations import BlockKernel, Equations, LoopKernel, ScanKernel

Cell = TypeVar("Cell", bound=Equations)
CLASSES: dict[str, type[Equations]] = {}
"""The equations of each registered cell: a class derived from them may compute something else, and has no kernel."""
EQUATIONS: dict[str, Equations] = {}


def known(cell: Cell) -> Cell:
    """`cell` itself, which operations can find from now on."""
    if CLASSES.get(cell.name) is type(cell):
        EQUATIONS[cell.word] = cell
    return cell


def scan_kernel(cell: Equations) -> ScanKernel | None:
    """The record of the fused scan kernel that computes these very equations."""
    return cell.kernel if isinstance(cell.kernel, ScanKernel) and CLASSES.get(cell.name) is type(cell) else None


def loop_kernel(cell: Equations) -> LoopKernel | None:
    """The same of the loop kernel."""
    return cell.kernel if isinstance(cell.kernel, LoopKernel) and CLASSES.get(cell.name) is type(cell) else None


def block_kernel(cell: Equations) -> BlockKernel | None:
    """The same of the kernel for a step of blocks."""
    return cell.kernel if isinstance(cell.kernel, BlockKernel) and CLASSES.get(cell.name) is type(cell) else None
