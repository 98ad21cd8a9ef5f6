"""The pinball loss of quantiles, in the units of their series.

An operation of its own: by some twenty of torch's, a forecast's training step takes a tenth longer.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from gatedrnn.kernels.op import Gradients, elementwise, has_kernel, operation, register_gradient, through
from gatedrnn.shapes import Flags


def pinball_loss(
    forecast: Tensor, scale: Tensor, future: Tensor, unit: Tensor, levels: Tensor, counted: Flags | None = None
) -> Tensor:  # fmt: skip
    """Return the mean over labels and levels of max(level · error, (level - 1) · error), error = (label - quantile) /
    unit, with quantiles taken from a window's own units to those of its series.

    Errors are formed from the distance to the window's centre, which loses no digit where values are large.

    Args:
        forecast: quantiles in the units of their windows, (batch, origins, horizon, levels).
        scale: of each window, (batch, 5), float64: the mean and the deviation, whether they are of logarithms (1 or 0),
            and the lowest and highest logarithm of a forecast, infinite where there are none.
        future: the labels of all origins, (batch, origins + horizon - 1), float64: those of the first origin, and one
            more for each further one. NaN where there is none.
        unit: (batch,), float64.
        levels: (levels,), between 0 and 1.
        counted: origins whose labels count, bool, (batch, origins); None for all.

    Example:
        >>> forecast, levels = torch.tensor([[[[1.0, 3.0]]]]), torch.tensor([0.1, 0.9])
        >>> scale = torch.tensor([[0.0, 1.0, 0.0, -torch.inf, torch.inf]]).double()
        >>> pinball_loss(forecast, scale, torch.tensor([[2.0]]).double(), torch.ones(1).double(), levels)
        tensor(0.1000)
    """
    wide = torch.promote_types(forecast.dtype, torch.float32)
    # The gradient comes with the loss, in one pass over the forecast; evaluation does without it.
    differentiated = torch.is_grad_enabled() and forecast.requires_grad
    given = Scored(forecast.to(wide).contiguous(), scale, future, unit, levels.to(wide), counted, differentiated)
    if has_kernel(given.forecast):
        loss: Tensor = pinball_op(*given)[0]
        return loss
    return given.in_torch()


class Scored(NamedTuple):
    """The arguments of `pinball_loss`, in float32 or float64."""

    forecast: Tensor
    scale: Tensor
    future: Tensor
    unit: Tensor
    levels: Tensor
    counted: Tensor | None
    differentiated: bool
    """Whether the gradient is computed with the loss."""

    def in_torch(self) -> Tensor:
        """Return the loss by operations of torch."""
        forecast, levels = self.forecast, self.levels
        mean, deviation, logged, low, high = (each.view(-1, 1, 1) for each in self.scale.unbind(1))
        centre, unit = torch.where(logged > 0, mean.exp(), mean), self.unit.view(-1, 1, 1)
        true = self.future.unfold(1, forecast.shape[2], 1)
        factor = torch.where(logged > 0, centre, deviation) / unit
        distance, factor, deviation, below, above = (
            each.to(forecast.dtype).unsqueeze(3)
            # A deviation of 0 where the formula of logarithms does not hold: e^x may be infinite there, and its slope
            # NaN.
            for each in ((true - centre) / unit, factor, torch.where(logged > 0, deviation, 0), low - mean, high - mean)
        )
        moved = torch.minimum(torch.maximum(deviation * forecast, below), above).expm1()
        error = distance - factor * torch.where(logged.unsqueeze(3) > 0, moved, forecast)
        labelled = ~true.isnan() if self.counted is None else ~true.isnan() & self.counted.unsqueeze(2)
        losses = torch.maximum(levels * error, (levels - 1) * error).masked_fill(~labelled.unsqueeze(3), 0.0)
        return losses.sum() / (labelled.sum() * len(levels)).clamp(min=1)


def _run(given: Scored) -> tuple[Tensor, Tensor]:
    """The loss, and its gradient, empty unless `differentiated`."""
    from gatedrnn.models import pinball_kernel

    return pinball_kernel.pinball(*given)


def _fake(given: Scored) -> tuple[Tensor, Tensor]:
    return given.forecast.new_empty(()), given.forecast.new_empty(given.forecast.shape if given.differentiated else 0)


def _backward(upstream: Gradients, saved: Gradients, needed: frozenset[str], **arguments: Any) -> Gradients:
    (of_loss, *_), (gradient,) = upstream, saved
    return (None if of_loss is None or gradient is None else gradient * of_loss,)


def _reference(**arguments: Any) -> tuple[Tensor]:
    return (Scored(**arguments).in_torch(),)


pinball_op = operation("pinball_loss", (Scored,), 2, _run, _fake, elementwise)
register_gradient(
    pinball_op, ("forecast",), lambda outputs, **_: (outputs[1],), _backward, through(_reference, ("forecast",))
)
