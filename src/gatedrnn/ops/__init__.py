"""The operations, one file each: contract, plain torch definition, choice of backend, gradient and second gradient."""

from gatedrnn.ops.backends import choose_backend
from gatedrnn.ops.block_scan import block_scan, choose_block_backend
from gatedrnn.ops.dropout import dropout
from gatedrnn.ops.linear_scan import linear_scan
from gatedrnn.ops.log_space import log_space_scan
from gatedrnn.ops.masked_max import masked_max

__all__ = [
    "block_scan", "choose_backend", "choose_block_backend", "dropout", "linear_scan", "log_space_scan", "masked_max",
]  # fmt: skip
