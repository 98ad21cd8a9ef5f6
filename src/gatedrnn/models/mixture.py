"""The mixture of what simple smoothers and seasons say of each step ahead.

An operation of its own: the forecasts of all smoothers, their weights and the product of both are the largest tensors
of a forecast's training step, which takes 1.2 times as long where torch writes and reads each of them.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from gatedrnn.kernels.backends import observed
from gatedrnn.kernels.op import Gradients, elementwise, has_kernel, operation, register_gradient, through
from gatedrnn.models.smoothing import smoother_forecasts


class Mixture(NamedTuple):
    """The numbers that a mixture is made of; only the learned logits have a gradient."""

    learned: Tensor
    """Logits that a network gives, (forecasts, smoothers + periods, horizon)."""
    prior: Tensor
    """Logits of the next step, (forecasts, smoothers + periods); over the root of the steps ahead for later ones."""
    usual: Tensor | None
    """Logits of every forecast alike, (smoothers + periods, horizon)."""
    levels: Tensor
    """(forecasts, smoothers), as the four below see `smoothing.smoother_forecasts`."""
    slopes: Tensor
    """(forecasts, smoothers)."""
    distances: Tensor
    """(smoothers, horizon)."""
    seasons: Tensor
    """(forecasts, horizon)."""
    repeated: Tensor
    """(forecasts, periods, horizon)."""

    @property
    def forecast_terms(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The arguments of `smoother_forecasts`."""
        return self.levels, self.slopes, self.distances, self.seasons, self.repeated

    def in_torch(self) -> Tensor:
        """Return the mixture by operations of torch."""
        logits = self.learned + self.prior.unsqueeze(2) / roots(self.learned.shape[2], self.learned)
        weights = (logits if self.usual is None else logits + self.usual).softmax(1)
        return (weights * smoother_forecasts(*self.forecast_terms)).sum(1)


def mix(mixture: Mixture) -> Tensor:
    """Return the mean of what all say, weighed by the softmax of their logits, (forecasts, horizon).

    Example:
        >>> one, nothing = torch.ones(1, 1), torch.zeros(1, 2)
        >>> said = one, one, torch.tensor([[1.0, 2.0]]), nothing, torch.zeros(1, 1, 2)
        >>> mix(Mixture(torch.zeros(1, 2, 2), nothing, None, *said))
        tensor([[1.0000, 1.5000]])
    """
    wide = torch.promote_types(mixture.learned.dtype, torch.float32)
    given = Mixture(*(None if each is None else each.to(wide).contiguous() for each in mixture))  # type: ignore[arg-type]
    if not has_kernel(given.learned):
        return given.in_torch()
    # A stream waits for its forecast: an operation's dispatch would take a third of the time.
    mixed: Tensor = (mixture_op(*given) if torch.is_grad_enabled() or observed(given.learned) else _run(given))[0]
    return mixed


def roots(horizon: int, like: Tensor) -> Tensor:
    """Return the square roots of the steps ahead, (horizon,)."""
    return torch.arange(1, horizon + 1, device=like.device, dtype=like.dtype).sqrt()


class MixtureUpstream(NamedTuple):
    """The gradient of a mixture, and its results."""

    gradient: Tensor
    mixed: Tensor
    weights: Tensor


def _run(given: Mixture) -> tuple[Tensor, Tensor]:
    """The mixture, and the weights of all in it."""
    # Here, since it imports the compiler, which takes a second and may not be installed.
    from gatedrnn.models import mixture_kernel

    return mixture_kernel.mix(given.learned, given.prior, given.usual, given.forecast_terms)


def _fake(given: Mixture) -> tuple[Tensor, Tensor]:
    return given.seasons.new_empty(given.seasons.shape), given.learned.new_empty(given.learned.shape)


def _run_gradient(upstream: MixtureUpstream, given: Mixture) -> Tensor:
    from gatedrnn.models import mixture_kernel

    return mixture_kernel.mix_gradient(*upstream, given.forecast_terms)


def _fake_gradient(upstream: MixtureUpstream, given: Mixture) -> Tensor:
    return given.learned.new_empty(given.learned.shape)


def _backward(upstream: Gradients, saved: Gradients, needed: frozenset[str], **arguments: Any) -> Gradients:
    # The weights, the second output, are saved for this gradient alone and have none.
    if upstream[0] is None:
        return (None,)
    return (mixture_gradient_op(upstream[0].contiguous(), *saved, *Mixture(**arguments)),)


def _reference(**arguments: Any) -> tuple[Tensor]:
    return (Mixture(**arguments).in_torch(),)


mixture_op = operation("mixture", (Mixture,), 2, _run, _fake, elementwise)
mixture_gradient_op = operation(
    "mixture_gradient", (MixtureUpstream, Mixture), 1, _run_gradient, _fake_gradient, elementwise
)
register_gradient(
    mixture_op, ("learned",), lambda outputs, **_: tuple(outputs), _backward, through(_reference, ("learned",))
)
