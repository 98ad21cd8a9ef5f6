"""A part of each weight in each process: FSDP2, and checkpoints that another number of processes can read."""

import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import nn
from torch._C._distributed_c10d import HashStore
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor

from gatedrnn.errors import CheckpointDamaged
from gatedrnn.layers import RecurrentLayer
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.training.optimise import Weights, put_into, weights_of
from gatedrnn.training.sharing import COPIES, MakeOptimizer

METADATA = {
    ("torch", "Size"), ("torch.serialization", "_get_layout"), ("pathlib", "PosixPath"), ("pathlib", "WindowsPath"),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    *(("torch.distributed.checkpoint.metadata", name) for name in (
        "Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata", "TensorProperties",
        "MetadataIndex", "StorageMeta", "_MEM_FORMAT_ENCODING",
    )),
}  # fmt: skip
"""The classes that the metadata of a checkpoint in parts consist of."""


class Shards:
    """A part of each weight, of its gradient and of its moments in each process (FSDP2); a layer has whole weights
    while it runs. Checkpoints are those of torch.distributed.checkpoint: each process writes its part."""

    def __init__(self, accelerator: Accelerator, model: GatedRNNPreTrainedModel, optimizer: MakeOptimizer) -> None:
        if not dist.is_initialized():  # one process that torchrun has not started
            dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
        self.accelerator = accelerator
        mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
        for module in model.modules():
            if isinstance(module, RecurrentLayer):
                fully_shard(module, mesh=mesh)
        # After an evaluation too, parameters are parts again, whose copies can be put back.
        fully_shard(model, mesh=mesh, reshard_after_forward=True)
        warnings.filterwarnings("ignore", "FSDP2-wrapped module")  # of operations in place, which models have none of
        if hasattr(model, "token_losses"):
            register_fsdp_forward_method(model, "token_losses")
        self.model: nn.Module = model
        self.bare = model
        self.optimizer = optimizer(model)

    @contextmanager
    def accumulating(self) -> Iterator[None]:
        """Accumulate gradients within this context, without exchanging them."""
        shared = cast(FSDPModule, self.model)
        shared.set_requires_gradient_sync(False)
        yield
        shared.set_requires_gradient_sync(True)

    def clip(self, largest: float) -> float:
        """Clip the gradient to that norm, and return the norm before."""
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), largest)
        return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)

    def save(self, into: Path, copies: dict[str, Weights]) -> None:
        """Save the state of training and the copies of weights, each process its part."""
        self.accelerator.save_state(str(into))
        save({**self._state(), **copies}, checkpoint_id=into)

    def load(self, folder: Path) -> dict[str, Weights]:
        """Load what `save` wrote, and return the copies of weights."""
        self.accelerator.load_state(str(folder))
        reader = SafeReader(folder)
        kept = {name.partition(".")[0] for name in reader.read_metadata().state_dict_metadata}
        copies = {name: weights_of(self.bare) for name in COPIES if name in kept}
        state = self._state()
        load({**state, **copies}, storage_reader=reader)
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        return copies

    def whole(self, make: Callable[[], GatedRNNPreTrainedModel]) -> GatedRNNPreTrainedModel:
        """A model that has all weights, gathered from all processes."""
        weights = {name: cast(DTensor, part).full_tensor() for name, part in self.bare.named_parameters()}
        model = make()
        put_into(model, weights)
        return model

    def _state(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}


class _Metadata(pickle.Unpickler):
    """Metadata of a checkpoint, which are a pickle: makes what they are made of, and runs nothing else."""

    def find_class(self, module: str, name: str) -> object:
        class_ = super().find_class(module, name) if (module, name) in METADATA or module == "torch" else None
        if (module, name) not in METADATA and not isinstance(class_, torch.dtype):
            raise CheckpointDamaged(
                f"its metadata name {module}.{name}, of which no checkpoint is made; nothing was run"
            )
        return class_


class SafeReader(FileSystemReader):
    """Reads a checkpoint that anybody may have written."""

    def read_metadata(self, *args: object, **kwargs: object) -> Metadata:
        path = Path(self.path) / ".metadata"
        with path.open("rb") as file:
            try:
                metadata: Metadata = _Metadata(file).load()
            except CheckpointDamaged as error:
                raise CheckpointDamaged(f"{path}: {error}") from error
        metadata.storage_meta = metadata.storage_meta or StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata
