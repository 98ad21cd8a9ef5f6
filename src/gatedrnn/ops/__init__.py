"""Operations of layers and models: scans, dropout, the maximum over steps, the loss of a language model."""

from gatedrnn.kernels.backends import choose_backend
from gatedrnn.kinds.block.op import block_scan, choose_block_backend
from gatedrnn.kinds.scan.log_space import log_space_scan
from gatedrnn.kinds.scan.op import linear_scan
from gatedrnn.ops.dropout import dropout
from gatedrnn.ops.masked_max import masked_max

__all__ = [
    "block_scan", "choose_backend", "choose_block_backend", "dropout", "linear_scan", "log_space_scan", "masked_max",
]  # fmt: skip
