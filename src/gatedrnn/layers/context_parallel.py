"""Layers over sequences that are cut along time over processes: longer than one device holds.

flash-linear-attention's context parallelism and LASP (Sun et al. 2024, arXiv:2404.02882) send the states of linear
attention between devices; a scan of channels sends its products of decays beside them.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.nn.utils.rnn import PackedSequence

from gatedrnn.kinds.ranks import TimeRanks
from gatedrnn.layers.layer import RecurrentLayer


def context_parallel(module: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Make every recurrent layer of a module read sequences that are cut along time over a mesh.

    Each process passes its piece, as a tensor or as a `DTensor` that is sharded on time, and gets the output of its
    piece in the same form. `hx` is the same in every process, and so is `h_n`, the state after the last step of all.
    mask, resets and dropout_masks are those of the piece. Pieces may be of different lengths.

    Forward, each process sends 2 · batch · channels numbers a layer and direction (k + 1 times as many of a cell with
    blocks of k), and backward as many. Weights are the same everywhere: their gradient is the sum over processes, and
    so is that of a learned initial state.

    Args:
        module: holds layers of scan cells; its other modules act on single steps, or know the mesh.
        mesh: has one dimension, in the order of time.

    Returns:
        The module.

    Raises:
        ValueError: the mesh has more dimensions; there is no recurrent layer, or one whose state takes part in its
            gates, or one that scans over logarithms.

    Example:
        mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("time",))
        layer = context_parallel(MinGRU(64, 128, batch_first=True), mesh)
        pieces = distribute_tensor(sequences, mesh, [Shard(1)])
        output, h_n = layer(pieces)
    """
    if mesh.ndim != 1:
        raise ValueError(f"the mesh must have one dimension, time, got {mesh.ndim}: take mesh['time']")
    layers = [layer for layer in module.modules() if isinstance(layer, RecurrentLayer)]
    if not layers:
        raise ValueError(f"{type(module).__name__} has no recurrent layer")
    for layer in layers:
        if not layer._kind.cuts_over_ranks:
            raise ValueError(
                f"{type(layer).__name__} cannot be cut along time: "
                + ("its gates read the state, so that no step can begin before the one before it has ended"
                   if layer._kind.iterates else "log_space=True scans over logarithms")
            )  # fmt: skip
    for layer in layers:
        layer._ranks = TimeRanks(mesh.get_group())
        layer.forward = _OfPieces(layer, mesh)  # type: ignore[method-assign]
    return module


class _OfPieces:
    """The forward of a layer over pieces, which are tensors or parts of a `DTensor`."""

    def __init__(self, layer: RecurrentLayer, mesh: DeviceMesh) -> None:
        self.whole: Callable[..., Any] = layer.forward
        self.layer, self.mesh = layer, mesh

    def __call__(self, input: Tensor | PackedSequence, hx: Any = None, **others: Any) -> tuple[Tensor, Any]:
        layer = self.layer
        if isinstance(input, PackedSequence):
            raise TypeError("a PackedSequence has no axis of time to cut; pass a padded batch and its mask")
        if others.get("gaps") is not None:
            raise ValueError("gaps cannot be cut along time: a step's gap may begin in another process's piece")
        if layer._draws() and others.get("dropout_masks") is None:
            raise ValueError(
                "each process would draw other masks for one sequence; pass dropout_masks, the same for all but for "
                "zoneout's own steps, or call eval() first"
            )
        if not isinstance(input, DTensor):
            return self.whole(input, hx, **others)
        time = input.ndim - 2 if layer.batch_first or input.ndim == 2 else 0
        if input.device_mesh != self.mesh or input.placements != (Shard(time),):
            raise ValueError(
                f"the input must be sharded on time over the mesh, (Shard({time}),), got {input.placements}"
            )
        output, state = self.whole(input.to_local(), _local(hx), **{name: _local(x) for name, x in others.items()})
        shape = (*input.shape[:-1], output.shape[-1])
        stride = torch.empty(shape, device="meta").stride()
        pieces = DTensor.from_local(output, self.mesh, [Shard(time)], shape=torch.Size(shape), stride=stride)
        states = state if isinstance(state, tuple) else (state,)
        wholes = tuple(DTensor.from_local(part, self.mesh, [Replicate()], run_check=False) for part in states)
        return pieces, wholes if isinstance(state, tuple) else wholes[0]


def _local(x: Any) -> Any:
    """Return this process's part of each `DTensor`."""
    if isinstance(x, tuple):
        return tuple(map(_local, x))
    return x.to_local() if isinstance(x, DTensor) else x
