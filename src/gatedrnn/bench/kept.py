"""What a forward pass keeps for the backward pass."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks


def kept_for_backward(
    forward: Callable[[], tuple[Tensor, ...]], numbers: int, free: Iterable[Tensor], projection: int
) -> int:  # fmt: skip
    """Tensors kept beyond inputs, parameters, outputs and one projection.

    Each storage of at least `numbers` numbers counts once, however many views of it are kept.

    Args:
        forward: runs with a graph and gives its outputs.
        free: inputs and parameters.
        projection: numbers of the one tensor that may be kept beside; 0 for none.
    """
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.enable_grad(), saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs = forward()
    for tensor in (*free, *outputs):
        kept.pop(tensor.untyped_storage().data_ptr(), None)
    sizes = [tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in kept.values()]
    if projection in sizes:
        sizes.remove(projection)
    return sum(size >= numbers for size in sizes)
