"""The loss of quantiles of forecasts, in the units of their series; its gradient is computed in the same pass."""

from typing import Any

import torch
from torch import Tensor

from gatedrnn.kernels.backends import has_cpu_kernels, plain_torch_only
from gatedrnn.kernels.op import FLOPS, Gradients, elementwise, register_gradient, through
from gatedrnn.shapes import Flags

KERNEL_DTYPES = (torch.float32, torch.float64)


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
    given = forecast.to(wide).contiguous(), scale, future, unit, levels.to(wide), counted
    if wide in KERNEL_DTYPES and has_cpu_kernels(forecast.device) and not plain_torch_only():
        loss: Tensor = pinball_in_kernel(*given, torch.is_grad_enabled() and forecast.requires_grad)[0]
        return loss
    return _in_torch(*given)


def _in_torch(
    forecast: Tensor, scale: Tensor, future: Tensor, unit: Tensor, levels: Tensor, counted: Flags | None
) -> Tensor:  # fmt: skip
    mean, deviation, logged, low, high = (each.view(-1, 1, 1) for each in scale.unbind(1))
    centre = torch.where(logged > 0, mean.exp(), mean)
    true = future.unfold(1, forecast.shape[2], 1)
    distance = ((true - centre) / unit.view(-1, 1, 1)).to(forecast.dtype).unsqueeze(3)
    factor, deviation, below, above = (
        each.to(forecast.dtype).unsqueeze(3)
        for each in (
            torch.where(logged > 0, centre, deviation) / unit.view(-1, 1, 1), deviation, low - mean, high - mean,
        )
    )  # fmt: skip
    moved = torch.minimum(torch.maximum(deviation * forecast, below), above).expm1()
    error = distance - factor * torch.where(logged.unsqueeze(3) > 0, moved, forecast)
    labelled = ~true.isnan() if counted is None else ~true.isnan() & counted.unsqueeze(2)
    losses = torch.maximum(levels * error, (levels - 1) * error).masked_fill(~labelled.unsqueeze(3), 0.0)
    return losses.sum() / (labelled.sum() * len(levels)).clamp(min=1)


@torch.library.custom_op("gatedrnn::pinball_loss", mutates_args=())
def pinball_in_kernel(
    forecast: Tensor, scale: Tensor, future: Tensor, unit: Tensor, levels: Tensor, counted: Tensor | None,
    differentiated: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the loss, and its gradient, empty unless `differentiated`."""
    from gatedrnn.kernels.cpu import pinball_loss as kernel

    return kernel.pinball_loss(forecast, scale, future, unit, levels, counted, differentiated)


@pinball_in_kernel.register_fake
def _(
    forecast: Tensor, scale: Tensor, future: Tensor, unit: Tensor, levels: Tensor, counted: Tensor | None,
    differentiated: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return forecast.new_empty(()), forecast.new_empty(forecast.shape if differentiated else 0)


def _saves(outputs: tuple[Tensor, ...], **_: Any) -> tuple[Tensor]:
    return (outputs[1],)


def _backward(upstream: Gradients, saved: Gradients, needed: frozenset[str], **_arguments: Any) -> Gradients:
    (of_loss, _), (gradient,) = upstream, saved
    assert gradient is not None
    return (None if of_loss is None else gradient * of_loss,)


def _plain(differentiated: bool, **arguments: Any) -> tuple[Tensor]:
    return (_in_torch(**arguments),)


register_gradient(pinball_in_kernel, ("forecast",), _saves, _backward, through(_plain, ("forecast",)))
FLOPS |= {"pinball_loss": elementwise}
