"""Scans without a layer: of channels, of blocks, over logarithms."""

from gatedrnn.kernels.backends import choose_backend
from gatedrnn.kinds.block.op import block_scan, choose_block_backend
from gatedrnn.kinds.scan.log_space import log_space_scan
from gatedrnn.kinds.scan.op import linear_scan

__all__ = [
    "block_scan", "choose_backend", "choose_block_backend", "linear_scan", "log_space_scan",
]  # fmt: skip
