"""The scan and the gated scans as Triton kernels, with their gradients; CUDA builds of torch bring Triton along."""

from gatedrnn.equations import BlockKernel, LoopKernel, ScanKernel
from gatedrnn.kernels.gpu.gated import gated_scan, gated_scan_gradient
from gatedrnn.kernels.gpu.scan import scan, scan_gradient

__all__ = ["gated_scan", "gated_scan_gradient", "scan", "scan_gradient", "supports"]


def supports(kernel: ScanKernel | LoopKernel | BlockKernel) -> bool:
    """Whether the functions here run a cell with this record."""
    return isinstance(kernel, ScanKernel)
