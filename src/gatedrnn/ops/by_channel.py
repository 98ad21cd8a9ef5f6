"""What a cell without products in time has for each channel, as the one tensor that its operations take.

The biases of the projections, if there are any, then the diagonal weights, in the cell's order.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gatedrnn.equations import ElementwiseLoopEquations, ScanEquations
from gatedrnn.ops.backends import accumulation_dtype
from gatedrnn.shapes import Channels, Projections


def by_channel(
    cell: ScanEquations | ElementwiseLoopEquations, bias: Tensor | None, diagonals: Sequence[Channels]
) -> Tensor | None:  # fmt: skip
    """The bias of all projections and the diagonal weights as one tensor; None where there are neither."""
    if not cell.diagonals:
        return bias
    wide = accumulation_dtype(diagonals[0].dtype)
    return torch.cat([each.to(wide) for each in (*(() if bias is None else (bias,)), *diagonals)])


def biased_and_diagonals(
    cell: ScanEquations | ElementwiseLoopEquations, projected: Projections, joined: Tensor | None
) -> tuple[Projections, dict[str, Channels]]:  # fmt: skip
    """The reverse of `by_channel`: the projections with their bias, summed as kernels do, in the dtype of accumulation,
    and the diagonal weights by the names of their parameters."""
    if joined is None:
        return projected, {}
    channels = projected.shape[-1] // len(cell.projections)
    own = joined.split(channels)[len(joined) // channels - len(cell.diagonals) :] if cell.diagonals else ()
    bias = joined[: len(joined) - len(own) * channels]
    whole = projected.to(accumulation_dtype(projected.dtype))
    named = {f"weight_{name}": weight for name, weight in zip(cell.diagonals, own, strict=True)}
    return whole + bias if len(bias) else whole, named
