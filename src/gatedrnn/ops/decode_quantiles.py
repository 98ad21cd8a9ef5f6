"""Quantiles of a forecast from what simple smoothers say of each step ahead, and from what a network adds to that."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from gatedrnn.kernels.backends import has_cpu_kernels, observed, plain_torch_only
from gatedrnn.kernels.op import FLOPS, Gradients, elementwise, register_gradient, through

KERNEL_DTYPES = (torch.float32, torch.float64)
WIDTH = 1.0
"""The initial width of intervals: softplus(1), 1.31, mean changes of the series on either side of the median, times the
root of the steps ahead: 80 % of a random walk."""


def decode_quantiles(
    mixture: Tensor, offsets: Tensor, correction: Tensor | None, prior: Tensor, typical: Tensor | None, levels: Tensor,
    slopes: Tensor, distances: Tensor, seasons: Tensor, repeated: Tensor, change: Tensor, factors: Tensor,
    bands: Tensor | None, trust: float, middle: int,
) -> Tensor:  # fmt: skip
    """Return the quantiles (forecasts, horizon, quantiles) of each step ahead, rising.

    The median is a mixture of what each smoother says, whose weights are softmax(trust · mixture + typical +
    prior / root(step)), plus a correction and trust · offset of the median in units of change · root(step). Other
    quantiles are distances from it that add up, softplus(trust · offset + 1) · factor · band in the same units.

    Args:
        mixture: (forecasts, smoothers + periods, horizon).
        offsets: (forecasts, horizon, quantiles).
        correction: (forecasts, horizon), or None.
        prior: (forecasts, smoothers + periods).
        typical: (smoothers + periods, horizon), or None.
        levels, slopes, distances, seasons, repeated: as in `said_ahead`; they have no gradient, nor have those below.
        change: (forecasts,), the unit of one step.
        factors: of the distances between quantiles, (forecasts, quantiles); that of the median has no meaning.
        bands: the same of each step, (horizon, quantiles), or None.
        trust: how far the learned numbers count, from 0 to 1.
        middle: the index of the median among the quantiles.
    """
    wide = torch.promote_types(mixture.dtype, torch.float32)
    read = (
        mixture, offsets, correction, prior, typical, levels, slopes, distances, seasons, repeated, change, factors,
        bands,
    )  # fmt: skip
    given: Any = *(None if each is None else each.to(wide).contiguous() for each in read), trust, middle
    if wide not in KERNEL_DTYPES or not has_cpu_kernels(mixture.device) or plain_torch_only():
        return _in_torch(*given)
    # A stream waits for its forecast: an operation's dispatch would take a third of the time.
    decode = decode_in_kernel if torch.is_grad_enabled() or observed(mixture) else _in_kernel
    quantiles: Tensor = decode(*given)[0]
    return quantiles


def said_ahead(levels: Tensor, slopes: Tensor, distances: Tensor, seasons: Tensor, repeated: Tensor) -> Tensor:
    """Return the forecast of each smoother, and of each period, (forecasts, smoothers + periods, horizon).

    Args:
        levels, slopes: (forecasts, smoothers).
        distances: how many slopes lie between a level and a step ahead, (smoothers, horizon).
        seasons: what the seasons add, (forecasts, horizon).
        repeated: the last values of each period again, (forecasts, periods, horizon).
    """
    ahead = levels.unsqueeze(2) + slopes.unsqueeze(2) * distances + seasons.unsqueeze(1)
    return torch.cat([ahead, repeated], dim=1)


def _in_torch(
    mixture: Tensor, offsets: Tensor, correction: Tensor | None, prior: Tensor, typical: Tensor | None, levels: Tensor,
    slopes: Tensor, distances: Tensor, seasons: Tensor, repeated: Tensor, change: Tensor, factors: Tensor,
    bands: Tensor | None, trust: float, middle: int,
) -> Tensor:  # fmt: skip
    root = roots(mixture.shape[2], mixture)
    logits = trust * mixture + prior.unsqueeze(2) / root
    weights = (logits if typical is None else logits + typical).softmax(1)
    said = (weights * said_ahead(levels, slopes, distances, seasons, repeated)).sum(1)
    unit = (change.unsqueeze(1) * root).unsqueeze(2)
    offsets = trust * offsets
    median = (said if correction is None else said + correction).unsqueeze(2) + unit * offsets[..., middle, None]
    apart = softplus(offsets + WIDTH) * unit * (factors.unsqueeze(1) if bands is None else factors.unsqueeze(1) * bands)
    above = median + apart[..., middle + 1 :].cumsum(-1)
    below = median - apart[..., :middle].flip(-1).cumsum(-1).flip(-1)
    return torch.cat([below, median, above], dim=-1)


def roots(horizon: int, like: Tensor) -> Tensor:
    """Return the square roots of the steps ahead."""
    return torch.arange(1, horizon + 1, device=like.device, dtype=like.dtype).sqrt()


def _in_kernel(
    mixture: Tensor, offsets: Tensor, correction: Tensor | None, prior: Tensor, typical: Tensor | None, levels: Tensor,
    slopes: Tensor, distances: Tensor, seasons: Tensor, repeated: Tensor, change: Tensor, factors: Tensor,
    bands: Tensor | None, trust: float, middle: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the quantiles, the weights of the mixture, and the mixture itself."""
    from gatedrnn.kernels.cpu import decode_quantiles as kernel

    said = levels, slopes, distances, seasons, repeated
    return kernel.decode(mixture, offsets, correction, prior, typical, said, change, factors, bands, trust, middle)


decode_in_kernel = torch.library.custom_op("gatedrnn::decode_quantiles", mutates_args=())(_in_kernel)


@decode_in_kernel.register_fake
def _(mixture: Tensor, offsets: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return offsets.new_empty(offsets.shape), mixture.new_empty(mixture.shape), offsets.new_empty(offsets.shape[:2])


@torch.library.custom_op("gatedrnn::decode_quantiles_gradient", mutates_args=())
def decode_gradient(
    upstream: Tensor, offsets: Tensor, levels: Tensor, slopes: Tensor, distances: Tensor, seasons: Tensor,
    repeated: Tensor, change: Tensor, factors: Tensor, bands: Tensor | None, weights: Tensor, mixed: Tensor,
    trust: float, middle: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the gradients of mixture, offsets and correction."""
    from gatedrnn.kernels.cpu import decode_quantiles as kernel

    said = levels, slopes, distances, seasons, repeated
    return kernel.decode_gradient(upstream, offsets, said, change, factors, bands, weights, mixed, trust, middle)


@decode_gradient.register_fake
def _(
    upstream: Tensor, offsets: Tensor, levels: Tensor, slopes: Tensor, distances: Tensor, seasons: Tensor,
    repeated: Tensor, change: Tensor, factors: Tensor, bands: Tensor | None, weights: Tensor, mixed: Tensor,
    trust: float, middle: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return weights.new_empty(weights.shape), offsets.new_empty(offsets.shape), mixed.new_empty(mixed.shape)


def _saves(outputs: tuple[Tensor, ...], **_: Any) -> tuple[Tensor | None, ...]:
    _quantiles, weights, mixed = outputs
    return weights, mixed


def _backward(
    upstream: Gradients, saved: Gradients, needed: frozenset[str], *, offsets: Tensor, correction: Tensor | None,
    levels: Tensor, slopes: Tensor, distances: Tensor, seasons: Tensor, repeated: Tensor, change: Tensor,
    factors: Tensor, bands: Tensor | None, trust: float, middle: int, **_: Any,
) -> Gradients:  # fmt: skip
    (of_quantiles, *_others), (weights, mixed) = upstream, saved
    if of_quantiles is None:
        return None, None, None
    assert weights is not None and mixed is not None
    of_mixture, of_offsets, of_correction = decode_gradient(
        of_quantiles, offsets, levels, slopes, distances, seasons, repeated, change, factors, bands, weights, mixed,
        trust, middle,
    )  # fmt: skip
    return of_mixture, of_offsets, None if correction is None else of_correction


def _plain(**arguments: Any) -> tuple[Tensor]:
    return (_in_torch(**arguments),)


_DIFFERENTIABLE = ("mixture", "offsets", "correction")
register_gradient(decode_in_kernel, _DIFFERENTIABLE, _saves, _backward, through(_plain, _DIFFERENTIABLE))
FLOPS |= {"decode_quantiles": elementwise, "decode_quantiles_gradient": elementwise}
