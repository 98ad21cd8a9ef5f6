"""h_t = a_t * h_(t-1) + b_t: the one recurrence of all scan cells, a_t a number a channel or a small block."""

from gatedrnn.ops.block_scan import block_scan, choose_block_backend
from gatedrnn.ops.graph import gradients_with_graph
from gatedrnn.ops.linear_scan import (
    accumulation_dtype,
    choose_backend,
    forward_mode,
    implementation,
    linear_scan,
    torch_alone,
    transforming,
)
from gatedrnn.ops.log_space import LOG_ZERO, log_space_scan
from gatedrnn.ops.steps import exporting_to_onnx, over_time

__all__ = [
    "LOG_ZERO", "accumulation_dtype", "block_scan", "choose_backend",
    "choose_block_backend", "exporting_to_onnx", "forward_mode", "gradients_with_graph", "implementation",
    "linear_scan", "log_space_scan", "over_time", "torch_alone", "transforming",
]  # fmt: skip
