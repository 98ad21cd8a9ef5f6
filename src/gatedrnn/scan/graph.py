"""Gradients of gradients: a kernel's way back, once more in torch, so that it can be differentiated again."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def gradients_with_graph(
    function: Callable[..., tuple[Tensor, ...]], given: Sequence[Tensor | None], upstream: tuple[Tensor, ...]
) -> list[Tensor | None]:
    """Gradients of what is `given` and asks for them, through the function's torch form, to be differentiated again."""
    again = [x.view_as(x) if x is not None and x.requires_grad else x for x in given]
    inputs = [x for x in again if x is not None and x.requires_grad]
    # A state that no reset brings back takes part in nothing.
    found = iter(torch.autograd.grad(function(*again), inputs, upstream, create_graph=True, materialize_grads=True))
    return [next(found) if x is not None and x.requires_grad else None for x in again]
