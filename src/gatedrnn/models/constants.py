"""Tensors that depend on sizes alone, kept from one call to the next: a stream would spend its time on making them."""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from gatedrnn.kernels.backends import observed


def constant(make: Callable[..., Tensor], like: Tensor, *sizes: int) -> Tensor:
    """`make(device, *sizes)`, the same tensor at each call, which nobody writes into.

    Args:
        make: a function of a module, which takes a device and sizes.
        like: a tensor of that device.
    """
    # Whatever follows tensors, such as an export, must meet no tensor of another call, and leave none of its own.
    return make(like.device, *sizes) if observed(like) else _cached(make, like.device, *sizes)


@lru_cache(maxsize=64)
def _cached(make: Callable[..., Tensor], device: torch.device, *sizes: int) -> Tensor:
    with torch.inference_mode(False), torch.no_grad():  # for whom the first caller is, no later one knows
        return make(device, *sizes)
