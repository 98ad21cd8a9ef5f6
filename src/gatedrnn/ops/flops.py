"""What `torch.utils.flop_counter` counts for the ops of this package: their matrix products, as of torch's own ops.

Elementwise work (gates, scans) is not counted, as torch does not count it. A gradient is twice its forward: one product
for the input or state, one for the weight; that an op computes something again in the backward is not counted.
"""

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any, TypeAlias

import torch

Shape: TypeAlias = Sequence[int]


@cache
def register_flop_formulas() -> None:
    """Make the formulas known to `FlopCounterMode`, once; a counter knows those that were there when it was made.

    Imported here: torch's module imports triton where that is installed, which `import gatedrnn` must not do.
    """
    from torch.utils.flop_counter import register_flop_formula

    for name, formula in FORMULAS.items():
        register_flop_formula(getattr(torch.ops.gatedrnn, name))(formula)


def _products(x: Shape, *weights: Shape | None) -> int:
    """Each row of x (batch, time, …) by each of these matrices: a multiplication and an addition for each element."""
    return 2 * x[0] * x[1] * sum(prod(weight) for weight in weights if weight is not None)


def _projected_scan(x: Shape, weight: Shape, *_: Any, **__: Any) -> int:
    return _products(x, weight)


def _projected_scan_gradient(
    grad_output: Shape, grad_last: Shape, x: Shape, weight: Shape, *others: Any, **_: Any
) -> int:
    of_x: bool = others[-1]
    return (2 if of_x else 1) * _products(x, weight)


def _loop_cells(
    projected: Shape, h0: Shape, c0: Shape | None, mask: Shape | None, resets: Shape | None, weight_hh: Shape,
    bias_hh: Shape | None, diagonals: Shape | None, weight_hr: Shape | None, *_: Any, **__: Any,
) -> int:  # fmt: skip
    return _products(projected, weight_hh, weight_hr)


def _loop_cells_gradient(
    grad_h: Shape, grad_last_h: Shape, grad_last_c: Shape | None, h: Shape, c: Shape, kept: Shape, *forward: Any,
    **_: Any,
) -> int:  # fmt: skip
    return 2 * _loop_cells(h, *forward)


def _torch_rnn(
    x: Shape, h: Shape, c: Shape | None, weight_ih: Shape, weight_hh: Shape, bias_ih: Shape | None,
    bias_hh: Shape | None, weight_hr: Shape | None, **_: Any,
) -> int:  # fmt: skip
    return _products(x, weight_ih, weight_hh, weight_hr)


def _torch_rnn_gradient(grad_output: Shape, grad_h: Shape, grad_c: Shape, *forward: Any, **_: Any) -> int:
    return 2 * _torch_rnn(*forward)


def _block_scan(transition: Shape, *_: Any, **__: Any) -> int:
    return 2 * prod(transition)  # each small block by the state


def _block_scan_gradient(grad_h: Shape, grad_last: Shape, transition: Shape, *_: Any, **__: Any) -> int:
    return 2 * _block_scan(transition)


def _elementwise(*_: Any, **__: Any) -> int:
    return 0


FORMULAS: dict[str, Callable[..., int]] = {
    "linear_scan": _elementwise, "linear_scan_gradient": _elementwise,
    "elementwise_loop": _elementwise, "elementwise_loop_gradient": _elementwise,
    "gated_scan": _elementwise, "gated_scan_gradient": _elementwise,
    "projected_scan": _projected_scan, "projected_scan_gradient": _projected_scan_gradient,
    "block_scan": _block_scan, "block_scan_gradient": _block_scan_gradient,
    "loop_cell": _loop_cells, "loop_cell_gradient": _loop_cells_gradient,
    "masked_max": _elementwise, "masked_max_gradient": _elementwise,
    "torch_rnn": _torch_rnn, "torch_rnn_gradient": _torch_rnn_gradient,
}  # fmt: skip
"""By the op's name below `torch.ops.gatedrnn`, from the shapes of its arguments."""
