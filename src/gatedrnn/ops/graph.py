"""Gradients of gradients: the backward of a kernel once more in torch, so that it can be differentiated again."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def gradients_with_graph(
    function: Callable[..., tuple[Tensor, ...]], given: Sequence[Tensor | None], upstream: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Gradients of what is `given` and asks for them, through the function's torch form, to be differentiated again.

    Args:
        function: takes `given`, returns as many tensors as `upstream` has.
        upstream: their gradients; None for one that nobody asked for.
    """
    again = [x.view_as(x) if x is not None and x.requires_grad else x for x in given]
    inputs = [x for x in again if x is not None and x.requires_grad]
    pairs = [(o, g) for o, g in zip(function(*again), upstream, strict=True) if g is not None and o.requires_grad]
    # A state that no reset brings back takes part in nothing, and so do outputs that are constants.
    outputs, grads = [o for o, _ in pairs], [g for _, g in pairs]
    found = iter(torch.autograd.grad(outputs, inputs, grads, create_graph=True, materialize_grads=True))
    return [next(found) if x is not None and x.requires_grad else None for x in again]
