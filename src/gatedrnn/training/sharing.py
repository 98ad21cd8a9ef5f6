"""The sharing of a run by processes: each batch by rows; the weights all in each process (DDP), or a part in each
(FSDP2), with checkpoints that another number of processes can read.
"""

import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import torch
import torch.distributed as dist
from accelerate import Accelerator
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
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
from gatedrnn.records import naming
from gatedrnn.training.checkpoint import COPIES
from gatedrnn.training.optimise import Weights, put_into, weights_of

Given = TypeVar("Given")
Found = TypeVar("Found")
MakeOptimizer = Callable[[nn.Module], torch.optim.Optimizer]


class Sharing(Protocol):
    """The parts of a run that depend on how its weights are shared."""

    model: nn.Module
    """The module that a step calls."""
    bare: GatedRNNPreTrainedModel
    """The model by itself."""
    optimizer: Any

    def accumulating(self) -> AbstractContextManager[object]:
        """Within, gradients are not exchanged: more of the same step follow."""
        ...

    def clip(self, largest: float) -> float:
        """Clip the gradient to that norm; the norm before."""
        ...

    def save(self, into: Path, copies: dict[str, Weights]) -> None:
        """Weights, optimizer, random numbers and what the accelerator has registered, and copies of weights by name."""
        ...

    def load(self, folder: Path) -> dict[str, Weights]:
        """Load what `save` wrote, whatever the number of processes was, and return the copies."""
        ...

    def whole(self, make: Callable[[], GatedRNNPreTrainedModel]) -> GatedRNNPreTrainedModel:
        """A model that has all weights; `make` makes one that has the right shapes."""
        ...


class Replicas:
    """All weights in each process; one process alone, too."""

    def __init__(self, accelerator: Accelerator, model: GatedRNNPreTrainedModel, optimizer: MakeOptimizer) -> None:
        self.accelerator = accelerator
        self.optimizer = optimizer(model)
        # Accelerate saves and moves what it prepares. Its own step, which would scale losses in float16, is not used:
        # it looks for packages on the disk every time.
        self.model, _ = accelerator.prepare(model, self.optimizer)
        self.bare: GatedRNNPreTrainedModel = accelerator.unwrap_model(self.model)

    def accumulating(self) -> AbstractContextManager[object]:
        """Accumulate gradients within this context, without exchanging them."""
        return self.accelerator.no_sync(self.model)

    def clip(self, largest: float) -> float:
        """Clip the gradient to that norm, and return the norm before."""
        return float(self.accelerator.clip_grad_norm_(self.model.parameters(), largest))

    def save(self, into: Path, copies: dict[str, Weights]) -> None:
        """Save the state of training, and each copy of the weights to a file."""
        self.accelerator.save_state(str(into))
        if self.accelerator.is_main_process:
            for name, weights in copies.items():
                with naming(into / f"{name}.safetensors", SafetensorError):
                    save_file(weights, into / f"{name}.safetensors")

    def load(self, folder: Path) -> dict[str, Weights]:
        """Load what `save` wrote, and return the copies of weights."""
        self.accelerator.load_state(str(folder))
        files = (folder / f"{name}.safetensors" for name in COPIES)
        return {file.stem: load_file(file) for file in files if file.exists()}

    def whole(self, make: Callable[[], GatedRNNPreTrainedModel]) -> GatedRNNPreTrainedModel:
        """The model itself, since each process has all weights."""
        return self.bare


def in_turns(accelerator: Accelerator, do: Callable[[Given], Found], of: Sequence[Given]) -> Iterable[Found]:
    """Apply `do` to each item, every process doing its share; the results come in the order of items.

    All processes do the same number of them, since weights that are shared out are gathered by all.
    """
    processes = accelerator.num_processes
    if processes == 1:
        return map(do, of)
    rounds = -(-len(of) // processes)
    results = [do(of[min(accelerator.process_index + processes * turn, len(of) - 1)]) for turn in range(rounds)]
    everyones: list[list[Found]] = [[] for _ in range(processes)]
    dist.all_gather_object(everyones, results)
    return [everyones[number % processes][number // processes] for number in range(len(of))]


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
