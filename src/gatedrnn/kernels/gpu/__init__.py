"""The scan and the gated scans as Triton kernels, with their gradients; CUDA builds of torch bring Triton along."""

from gatedrnn.kernels.gpu.gated import gated_scan, gated_scan_gradient
from gatedrnn.kernels.gpu.scan import scan, scan_gradient

__all__ = ["gated_scan", "gated_scan_gradient", "scan", "scan_gradient"]
