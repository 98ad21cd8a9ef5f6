"""The sharing of a run by processes: each batch by rows; all weights are in each process (DDP)."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from accelerate import Accelerator
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from gatedrnn.errors import CheckpointDamaged
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.records import naming
from gatedrnn.training.checkpoint import COPIES
from gatedrnn.training.optimise import Weights

Given = TypeVar("Given")
Found = TypeVar("Found")
MakeOptimizer = Callable[[nn.Module], torch.optim.Optimizer]


class Sharing:
    """A model and its optimizer, the same in each process; one process alone, too."""

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
        """Load what `save` wrote, whatever the number of processes was, and return the copies of weights.

        Raises:
            CheckpointDamaged: its weights are in parts, as the setting `shard` of an earlier version left them.
        """
        if any(folder.glob("*.distcp")):
            raise CheckpointDamaged(
                f"{folder}: its weights are in parts, as the removed setting shard left them, and are not read; train "
                "again in another folder"
            )
        self.accelerator.load_state(str(folder))
        files = (folder / f"{name}.safetensors" for name in COPIES)
        return {file.stem: load_file(file) for file in files if file.exists()}


def in_turns(accelerator: Accelerator, do: Callable[[Given], Found], of: Sequence[Given]) -> Iterable[Found]:
    """Apply `do` to each item, every process doing its share; the results come in the order of items."""
    processes = accelerator.num_processes
    if processes == 1:
        return map(do, of)
    results = [do(item) for item in of[accelerator.process_index :: processes]]
    everyones: list[list[Found]] = [[] for _ in range(processes)]
    dist.all_gather_object(everyones, results)
    return [everyones[number % processes][number // processes] for number in range(len(of))]
